"""Produce (KIP-98, KIP-467, KIP-516, KIP-951): append one batch a partition.

A small request that needs no other replica is answered before this function returns. With acks=all over several
replicas the answer waits for the high watermark; the append has happened by then, so that the connection may start
its next Produce. Large batches are written in a thread, as a first stage that the next Produce waits for.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kraft.common.errors import ApiError
from kraft.handlers.errors import EXPECTED
from kraft.handlers.produce_settling import ProduceSettling
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.network.reply import Reply
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from kraft.protocol.records.compression import CODEC_NAMES, ZSTD
from kraft.protocol.records.record_batch import HEADER_SIZE, MAGIC

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

API = Handler(ApiKey.PRODUCE, between(3, 13), advertised_min=0, overtakes=True)

INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
ADMIN_CLIENT_ID = "__admin_client"
ZSTD_VERSION = 7
MAGIC_AT, ATTRIBUTES_AT = 16, 22
CODEC_BITS, TRANSACTIONAL_BIT = 0x07, 0x10


@API.serve_raw
def produce(
    frame: memoryview, position: int, context: RequestContext, broker: BrokerServices
) -> Reply | Awaitable[Reply]:
    """Answers at once unless a thread writes, this replica's disk or followers must be waited for."""
    request, _ = ProduceRequest.decode_from(frame, position, context.api_version)
    refusal = _refusal(request, context.api_version)
    settling = ProduceSettling(context, broker, request.acks, request.timeout_ms, broker.world.clock.wall_ms())
    for topic in request.topic_data:
        answers = []
        name = topic.name or broker.replicas.topic_names.get(topic.topic_id, "")
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index, base_offset=-1)
            answers.append(answer)
            partition = None
            try:
                if refusal is not None:
                    raise refusal
                _check_topic(name, topic, context)
                if context.api_version < ZSTD_VERSION:
                    _check_codec(data.records)
                partition = broker.replicas.partition(name, data.index)
                settling.append(answer, partition, data.records)  # type: ignore[arg-type]  # Null records are refused above.
            except EXPECTED as problem:
                settling.fail(answer, problem, name, partition)
        settling.topics.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    return settling.outcome()


def _refusal(request: ProduceRequest, version: int) -> ApiError | None:
    """Why the whole request is refused, or None. No transactional id is known to this cluster, so that nobody may
    write in a transaction."""
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
                if attributes & TRANSACTIONAL_BIT:
                    return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                if version < ZSTD_VERSION and attributes & CODEC_BITS >= len(CODEC_NAMES):
                    refusal = refusal or ApiError(
                        ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown compression codec {attributes & CODEC_BITS}"
                    )
    if request.acks not in (-1, 0, 1):
        refusal = refusal or ApiError(
            ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}: only -1, 0 and 1 are known"
        )
    return refusal


def _check_codec(records: bytes | bytearray | memoryview | None) -> None:
    """Clients of these versions cannot read zstd: it may not come from them either (KIP-110)."""
    if (
        records is not None
        and len(records) >= HEADER_SIZE
        and records[MAGIC_AT] == MAGIC
        and records[ATTRIBUTES_AT] & CODEC_BITS == ZSTD
    ):
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs version {ZSTD_VERSION} of Produce")


def _check_topic(name: str, topic: TopicProduceData, context: RequestContext) -> None:
    if not name:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_ID if context.api_version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""
        )
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is internal: clients may not write to it")
