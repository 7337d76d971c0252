"""Kafka's Raft (KRaft: KIP-595, 630, 853, 996, 1166) as a pure state machine.

Enters: events (`events.py`) and the time. Leaves: `Effects` (`effects.py`), in the order in which they must be carried
out. In here: the roles of a replica, elections with pre-vote, replication by Fetch, the high watermark, check quorum,
snapshots, and changes of the voter set. Deliberately absent: bytes of records, files, sockets, clocks.

The core knows its log only by offsets and epochs (`log_state.py`), and never decodes payloads. So the same class runs
under trio in a node (`kraft/raft/driver.py`), under a simple heap scheduler in the property tests, and in text scripts
in `tests/scenarios/raft`.

- `raft_node.py`: `RaftNode.step(event, now_ms) -> Effects`, dispatch only.
- `quorum_state.py`: the shared state, the transitions between roles, and the effects collected by a step.
- `voting.py`, `leadership.py` (leader's side), `following.py` (follower's side), `snapshots.py`,
  `reconfiguration.py`: one concern each, plain functions on `QuorumState`.
- `roles.py`, `voter_set.py`, `election_state.py`, `log_state.py`, `messages.py`: values.

Differences from the Raft thesis: followers pull, and the offset of a Fetch is the acknowledgement. A leader that
restarts may not lead its old epoch again, since it cannot know what it appended.
"""
