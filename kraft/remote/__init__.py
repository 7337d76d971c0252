"""Tiered storage (KIP-405): closed segments of a log are copied to an object store, and may then be deleted from the
disk.

Enters: facts of a log (`log_facts`), records of `__remote_log_metadata`. Leaves: which segments to copy, which may be
deleted from the disk (`copy_decisions`), and which to delete from the store (`remote_retention`). Copies and deletions
are carried out through the world's object store (`remote_partition`, in rounds by `remote_log_task`), and records are
read back from it (`segment_reader`).

The metadata of one partition is a `RemoteLogMetadataCache`, built by replaying its records (`metadata_serde`).
`metadata_manager` has the caches of a broker's partitions. docs/adr/0016 shows why no record is lost on the way.
Deliberately absent: when to run a round, and how the topic is read and written.
"""
