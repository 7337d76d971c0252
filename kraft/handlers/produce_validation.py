"""Checks before the appends of a Produce request: of the request, its codec and its topics.

The batch itself (size, CRC, magic, records) is checked at the append, in `kraft.storage.log_validator`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kraft.common.errors import ApiError
from kraft.common.internal_topics import INTERNAL_TOPICS
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.compression import CODEC_NAMES, ZSTD
from kraft.protocol.records.record_batch import HEADER_SIZE, MAGIC

if TYPE_CHECKING:
    from kraft.handlers.registry import RequestContext
    from kraft.protocol.messages.produce_request import ProduceRequest, TopicProduceData

ADMIN_CLIENT_ID = "__admin_client"
"""The only client id that may write to internal topics, as in Kafka."""
ZSTD_VERSION = 7
TOPIC_ID_VERSION = 13
MAGIC_AT, ATTRIBUTES_AT = 16, 22
CODEC_BITS, TRANSACTIONAL_BIT = 0x07, 0x10


def refusal_of(request: ProduceRequest, version: int, may_use_transaction: Callable[[], bool]) -> ApiError | None:
    """The error that rejects the whole request, or None. `may_use_transaction` is called only if there are
    transactional records."""
    is_asked = False
    refusal = None
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None:
                refusal = refusal or ApiError(
                    ErrorCode.INVALID_RECORD, f"partition {data.index} of {topic.name!r} comes without a record batch"
                )
            elif len(records) >= HEADER_SIZE and records[MAGIC_AT] == MAGIC:
                attributes = records[ATTRIBUTES_AT]
                if attributes & TRANSACTIONAL_BIT and not is_asked:
                    if not may_use_transaction():
                        return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                    is_asked = True
                if version < ZSTD_VERSION and attributes & CODEC_BITS >= len(CODEC_NAMES):
                    refusal = refusal or ApiError(
                        ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown compression codec {attributes & CODEC_BITS}"
                    )
    if request.acks not in (-1, 0, 1):
        refusal = refusal or ApiError(
            ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}: only -1, 0 and 1 are known"
        )
    return refusal


def check_codec(records: bytes | bytearray | memoryview | None) -> None:
    """Reject zstd in versions of Produce that do not support it (KIP-110)."""
    if (
        records is not None
        and len(records) >= HEADER_SIZE
        and records[MAGIC_AT] == MAGIC
        and records[ATTRIBUTES_AT] & CODEC_BITS == ZSTD
    ):
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs version {ZSTD_VERSION} of Produce")


def check_topic(name: str, topic: TopicProduceData, context: RequestContext) -> None:
    if not name:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_ID
            if context.api_version >= TOPIC_ID_VERSION
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "",
        )
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is internal: clients may not write to it")
