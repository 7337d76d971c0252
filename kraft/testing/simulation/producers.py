"""Producers of a simulated run: unique values, plain or idempotent, one batch at a time."""

from __future__ import annotations

import trio

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import Record, build_batch
from kraft.protocol.records.compression import ZSTD
from kraft.protocol.records.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, RecordBatch
from kraft.testing.simulation.history import FAILED, History, Partition, Send
from kraft.testing.simulation.session import Refused, Session, Unanswered

PRODUCE_VERSIONS = (3, 12)  # By topic name; 13 knows only ids.
BATCH_RECORDS_MAX = 5
TRY_AGAIN = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE,
}  # fmt: skip
ZSTD_VERSION = 7  # Older clients do not know that codec (KIP-110).
NOT_APPENDED = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_ENOUGH_REPLICAS}
IDENTITY_LOST = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}


class Producer:
    """Sends until told to stop; an idempotent one then still learns what became of its last batch."""

    def __init__(self, session: Session, history: History, partition: Partition, *, idempotent: bool, acks: int) -> None:
        self._session = session
        self._history = history
        self._partition = partition
        self._idempotent = idempotent
        self._acks = acks
        self._identity = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self._sequence = 0
        self._count = 0
        self.stopping = trio.Event()

    async def run(self) -> None:
        while not self.stopping.is_set():
            if self._idempotent and self._identity[0] == NO_PRODUCER_ID:
                await self._new_identity()
            await self._send(self._session.chance.randint(1, BATCH_RECORDS_MAX))
            await self._session.pause(0.05)
        self._session.close()

    async def _new_identity(self) -> None:
        """A producer id of its own, with sequence numbers from 0 on."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while True:
            try:
                response = await self._session.call(request, 0, 5)
            except Unanswered:
                await self._session.pause(0.5)
                continue
            if response.error_code == ErrorCode.NONE:
                self._identity, self._sequence = (response.producer_id, response.producer_epoch), 0
                return
            if response.error_code not in TRY_AGAIN:
                raise Refused("InitProducerId", response.error_code)
            await self._session.pause(0.5)

    async def _send(self, count: int) -> None:
        world = self._session.world
        values = tuple(f"{self._session.name}:{number}" for number in range(self._count, self._count + count))
        send = Send(self._session.name, self._partition, self._count, values, self._session.world.clock.now())
        self._history.sends.append(send)
        self._count += count
        batch = self._batch(values, world.clock.wall_ms())
        self._sequence += count
        while not await self._attempt(send, batch):
            await self._session.pause(0.5)
        send.ended = world.clock.now()

    def _batch(self, values: tuple[str, ...], now_ms: int) -> bytes:
        records = [Record(number, now_ms, b"k", value.encode(), ()) for number, value in enumerate(values)]
        codec = self._session.chance.choice((0, 0, 1, 2, 3, 4))
        producer_id, epoch = self._identity
        sequence = self._sequence if self._idempotent else NO_SEQUENCE
        return build_batch(records, codec=codec, base_sequence=sequence, producer_id=producer_id, producer_epoch=epoch)

    async def _attempt(self, send: Send, batch: bytes) -> bool:
        """Whether the send has ended, well or badly."""
        topic, partition = self._partition
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        low, high = PRODUCE_VERSIONS
        if RecordBatch(batch).codec == ZSTD:
            low = ZSTD_VERSION
        try:
            response = await self._session.call(ProduceRequest(acks=self._acks, timeout_ms=5000, topic_data=[data]), low, high)
        except Unanswered:
            return not self._idempotent
        answer = response.responses[0].partition_responses[0]
        if answer.error_code == ErrorCode.NONE:
            self._history.acknowledge(send, answer.base_offset)
            return True
        if answer.error_code in IDENTITY_LOST and self._idempotent:
            self._history.violation(f"{self._session.name} lost its producer id: {Refused('Produce', answer.error_code)}")
            self._identity = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
            return True
        if answer.error_code not in TRY_AGAIN:
            raise Refused(f"Produce to {topic}-{partition}", answer.error_code)
        if not self._idempotent and answer.error_code in NOT_APPENDED:
            send.outcome = FAILED
        return not self._idempotent
