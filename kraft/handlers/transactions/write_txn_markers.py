"""WriteTxnMarkers (KIP-98, KIP-890): at the request of a transaction coordinator, leaders of the transaction's
partitions append its outcome. A partition's result is complete once its marker is below the high watermark.

A marker for `__consumer_offsets` goes through the group coordinator, which then commits or drops its pending offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kraft.common.errors import ApiError
from kraft.common.internal_topics import OFFSETS_TOPIC
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
from kraft.replication.logs.writer import QueuedAppend
from kraft.replication.partition import TransactionalAppend
from kraft.security.acls import Operation
from kraft.storage.log_validator import AppendOrigin
from kraft.world.steps import Steps
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.storage.unified_log import UnifiedLog

API = Handler(
    ApiKey.WRITE_TXN_MARKERS, between(1, 2), permission=OnCluster(Operation.CLUSTER_ACTION, or_else=Operation.ALTER)
)

ALL_REPLICAS = -1
MARKERS_A_TURN = 50
"""Appends between two pauses; one takes up to 0.2 ms."""

NOT_READY = frozenset(
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
)
"""Errors of a group coordinator that a transaction coordinator does not expect for a marker. It retries on
NOT_LEADER_OR_FOLLOWER."""


@API.serve
async def write_txn_markers(
    request: WriteTxnMarkersRequest, context: RequestContext, broker: BrokerServices
) -> WriteTxnMarkersResponse:
    """Write the markers. Each partition has its own error code."""
    return await write_markers(request, broker)


@API.error
def _failed(request: WriteTxnMarkersRequest, code: int, message: str | None) -> Steps[WriteTxnMarkersResponse]:
    results = _Results()
    for marker in request.markers:
        for topic in marker.topics:
            for index in topic.partition_indexes:
                results.of(marker.producer_id, topic.name, index).error_code = code
                yield None
    return results.response()


class _Results:
    """The response being built. A producer, and each of its topics, appears once even if the request repeats it."""

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
    """Write the markers of the partitions that this broker leads, and wait for their replicas. All are appended before
    the first wait."""
    results = _Results()
    started = broker.world.clock.now()
    turn = Turn(MARKERS_A_TURN)
    begun: list[_Write] = []
    async with trio.open_nursery() as marker_nursery:
        for marker in request.markers:
            for topic in marker.topics:
                for index in topic.partition_indexes:
                    if turn.is_over():
                        await turn.next()
                    result = results.of(marker.producer_id, topic.name, index)
                    write = _Write(marker, topic.name, result, broker)
                    if not write.begin():
                        continue
                    if write.waits_for_followers_alone:
                        begun.append(write)
                    else:
                        marker_nursery.start_soon(write.finish, started)
        for write in begun:
            await write.finish(started)
    return results.response()


class _Write:
    """One marker for one partition; its error code goes into `result`. Call `finish` if `begin` returns True."""

    __slots__ = (
        "_broker",
        "_end",
        "_leader_epoch",
        "_log",
        "_marker",
        "_partition",
        "_queued",
        "_result",
        "_topic",
    )

    def __init__(
        self,
        marker: WritableTxnMarker,
        topic: str,
        result: WritableTxnMarkerPartitionResult,
        broker: BrokerServices,
    ) -> None:
        self._marker = marker
        self._topic = topic
        self._result = result
        self._broker = broker
        self._end: int | None = None
        """Log end offset after the marker, once it is appended."""
        self._log: UnifiedLog | None = None
        """The log to flush."""

    def begin(self) -> bool:
        """Append the marker, queue it, or leave it to the group coordinator. Returns whether `finish` must be
        called."""
        replicas, index = self._broker.replicas, self._result.partition_index
        try:
            partition = replicas.find(self._topic, index)
            if partition is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self._topic}-{index} has no replica here")
            if self._topic == OFFSETS_TOPIC:
                return True
            partition.check_leader()
            self._partition, self._leader_epoch = partition, partition.leader_epoch
            batch, now_ms = self._batch()
            appended = replicas.writer.append(
                partition,
                batch,
                ALL_REPLICAS,
                now_ms,
                AppendOrigin.COORDINATOR,
                leader_epoch=self._leader_epoch,
                transaction=TransactionalAppend(transaction_version=self._marker.transaction_version),
            )
            if isinstance(appended, QueuedAppend):
                self._queued = appended
                return True
            self._end = end = appended.last_offset + 1
        except EXPECTED as problem:
            self._failed(problem)
            return False
        return partition.log.high_watermark < end or not partition.has_enough_in_sync

    @property
    def waits_for_followers_alone(self) -> bool:
        return self._end is not None and self._is_durable

    async def finish(self, started: float) -> None:
        """Return once the marker is below the high watermark or its result has an error. Times out `request.timeout.ms`
        after `started`."""
        replicas = self._broker.replicas
        try:
            if self._topic == OFFSETS_TOPIC:
                await _complete_offsets(self._marker, self._result.partition_index, self._broker)
                return
            partition, leader_epoch = self._partition, self._leader_epoch
            if self._end is None:
                info = await self._queued
                assert info is not None, "a leader's append takes all or nothing"
                self._end = info.last_offset + 1
            self._log = partition.log
            if not self._is_durable:
                await replicas.flush(partition)
            deadline = started + self._broker.config.seconds("request.timeout.ms")
            await replicas.until_committed(partition, leader_epoch, self._end_offset, deadline)
        except EXPECTED as problem:
            self._failed(problem)

    def _batch(self) -> tuple[memoryview, int]:
        """The marker as a batch, and its timestamp (ms)."""
        marker, now_ms = self._marker, self._broker.world.clock.wall_ms()
        batch = build_marker_batch(
            TransactionMarker(
                ControlRecordType.COMMIT if marker.transaction_result else ControlRecordType.ABORT,
                marker.coordinator_epoch,
            ),
            offset=0,
            timestamp_ms=now_ms,
            leader_epoch=self._leader_epoch,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
        )
        return memoryview(batch), now_ms

    @property
    def _end_offset(self) -> int:
        assert self._end is not None
        return self._end

    @property
    def _is_durable(self) -> bool:
        return self._partition.durable_end() >= self._end_offset

    def _failed(self, problem: Exception) -> None:
        self._result.error_code = code_of(problem)
        if self._log is not None:
            self._broker.replicas.handle_storage_error(
                problem, self._topic, self._result.partition_index, "flush of a marker", self._log
            )


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
