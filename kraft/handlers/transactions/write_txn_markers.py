"""WriteTxnMarkers (KIP-98, KIP-890): a transaction coordinator has the leaders of a transaction's partitions append its
outcome. A partition is answered once its marker is below the high watermark.

A marker for `__consumer_offsets` goes through the group coordinator, whose pending offsets it decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kraft.common.errors import ApiError
from kraft.coordinator.group.service.group_coordinator import OFFSETS_TOPIC
from kraft.coordinator.shard import Marker
from kraft.handlers.errors import EXPECTED, code_of
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import OnCluster
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from kraft.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kraft.protocol.records.control_record import ControlRecordType, TransactionMarker, build_marker_batch
from kraft.protocol.schema import Turns
from kraft.replication.partition import TransactionalAppend
from kraft.security.acls import Operation
from kraft.storage.log_validator import AppendOrigin
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.replication.partition import Partition

API = Handler(
    ApiKey.WRITE_TXN_MARKERS, between(1, 2), permission=OnCluster(Operation.CLUSTER_ACTION, or_else=Operation.ALTER)
)

ALL_REPLICAS = -1
MARKERS_A_TURN = 50
"""Appends between two pauses; one takes up to 0.2 ms."""

NOT_READY = frozenset(
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
)
"""What a group coordinator may answer. A transaction coordinator knows none of these for a marker; it tries again on
NOT_LEADER_OR_FOLLOWER."""


@API.serve
async def write_txn_markers(
    request: WriteTxnMarkersRequest, context: RequestContext, broker: BrokerServices
) -> WriteTxnMarkersResponse:
    """Each partition answers for itself."""
    return await write_markers(request, broker)


@API.error
def _failed(request: WriteTxnMarkersRequest, code: int, message: str | None) -> Turns[WriteTxnMarkersResponse]:
    results = _Results()
    for marker in request.markers:
        for topic in marker.topics:
            for index in topic.partition_indexes:
                results.of(marker.producer_id, topic.name, index).error_code = code
                yield
    return results.response()


class _Results:
    """The answer in the making: a producer and a topic of its appear once, however often they are named."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[str, dict[int, WritableTxnMarkerPartitionResult]]] = {}

    def of(self, producer_id: int, topic: str, index: int) -> WritableTxnMarkerPartitionResult:
        partitions = self._by_producer.setdefault(producer_id, {}).setdefault(topic, {})
        return partitions.setdefault(index, WritableTxnMarkerPartitionResult(partition_index=index))

    def response(self) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(name=name, partitions=list(partitions.values()))
                        for name, partitions in topics.items()
                    ],
                )
                for producer_id, topics in self._by_producer.items()
            ]
        )


async def write_markers(request: WriteTxnMarkersRequest, broker: BrokerServices) -> WriteTxnMarkersResponse:
    """Write the markers of partitions that this broker leads, and wait for their replicas. All are appended before
    any is waited for."""
    results = _Results()
    deadline = broker.world.clock.now() + broker.config.seconds("request.timeout.ms")
    turn = Turn(MARKERS_A_TURN)
    async with trio.open_nursery() as marker_nursery:
        for marker in request.markers:
            for topic in marker.topics:
                for index in topic.partition_indexes:
                    if turn.is_over():
                        await turn.next()
                    result = results.of(marker.producer_id, topic.name, index)
                    marker_nursery.start_soon(_write, marker, topic.name, result, broker, deadline)
    return results.response()


async def _write(
    marker: WritableTxnMarker,
    topic: str,
    result: WritableTxnMarkerPartitionResult,
    broker: BrokerServices,
    deadline: float,
) -> None:
    index = result.partition_index
    try:
        partition = broker.replicas.find(topic, index)
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{index} has no replica here")
        if topic == OFFSETS_TOPIC:
            await _complete_offsets(marker, index, broker)
        else:
            await _append(marker, partition, broker, deadline)
    except EXPECTED as problem:
        result.error_code = code_of(problem)
        broker.replicas.handle_storage_error(problem, topic, index, "marker")


async def _complete_offsets(marker: WritableTxnMarker, index: int, broker: BrokerServices) -> None:
    try:
        await broker.groups.complete_transaction(
            index,
            Marker(
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                marker.transaction_result,
                marker.transaction_version,
            ),
        )
    except ApiError as problem:
        if problem.code in NOT_READY:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, problem.message) from problem
        raise


async def _append(marker: WritableTxnMarker, partition: Partition, broker: BrokerServices, deadline: float) -> None:
    """Raises NotLeader, ApiError, StorageError."""
    replicas, now_ms = broker.replicas, broker.world.clock.wall_ms()
    partition.check_leader()
    leader_epoch = partition.leader_epoch
    batch = build_marker_batch(
        TransactionMarker(
            ControlRecordType.COMMIT if marker.transaction_result else ControlRecordType.ABORT,
            marker.coordinator_epoch,
        ),
        offset=0,
        timestamp_ms=now_ms,
        leader_epoch=leader_epoch,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )
    info = await replicas.append(
        partition,
        memoryview(batch),
        ALL_REPLICAS,
        now_ms,
        AppendOrigin.COORDINATOR,
        leader_epoch=leader_epoch,
        transaction=TransactionalAppend(transaction_version=marker.transaction_version),
    )
    if info.rolled:
        replicas.flusher.flush_later(partition.log)
    if partition.durable_end() <= info.last_offset:
        await replicas.flush(partition)
    await replicas.until_committed(partition, leader_epoch, info.last_offset + 1, deadline)
