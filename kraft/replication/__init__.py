"""The replicas hosted on one broker: roles, in-sync replica sets, what clients may read, and parked requests.

Start with `partition` and `replica_manager`. `fetchers` follow leaders on other brokers. `sessions` are incremental
fetch sessions. `logs` runs the work on disks, `tiers` the work on the remote tier. `unclean` reports the records lost
to unclean elections.

Enters: appends and reads from handlers, fetches of followers, changed partitions from the metadata publisher. Leaves:
log appends, responses, wake-ups, AlterPartition proposals. Deliberately absent: files (kraft/storage) and elections
(the controller's).
"""
