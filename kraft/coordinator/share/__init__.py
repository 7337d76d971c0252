"""The share coordinator: the durable state of share groups' partitions (KIP-932).

Enters: the five share-state APIs of partition leaders and group coordinators. Leaves: records of `__share_group_state`.
Deliberately absent: members and assignments of share groups (the group coordinator has them), and records in flight
(the partition's leader has them).
"""
