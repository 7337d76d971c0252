"""Tiered storage (KIP-405): sealed segments of a log lie in an object store too, and may leave the disk.

What enters: facts of a log (`log_facts`), records of `__remote_log_metadata`. What leaves: which segments are to be
copied, which may leave the disk (`copy_decisions`), which are to be deleted from the store (`remote_retention`), the
deeds themselves through the world's object store (`remote_partition`, in rounds by `remote_log_task`), and records read
back from there (`segment_reader`). What the metadata say of one partition is a `RemoteLogMetadataCache`, made by
replaying its records (`metadata_serde`); `metadata_manager` has those of a broker's partitions. docs/adr/0016 tells why
nothing is lost on the way. Deliberately absent: when to do it, and how the topic is read and written.
"""
