"""Appending and reading records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from api.kafka.client import Kafka, raise_for
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kraft.protocol.messages.delete_records_response import DeleteRecordsResponse
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import batches
from kraft.protocol.schema import Bytes

TIMEOUT_MS = 30_000
ALL_IN_SYNC = -1


class Appended(NamedTuple):
    base_offset: int
    log_append_time_ms: int
    """-1 when the topic keeps the producers' times."""


class Fetched(NamedTuple):
    records: list[Record]
    next_offset: int
    """Where to go on: after the last record read, or after what a compacted or control batch skipped."""
    high_watermark: int
    log_start_offset: int


async def produce(kafka: Kafka, topic: str, partition: int, leader: int, records: Sequence[Record]) -> Appended:
    """Append one batch with acks=all. Raises KafkaProblem; a REQUEST_TIMED_OUT leaves open whether the records are there."""
    data = PartitionProduceData(index=partition, records=memoryview(build_batch(records)))
    request = ProduceRequest(acks=ALL_IN_SYNC, timeout_ms=TIMEOUT_MS, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    response = await kafka.ask(ApiKey.PRODUCE, 9, request, ProduceResponse, leader)
    answer = response.responses[0].partition_responses[0]
    raise_for(answer.error_code, answer.error_message)
    return Appended(answer.base_offset, answer.log_append_time_ms)


async def fetch(kafka: Kafka, topic: str, partition: int, leader: int, offset: int, *, max_bytes: int, max_wait_ms: int, committed: bool) -> Fetched:
    """Records from `offset` on, at least one if there is any. Raises KafkaProblem."""
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )
    response = await kafka.ask(ApiKey.FETCH, 12, request, FetchResponse, leader)
    raise_for(response.error_code)
    answer = response.responses[0].partitions[0]
    raise_for(answer.error_code, subject=f"{topic}-{partition} at offset {offset}")
    aborted = {(transaction.producer_id, transaction.first_offset) for transaction in answer.aborted_transactions or ()} if committed else set()
    records, next_offset = _decode(answer.records, offset, aborted)
    return Fetched(records, next_offset, answer.high_watermark, answer.log_start_offset)


def _decode(data: Bytes | None, offset: int, aborted: set[tuple[int, int]]) -> tuple[list[Record], int]:
    """The records from `offset` on that a consumer may see, and the offset after the last whole batch."""
    found: list[Record] = []
    next_offset = offset
    aborting: set[int] = set()
    for batch in batches(data or b"", partial_tail=True):
        next_offset = max(next_offset, batch.next_offset)
        if batch.is_control:
            aborting.discard(batch.producer_id)
            continue
        if batch.is_transactional:
            begun = {(producer_id, first) for producer_id, first in aborted if producer_id == batch.producer_id and first <= batch.base_offset}
            aborting |= {producer_id for producer_id, _ in begun}
            aborted = aborted - begun
            if batch.producer_id in aborting:
                continue
        found += [record for record in batch.records() if record.offset >= offset]
    return found, next_offset


async def delete_records(kafka: Kafka, topic: str, partition: int, leader: int, before_offset: int) -> int:
    """Cut everything before an offset (-1: before the high watermark). Returns the partition's first offset. Raises KafkaProblem."""
    asked = DeleteRecordsPartition(partition_index=partition, offset=before_offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=TIMEOUT_MS)
    response = await kafka.ask(ApiKey.DELETE_RECORDS, 2, request, DeleteRecordsResponse, leader)
    answer = response.topics[0].partitions[0]
    raise_for(answer.error_code, subject=f"{topic}-{partition}")
    return answer.low_watermark
