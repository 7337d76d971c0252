"""The Raft of Kafka (KRaft: KIP-595, 630, 853, 996, 1166) as a pure state machine.

What enters: events (`events.py`) and the time. What leaves: `Effects` (`effects.py`), in the order in which they
must be carried out. What lives here: the roles of a replica, elections with pre-vote, replication by Fetch, the high
watermark, check quorum, snapshots, and changes of the voter set. What is deliberately absent: bytes of records,
files, sockets, clocks. The core knows its log only by offsets and epochs (`log_state.py`); payloads pass through it
unopened. So the same class runs under trio in a node (`kraft/raft/driver.py`), under a bare heap scheduler in the
property tests, and by text scripts in `tests/scenarios/raft`.

- `raft_node.py`: `RaftNode.step(event, now_ms) -> Effects`, dispatch only.
- `quorum_state.py`: the state that every part shares, the transitions between roles, and the effects being
  collected.
- `voting.py`, `leadership.py`, `fetching.py` (leader's side), `following.py` (follower's side), `snapshots.py`,
  `reconfiguration.py`: one concern each, plain functions on `QuorumState`.
- `roles.py`, `voter_set.py`, `election_state.py`, `log_state.py`, `messages.py`: values.

Differences from the thesis: followers pull, the offset of a Fetch is the acknowledgement; a leader that restarts may
not lead its old epoch again, since it cannot know what it appended.
"""
