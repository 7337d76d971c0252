"""Records that the HTTP edge consumes in tests."""

from __future__ import annotations

import asyncio
from typing import Any

from kraft_http.ports import Caller, NodeIdentity

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kraft.protocol.messages.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.control_record import TransactionMarker, build_marker_batch
from kraft.protocol.records.record import Record

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"


class Log:
    """One partition. Batches are added at its end."""

    def __init__(self, start: int = 0) -> None:
        self.start = self.end = start
        self.batches: list[tuple[int, bytes]] = []
        self.stable_end: int | None = None
        """The last stable offset, where a transaction is open."""
        self.aborted: list[AbortedTransaction] = []
        self.open_from: dict[int, int] = {}

    def append(self, *values: bytes, producer_id: int = -1) -> None:
        records = [Record(self.end + index, 0, None, value, ()) for index, value in enumerate(values)]
        known: dict[str, Any] = (
            {}
            if producer_id < 0
            else {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        )
        self.batches.append((self.end + len(values), bytes(build_batch(records, **known))))
        self.end += len(values)

    def mark(self, producer_id: int, control_type: int) -> None:
        batch = build_marker_batch(
            TransactionMarker(control_type, 0),
            offset=self.end,
            timestamp_ms=0,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
        )
        self.batches.append((self.end + 1, batch))
        self.end += 1

    def read(self, offset: int, max_bytes: int, *, committed: bool) -> PartitionData:
        if not self.start <= offset <= self.end:
            return PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        stable = self.end if self.stable_end is None else self.stable_end
        data = b""
        for next_offset, batch in self.batches:
            if next_offset <= offset or (committed and next_offset > stable) or (data and len(data) >= max_bytes):
                continue
            data += batch
        aborted = self.aborted if committed else None
        return PartitionData(last_stable_offset=stable, records=memoryview(data), aborted_transactions=aborted)


class Port:
    """A node that leads every partition of topic `t`, but those that are None."""

    identity = NodeIdentity(node_id=1, roles=("broker",), cluster_id=CLUSTER, version="test", admin_host="node")

    def __init__(self, *logs: Log | None) -> None:
        self.logs = logs
        self.topic_id = bytes(range(16))
        self.asked: list[int] = []

    async def on_behalf_of(self, caller: Caller) -> Port:
        """For all the same."""
        await asyncio.sleep(0)
        return self

    async def call(self, api_key: int, version: int, request: Any, *, node_id: int | None = None) -> Any:
        await asyncio.sleep(0)
        self.asked.append(api_key)
        return {
            ApiKey.METADATA: self.metadata,
            ApiKey.LIST_OFFSETS: self.offsets,
            ApiKey.FETCH: self.fetch,
            ApiKey.DESCRIBE_PRODUCERS: self.producers,
        }[api_key](request)

    def log(self, index: int) -> Log:
        log = self.logs[index]
        assert log is not None
        return log

    def metadata(self, request: Any) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=-1 if log is None else 1)
            for index, log in enumerate(self.logs)
        ]
        return MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=self.topic_id, partitions=partitions)])

    def offsets(self, request: Any) -> ListOffsetsResponse:
        told = []
        for each in request.topics[0].partitions:
            log = self.log(each.partition_index)
            end = log.stable_end if request.isolation_level and log.stable_end is not None else log.end
            offset = end if each.timestamp == -1 else log.start
            told.append(ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=offset))
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=told)])

    def fetch(self, request: Any) -> FetchResponse:
        asked = request.topics[0].partitions[0]
        found = self.log(asked.partition).read(
            asked.fetch_offset, asked.partition_max_bytes, committed=bool(request.isolation_level)
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[found])])

    def producers(self, request: Any) -> DescribeProducersResponse:
        [index] = request.topics[0].partition_indexes
        states = [
            ProducerState(producer_id=producer_id, current_txn_start_offset=first)
            for producer_id, first in self.log(index).open_from.items()
        ]
        partition = PartitionResponse(partition_index=index, active_producers=states)
        return DescribeProducersResponse(topics=[TopicResponse(name="t", partitions=[partition])])
