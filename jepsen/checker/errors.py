"""The error codes that mean that a request certainly had no effect.

Most false alarms and most misses of a checker are caused here. A code is definite only if the broker returns it before
it appends. NOT_ENOUGH_REPLICAS is definite, NOT_ENOUGH_REPLICAS_AFTER_APPEND is not. NOT_LEADER_OR_FOLLOWER is not
definite with acks=all: a leader that is deposed while it waits for its followers returns it too.
"""

from __future__ import annotations

from typing import Final

DEFINITE: Final = frozenset(
    (
        "NOT_ENOUGH_REPLICAS",
        "MESSAGE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_RECORD",
        "CORRUPT_MESSAGE",
        "INVALID_TIMESTAMP",
        "INVALID_TOPIC_EXCEPTION",
        "INVALID_REQUIRED_ACKS",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "INVALID_PRODUCER_EPOCH",
        "UNKNOWN_PRODUCER_ID",
        "INVALID_PRODUCER_ID_MAPPING",
        "PRODUCER_FENCED",
        "INVALID_TXN_STATE",
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "UNSUPPORTED_VERSION",
        "INVALID_REQUEST",
        "POLICY_VIOLATION",
        "ILLEGAL_GENERATION",
        "UNKNOWN_MEMBER_ID",
        "FENCED_INSTANCE_ID",
        "STALE_MEMBER_EPOCH",
        "FENCED_MEMBER_EPOCH",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "OFFSET_METADATA_TOO_LARGE",
        "INVALID_GROUP_ID",
        "TOPIC_ALREADY_EXISTS",
        "INVALID_PARTITIONS",
        "INVALID_REPLICATION_FACTOR",
        "INVALID_CONFIG",
    )
)


def is_definite(error: str) -> bool:
    """Whether the error of this name means that nothing was written."""
    return error in DEFINITE
