"""Consumer groups (KIP-848): the coordinator assigns, and each member moves towards its part at its own pace.

Three epochs tell how far everybody is. The group epoch rises with each change of members, subscriptions or topics.
The assignment epoch is the group epoch for which the target assignment was computed. A member's epoch is the
assignment epoch that it has reached. A member first gives up what is not its any more, then takes the new epoch, and
gets a partition when its former owner has given it up; so no partition ever has two owners.

Enters: a heartbeat (`heartbeat.py`), a request of a member of the classic protocol (`classic_members.py`), a deadline,
or a record of the log. Leaves: records and an answer. All of a group but its deadlines is durable: `records.py` has the
record types, `replay.py` turns them into `ConsumerGroup`.

- `consumer_group.py` and `member.py` are the state; `reconciliation.py` moves one member; `target.py` computes the
  target assignment with one of `assignors/`.
- `expressions.py` matches the patterns that members subscribe to, in a job beside the heartbeats.
- `assigning.py` says when a target is due, and whether it is computed in the heartbeat or in a job beside them.
- `progress.py` is what every request brings about; `upgrade.py` and `downgrade.py` turn a group into the other kind.
- `membership.py` removes members; `offsets.py` says who may commit and fetch; `describe.py` shows a group.

Deliberately absent: racks.
"""
