"""What becomes of a Produce once its batches were appended, or were handed to the log writer: whose promise is kept
when, and the answer.

An append is settled when this replica's log is durable as far as flush.messages asks for it, and, with acks=all,
when it is committed while this replica leads without a break since the append.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kraft.common.errors import ApiError, NotLeader
from kraft.handlers.dispatcher import encode_reply
from kraft.handlers.errors import EXPECTED, code_of
from kraft.handlers.registry import RequestContext
from kraft.network.reply import NO_REPLY, SCRATCH_BYTES, FirstStage, Reply, Staged
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kraft.replication.purgatory import ProduceWaiter
from kraft.storage.log_validator import AppendOrigin, NotOneBatch, RecordsRejected

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.replication.log_writer import QueuedAppend
    from kraft.replication.partition import Partition
    from kraft.storage.log_append import LogAppendInfo

LEADER_HINT_VERSION = 10

WITHOUT_LOG_START = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
"""Errors that say nothing of where the log starts. All others do, once a log was asked, so that a producer can tell
expired records from lost ones."""


class _Unsettled:
    """An append that is not promised yet: `required_offset` (exclusive) must be durable here if flush.messages asks
    for it, and below the high watermark

    if acks=all, both while this replica leads without a break since `leader_epoch`, the epoch of the append: after
    one, other records may stand there.
    """

    __slots__ = ("answer", "leader_epoch", "needs_flush", "partition", "required_offset")

    def __init__(
        self, partition: Partition, leader_epoch: int, answer: PartitionProduceResponse, required_offset: int
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.answer = answer
        self.required_offset = required_offset
        self.needs_flush = partition.durable_end() < partition.log.log_end_offset


class _Large:
    """An append that the log writer is to do. Its records stay valid until the first stage is over; small ones may
    lie in the connection's scratch buffer."""

    __slots__ = ("answer", "partition", "queued", "records")

    def __init__(self, partition: Partition, answer: PartitionProduceResponse, records: memoryview) -> None:
        self.partition = partition
        self.answer = answer
        self.records = records if len(records) >= SCRATCH_BYTES else memoryview(bytes(records))
        self.queued: QueuedAppend


class ProduceSettling:
    """One Produce on its way to an answer. `topics` is the answer so far, filled in as appends succeed and fail."""

    __slots__ = (
        "_acks",
        "_broker",
        "_context",
        "_deadline",
        "_failed",
        "_large",
        "_now_ms",
        "_timeout_ms",
        "_unsettled",
        "topics",
    )

    def __init__(
        self, context: RequestContext, broker: BrokerServices, acks: int, timeout_ms: int, now_ms: int
    ) -> None:
        self._context = context
        self._broker = broker
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._now_ms = now_ms
        self._deadline = 0.0
        self._failed = False
        self._large: list[_Large] = []
        self._unsettled: list[_Unsettled] = []
        self.topics: list[TopicProduceResponse] = []

    # First stage

    def append(self, answer: PartitionProduceResponse, partition: Partition, records: memoryview) -> None:
        """Append now, or note what the log writer has to do. Raises NotLeader, ApiError, StorageError."""
        replicas = self._broker.replicas
        if replicas.writer.takes(partition.log, len(records)):
            self._large.append(_Large(partition, answer, records))
            return
        info = partition.append(records, self._acks, self._now_ms, AppendOrigin.CLIENT)
        if info.rolled:
            replicas.flusher.flush_later(partition.log)
        if not self._appended(answer, partition, info):
            self._unsettled.append(_Unsettled(partition, partition.leader_epoch, answer, info.last_offset + 1))

    def _appended(self, answer: PartitionProduceResponse, partition: Partition, info: LogAppendInfo) -> bool:
        """Fill in the answer for what was appended; whether it may leave at once."""
        answer.base_offset = info.first_offset
        answer.log_append_time_ms = info.log_append_time_ms
        answer.log_start_offset = info.log_start_offset
        log = partition.log
        return partition.durable_end() >= log.log_end_offset and (
            self._acks != -1 or info.last_offset < log.high_watermark
        )

    def fail(
        self, answer: PartitionProduceResponse, problem: Exception, topic: str, partition: Partition | None
    ) -> None:
        """A sentence goes with single records at fault only, as in Kafka: clients show their own for a code. What
        was appended before keeps its offsets.

        `partition` if it was asked.
        """
        self._failed = True
        code = answer.error_code = code_of(problem)
        if isinstance(problem, NotLeader):
            if self._context.api_version >= LEADER_HINT_VERSION:
                answer.current_leader = LeaderIdAndEpoch(leader_id=problem.leader_id, leader_epoch=problem.leader_epoch)
        elif isinstance(problem, RecordsRejected):
            answer.error_message = problem.message
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                for index, message in problem.record_errors
            ]
        elif code == ErrorCode.KAFKA_STORAGE_ERROR:
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
            self._broker.replicas.met(problem, topic, answer.index, "append")
        if partition is not None and code not in WITHOUT_LOG_START and not isinstance(problem, NotOneBatch):
            answer.log_start_offset = partition.log.log_start_offset

    # Then

    def outcome(self) -> Reply | Awaitable[Reply]:
        """The answer, at once where nothing has to be waited for. Nothing can go wrong with the request itself any
        more."""
        if not self._large and not self._unsettled:
            return self._reply()
        self._deadline = self._broker.world.clock.now() + self._timeout_ms / 1000
        if not self._large:
            return self._settle()
        stage, writer = FirstStage(len(self._large)), self._broker.replicas.writer
        for append in self._large:
            append.queued = writer.append_as_leader(
                append.partition,
                append.records,
                self._acks,
                self._now_ms,
                AppendOrigin.CLIENT,
                when_done=stage.step_ended,
            )
        return Staged(self._settle_large(stage), stage)

    async def _settle_large(self, stage: FirstStage) -> Reply:
        """What was written in a thread is over, too: fill in its answers, then as for the others."""
        await stage.wait()
        for append in self._large:
            partition, answer = append.partition, append.answer
            try:
                info = await append.queued.outcome()
                assert info is not None, "a leader's append takes all or nothing"
                # Much may have changed since: the epoch is looked at again.
                if not self._appended(answer, partition, info) or self._acks == -1:
                    self._unsettled.append(
                        _Unsettled(partition, append.queued.appended_epoch, answer, info.last_offset + 1)
                    )
            except EXPECTED as problem:
                self.fail(answer, problem, partition.topic, partition)
        return await self._settle()

    async def _settle(self) -> Reply:
        """The second stage: this replica's disk where flush.messages asks for it, then the high watermark for
        acks=all."""
        for append in self._unsettled:
            try:
                if append.needs_flush and append.partition.log.recovery_point < append.required_offset:
                    await self._broker.replicas.flush(append.partition)
                if self._acks == -1:
                    await self._until_committed(append)
            except EXPECTED as problem:
                self.fail(append.answer, problem, append.partition.topic, None)
        return self._reply()

    async def _until_committed(self, append: _Unsettled) -> None:
        """Raises NotLeader when leadership moves first, ApiError REQUEST_TIMED_OUT at the deadline,
        NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
        clock, partition = self._broker.world.clock, append.partition
        while True:
            _check_still_led(append)
            if partition.log.high_watermark >= append.required_offset:
                break
            if clock.now() >= self._deadline:
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "")
            waiter = ProduceWaiter(append.required_offset)
            partition.add_produce_waiter(waiter)
            try:
                with clock.move_on_at(self._deadline):
                    await waiter.event.wait()
            finally:
                partition.remove_produce_waiter(waiter)
        if not partition.has_enough_in_sync:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                f"{partition}: appended, but the in-sync set has shrunk since",
            )

    def _reply(self) -> Reply:
        if self._acks == 0:
            return Reply((), close_after=True) if self._failed else NO_REPLY
        topics, context = self.topics, self._context
        response = ProduceResponse(responses=topics)
        if self._failed and context.api_version >= LEADER_HINT_VERSION:
            leaders = {
                answer.current_leader.leader_id
                for topic in topics
                for answer in topic.partition_responses
                if answer.current_leader is not None
            }
            response.node_endpoints = [
                NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
                for node in self._broker.metadata.live_brokers(context.peer.listener)
                if node.id in leaders
            ]
        return encode_reply(context, response)


def _check_still_led(append: _Unsettled) -> None:
    partition = append.partition
    if not partition.is_leader or append.leader_epoch < partition.led_since_epoch:
        raise NotLeader("", partition.leader_id, partition.leader_epoch)
