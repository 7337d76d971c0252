"""aiokafka's producer and reader: a second client that shares no code with librdkafka."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from jepsen.checker.operations import Partition, Send
from jepsen.history import Recorder
from jepsen.servers import Servers
from jepsen.workloads.client import KEY, Client
from jepsen.workloads.rdkafka import UNKNOWN_ATTEMPTS, Polls

STOP_SECONDS_MAX = 20.0
IN_FLIGHT_MAX = 300
BEYOND_MAX = 50
SILENCE_SECONDS_MAX = 15.0


class AioClient(Client):
    """A client whose event loop runs in its own thread."""

    def _run(self) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        try:
            asyncio.run(self._live())
        except Exception as problem:  # noqa: BLE001 - as in Client: what kills a client belongs into the history.
            self.unexpected("".join(traceback.format_exception(problem)))

    async def _live(self) -> None:
        raise NotImplementedError


async def started(make: Any, stopping: Any) -> Any:
    """Return a connected client, or None if the run ended first."""
    while not stopping.is_set():
        client = make()
        try:
            await client.start()
            return client
        except KafkaError:
            await client.stop()
            await asyncio.sleep(0.2)
    return None


class AioProducer(AioClient):
    """An idempotent producer with acks=all."""

    def __init__(
        self, name: str, recorder: Recorder, servers: Servers, seed: int, places: Sequence[Partition], per_second: float
    ) -> None:
        super().__init__(name, recorder, servers, seed)
        self.places = list(places)
        self.period = 1.0 / per_second
        self.number = 0

    async def _live(self) -> None:
        producer = await started(
            lambda: AIOKafkaProducer(
                **self.servers.aiokafka,
                enable_idempotence=True,
                request_timeout_ms=60_000,
                retry_backoff_ms=100,
                metadata_max_age_ms=3000,
            ),
            self.stopping,
        )
        if producer is None:
            return
        waiting: set[asyncio.Task[None]] = set()
        while not self.stopping.is_set():
            if len(waiting) < IN_FLIGHT_MAX:
                await self._send(producer, waiting)
            await asyncio.sleep(self.period)
        if waiting:
            await asyncio.wait(waiting, timeout=STOP_SECONDS_MAX)
        for task in list(waiting):
            task.cancel()
        try:
            await asyncio.wait_for(producer.stop(), STOP_SECONDS_MAX)
        except (TimeoutError, KafkaError):
            return  # What was not acknowledged stays unknown in the history.

    async def _send(self, producer: AIOKafkaProducer, waiting: set[asyncio.Task[None]]) -> None:
        """Queue one record, in order; a separate task waits for the acknowledgement."""
        topic, partition = self.chance.choice(self.places)
        value = f"{self.name}.{self.number}"
        self.number += 1
        send = Send(
            process=self.name,
            began=self.recorder.now(),
            topic=topic,
            partition=partition,
            values=[value],
            attempts=UNKNOWN_ATTEMPTS,
        )
        self.recorder.begin(send)
        try:
            answer = await producer.send(topic, value.encode(), key=KEY, partition=partition)
        except KafkaError as problem:
            self._failed(send, problem)
            return
        task = asyncio.ensure_future(self._answered(send, answer))
        waiting.add(task)
        task.add_done_callback(waiting.discard)

    async def _answered(self, send: Send, answer: asyncio.Future[Any]) -> None:
        try:
            found = await answer
        except KafkaError as problem:
            self._failed(send, problem)
            return
        send.offset = found.offset
        send.ok(self.recorder.now())
        self.recorder.acknowledged[send.values[0]] = self.recorder.now()
        self.recorder.done(send)

    def _failed(self, send: Send, problem: KafkaError) -> None:
        send.failed(self.recorder.now(), type(problem).__name__, definite=False)
        self.recorder.done(send)


class AioReader(AioClient):
    """Reads given partitions from the beginning, without a group.

    It fetches without a leader epoch (KIP-320), so a deposed leader that has not learned of its successor may answer
    that the position is beyond the end. Then it continues from its position. Only if the error lasts, because what it
    read is gone, does it start over.
    """

    beyond = 0
    heard = 0.0

    def __init__(self, name: str, recorder: Recorder, servers: Servers, seed: int, places: Sequence[Partition]) -> None:
        super().__init__(name, recorder, servers, seed)
        self.places = list(places)

    async def _live(self) -> None:
        polls = Polls(self)
        while not self.stopping.is_set():
            consumer = await started(
                lambda: AIOKafkaConsumer(
                    **self.servers.aiokafka,
                    enable_auto_commit=False,
                    auto_offset_reset="none",
                    fetch_max_wait_ms=100,
                    request_timeout_ms=4000,
                    retry_backoff_ms=100,
                    metadata_max_age_ms=3000,
                ),
                self.stopping,
            )
            if consumer is not None:
                await self._use(consumer, polls)

    async def _use(self, consumer: AIOKafkaConsumer, polls: Polls) -> None:
        """Poll until the run ends, or until the consumer got nothing for so long that its fetcher may be dead. If two
        fetches of one partition, to the old and the new leader, both return that the position is beyond the end, an
        assertion ends aiokafka's fetcher, and only `stop` reports that."""
        consumer.assign([AioPartition(*place) for place in self.places])
        try:
            for place in self.places:
                consumer.seek(AioPartition(*place), polls.position(place))
            self.heard = self.recorder.now()
            while not self.stopping.is_set() and self.recorder.now() - self.heard < SILENCE_SECONDS_MAX:
                try:
                    await self._read(consumer, polls)
                except OffsetOutOfRangeError as problem:
                    await self._seek(
                        consumer, polls, [AioPartition(place.topic, place.partition) for place in problem.args[0]]
                    )
        finally:
            try:
                await consumer.stop()
            except KafkaError as problem:
                if not isinstance(problem.__cause__, AssertionError):
                    raise

    async def _read(self, consumer: AIOKafkaConsumer, polls: Polls) -> None:
        began = self.recorder.now()
        for place, messages in (await consumer.getmany(timeout_ms=200, max_records=500)).items():
            if messages:
                self.beyond, self.heard = 0, self.recorder.now()
                records = [(message.offset, (message.value or b"").decode(), -1) for message in messages]
                polls.record_one(began, (place.topic, place.partition), records)

    async def _seek(self, consumer: AIOKafkaConsumer, polls: Polls, places: Sequence[AioPartition]) -> None:
        self.beyond += 1
        again = self.beyond > BEYOND_MAX
        for place in places:
            position = 0 if again else polls.position((place.topic, place.partition))
            if again:
                polls.forget_one((place.topic, place.partition))
            consumer.seek(place, position)
        await asyncio.sleep(0.2)
