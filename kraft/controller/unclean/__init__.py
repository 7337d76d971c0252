"""The election of a leader when no eligible replica is left, and the records of it.

- `recovery.py` decides, purely. `log_comparison.py` says which log has the most.
- `election_facts.py` holds the facts of a decision or a wait that are shown to operators.
- `leaderless_watch.py` drives it: it asks replicas through `replica_questions.py` and writes the decision.
- `open_times.py` knows since when partitions wait.
- `loss_records.py` writes a report of each unclean election into the metadata log, and `reports.py` writes it into the
  node's own log.

The broker of a replica reports what the replica truncated: `kraft/replication`.
"""
