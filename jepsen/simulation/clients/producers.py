"""Producers of a simulated run. They send unique values, one batch at a time, plain or idempotent. Some bump their
epoch and then send once more under the old one."""

from __future__ import annotations

from typing import Any

import trio

from jepsen.checker.errors import is_definite
from jepsen.checker.operations import Partition, Send
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, Session, Unanswered
from jepsen.simulation.recorder import Recorder
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import Record, build_batch
from kraft.protocol.records.compression import ZSTD
from kraft.protocol.records.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, RecordBatch

PRODUCE_VERSIONS = (3, 12)  # By topic name; 13 knows only ids.
BATCH_RECORDS_MAX = 5
ZSTD_VERSION = 7  # Older clients do not know that codec (KIP-110).
IDENTITY_LOST = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
}
BUMP_RATE = 0.03
KEYS = 8
PAUSE_SECONDS_MAX = 0.8


async def new_identity(session: Session) -> tuple[int, int]:
    """Return a new producer id and its epoch; retry until a node answers."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    while True:
        try:
            response = await session.call(request, 0, 5)
        except Unanswered:
            await session.pause(0.5)
            continue
        if response.error_code == ErrorCode.NONE:
            return response.producer_id, response.producer_epoch
        if response.error_code not in TRY_AGAIN:
            raise Refused("InitProducerId", response.error_code)
        await session.pause(0.5)


class Producer:
    """Sends until it is stopped. An idempotent producer then still retries its last batch until its outcome is known.
    With `keyed` the records share a few keys."""

    def __init__(
        self,
        session: Session,
        recorder: Recorder,
        place: Partition,
        *,
        idempotent: bool,
        acks: int,
        keyed: bool = False,
    ) -> None:
        self._session = session
        self._recorder = recorder
        self._place = place
        self._wire = place
        """The partition with the topic's name in the cluster; `place` has its name in the history."""
        self._idempotent = idempotent
        self._acks = acks
        self._keyed = keyed
        self._identity = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self._sequence = 0
        self._count = 0
        self._pause_seconds_max = PAUSE_SECONDS_MAX
        self.stopping = trio.Event()

    async def run(self) -> None:
        while not self.stopping.is_set():
            if self._idempotent and self._identity[0] == NO_PRODUCER_ID:
                self._identity, self._sequence = await new_identity(self._session), 0
            await self._send(self._session.chance.randint(1, BATCH_RECORDS_MAX))
            if self._idempotent and self._session.chance.random() < BUMP_RATE:
                await self._bump()
            await self._session.pause(self._pause_seconds_max)
        self._session.close()

    async def _bump(self) -> None:
        """Bump the producer's own epoch, as clients do to start over (KIP-360). Once the new epoch is accepted, the old
        one is fenced."""
        old, sequence = self._identity, self._sequence
        self._identity, self._sequence = (old[0], old[1] + 1), 0
        bumped = await self._send(1)
        if bumped.outcome == "ok" and self._identity == (old[0], old[1] + 1):
            await self._send(1, identity=old, sequence=self._session.chance.choice((0, sequence)))

    async def _send(self, count: int, *, identity: tuple[int, int] | None = None, sequence: int = NO_SEQUENCE) -> Send:
        """Send one batch until its outcome is known. `identity` makes it a zombie's batch, which is sent once."""
        values = [f"{self._session.name}:{number}" for number in range(self._count, self._count + count)]
        self._count += count
        zombie = identity is not None
        producer_id, epoch = identity or self._identity
        topic, partition = self._place
        send = Send(
            process=f"{self._session.name}{' as zombie' if zombie else ''}",
            began=self._recorder.now(),
            topic=topic,
            partition=partition,
            values=values,
            acks=self._acks,
            attempts=0,
            producer_id=producer_id,
            producer_epoch=epoch,
            keys=self._keys(count) if self._keyed else None,
        )
        self._recorder.add(send)
        if not zombie and self._idempotent:
            sequence = self._sequence
            self._sequence += count
        batch = self._batch(send, sequence)
        while not await self._attempt(send, batch, zombie=zombie) and not zombie:
            await self._session.pause(0.5)
        send.ended = self._recorder.now()
        return send

    def _keys(self, count: int) -> list[str]:
        return [f"{self._session.name}/{self._session.chance.randrange(KEYS)}" for _ in range(count)]

    def _batch(self, send: Send, sequence: int) -> bytes:
        now_ms = self._session.world.clock.wall_ms()
        keys = send.keys or ["k"] * len(send.values)
        records = [
            Record(number, now_ms, key.encode(), value.encode(), ())
            for number, (key, value) in enumerate(zip(keys, send.values, strict=True))
        ]
        codec = self._session.chance.choice((0, 0, 1, 2, 3, 4))
        return build_batch(
            records,
            codec=codec,
            base_sequence=sequence,
            producer_id=send.producer_id,
            producer_epoch=send.producer_epoch,
        )

    async def _attempt(self, send: Send, batch: bytes, *, zombie: bool) -> bool:
        """Send the batch once. Returns whether the send has ended, in success or failure."""
        try:
            await self._session.aim(self._wire)
        except Unanswered:
            return False
        send.attempts += 1
        try:
            response = await self._produce(batch)
        except Unanswered:
            return not self._idempotent
        answer = response.responses[0].partition_responses[0]
        if answer.error_code == ErrorCode.NONE:
            send.offset, send.outcome = answer.base_offset, "ok"
            return True
        send.error = name_of(answer.error_code)
        if (
            not zombie
            and answer.error_code in IDENTITY_LOST
            and self._recorder.leads_no_more(self._session.host, self._place)
        ):
            return False  # It lacks what its successors acknowledged, and does not know that yet.
        if answer.error_code in IDENTITY_LOST and self._idempotent:
            if not zombie:
                self._recorder.unexpected(
                    self._session.name, f"it lost its producer id: {Refused('Produce', answer.error_code)}"
                )
                self._identity = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
            send.outcome = "fail" if send.attempts == 1 else "info"
            return True
        if answer.error_code not in TRY_AGAIN:
            raise Refused(f"Produce to {send.topic}-{send.partition}", answer.error_code)
        if not self._idempotent and is_definite(send.error):
            send.outcome = "fail"
        return not self._idempotent

    async def _produce(self, batch: bytes) -> Any:
        """Send one Produce request by topic name. Raises Unanswered."""
        topic, partition = self._wire
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        low, high = PRODUCE_VERSIONS
        if RecordBatch(batch).codec == ZSTD:
            low = ZSTD_VERSION
        return await self._call(ProduceRequest(acks=self._acks, timeout_ms=5000, topic_data=[data]), low, high)

    async def _call(self, request: Any, low: int, high: int) -> Any:
        return await self._session.call(request, low, high)
