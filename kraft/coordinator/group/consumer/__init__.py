"""Consumer groups (KIP-848): the coordinator assigns, and each member moves to its target at its own pace.

There are three epochs. The group epoch rises with each change of members, subscriptions or topics. The assignment epoch
is the group epoch for which the target assignment was computed. The member epoch is the assignment epoch that a member
has reached. A member first revokes partitions it must give up, then adopts the new epoch, and gets a partition once its
former owner has revoked it. So no partition ever has two owners.

Input: a heartbeat (`heartbeat.py`), a request of a classic member (`classic_members.py`), a deadline, or a record of
the log. Output: records and a response. All of a group's state but its deadlines is durable: `records.py` has the
record types, `replay.py` turns them into `ConsumerGroup`.

- `consumer_group.py` and `member.py` are the state; `reconciliation.py` moves one member; `target.py` computes the
  target assignment with one of `assignors/`.
- `expressions.py` matches the patterns that members subscribe to, in a job beside the heartbeats.
- `assigning.py` decides when a target is due, and whether it is computed in the heartbeat or in a job.
- `progress.py` is what every request triggers; `upgrade.py` and `downgrade.py` convert a group to the other kind.
- `membership.py` removes members; `offsets.py` decides who may commit and fetch; `describe.py` describes a group.

Deliberately absent: racks.
"""
