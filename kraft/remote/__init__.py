"""Tiered storage (KIP-405): sealed segments of a log lie in an object store too, and may leave the disk.

What enters: records of `__remote_log_metadata` (`metadata_serde`). What leaves: what they say of one partition, a
`RemoteLogMetadataCache`. docs/adr/0016 tells why nothing is lost on the way. Deliberately absent: how records get into
the topic and out of it.
"""
