"""The election of a leader when no eligible replica is left, and its reports.

- `recovery.py` makes the decisions. It is pure. `log_comparison.py` finds the log with the most records.
- `election_facts.py` has the facts of a decision or a wait, as shown to operators.
- `leaderless_watch.py` runs recoveries: it asks replicas through `replica_questions.py` and writes the decision.
- `leaderless_since.py` records since when partitions wait.
- `loss_records.py` writes a report of each unclean election to the metadata log. `reports.py` writes it to the node's
  own log.

A replica's broker reports the records that the replica truncated: `kraft/replication`.
"""
