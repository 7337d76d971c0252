"""Names inside a log directory, exactly Kafka's."""

from __future__ import annotations

import re

from kraft.common.ids import TopicPartition

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
PRODUCER_SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

DELETE_DIRECTORY_SUFFIX = "-delete"
STRAY_DIRECTORY_SUFFIX = "-stray"
FUTURE_DIRECTORY_SUFFIX = "-future"

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
ABSENT_DIRECTORIES = "absent-directories"
TRANSACTION_INDEXES_WHOLE = "transaction-indexes-whole"
LOCK = ".lock"

SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

_SEGMENT_FILE = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.deleted|\.cleaned|\.swap)?")
_DIRECTORY = re.compile(r"(.+)-(\d+)")
_MARKED_DIRECTORY = re.compile(r".+\.[0-9a-f]{32}(-delete|-stray|-future)")
_DIRECTORY_NAME_MAX = 255


def offset_file_name(offset: int, suffix: str) -> str:
    """File name with `offset` in twenty digits, so that names sort by offset."""
    return f"{offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str, str] | None:
    """Parse the name of a log's file into (base offset, file suffix, state suffix). The state suffix is "", .deleted,
    .cleaned or .swap. None for any other name."""
    match = _SEGMENT_FILE.fullmatch(name)
    return None if match is None else (int(match[1]), match[2], match[3] or "")


def directory_name(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition of a directory named `<topic>-<n>`; None for any other name, including marked ones (`-delete`,
    `-stray`, `-future`)."""
    match = _DIRECTORY.fullmatch(name)
    return None if match is None else TopicPartition(match[1], int(match[2]))


def marked_directory_name(topic_partition: TopicPartition, unique: bytes, suffix: str) -> str:
    """`<topic>-<n>.<32 hex digits><suffix>`, with the topic shortened to fit the file system's limit on names."""
    tail = f"-{topic_partition.partition}.{unique.hex()}{suffix}"
    return topic_partition.topic[: _DIRECTORY_NAME_MAX - len(tail)] + tail


def is_marked_directory(name: str, suffix: str) -> bool:
    match = _MARKED_DIRECTORY.fullmatch(name)
    return match is not None and match[1] == suffix
