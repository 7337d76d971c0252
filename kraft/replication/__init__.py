"""Replicas of partitions on one broker: who leads, what is in sync, what clients may read, and who waits for it.

`partition` and `replica_manager` are the middle of it; `fetchers` follow leaders, `sessions` remember who fetches what,
`logs` and `tiers` drive what is on disks and in the remote tier, `unclean` tells what elections cost.

Enters: appends and reads from handlers, fetches of followers, changed partitions from the metadata publisher.
Leaves: log appends, answers, wake-ups, AlterPartition proposals. Deliberately absent: files (kraft/storage) and
elections (the controller's).
"""
