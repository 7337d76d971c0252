"""Clients of a topic that is deleted and recreated while they use it (`incarnations`). Most requests name the topic by
id, some by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jepsen.checker.operations import Send
from jepsen.simulation.clients.incarnations import WIRE, Incarnation
from jepsen.simulation.clients.producers import Producer
from jepsen.simulation.clients.readers import Reader, fetch_request
from jepsen.simulation.clients.session import Session
from jepsen.simulation.recorder import Recorder
from kraft.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE_BY_ID: Final = 13
FETCH_BY_ID: Final = (13, 18)
BY_ID_RATE: Final = 0.7
BY_NAME_PAUSE_SECONDS_MAX: Final = 2.0


class IncarnationProducer(Producer):
    """Idempotent producer that sends by topic id. It keeps its producer id and epoch in the next incarnation and
    restarts its sequence numbers at 0: a new topic has no state of the producer."""

    def __init__(
        self, session: Session, recorder: Recorder, incarnation: Incarnation, identity: tuple[int, int] | None
    ) -> None:
        super().__init__(session, recorder, incarnation.place, idempotent=True, acks=-1)
        session.topic_id = incarnation.topic_id
        self._wire = WIRE
        self._incarnation = incarnation
        self._identity = identity or self._identity

    @property
    def identity(self) -> tuple[int, int]:
        """The producer id and epoch."""
        return self._identity

    async def _attempt(self, send: Send, batch: bytes, *, zombie: bool) -> bool:
        return await super()._attempt(send, batch, zombie=zombie) or self._incarnation.given_up

    async def _produce(self, batch: bytes) -> Any:
        data = TopicProduceData(
            topic_id=self._incarnation.topic_id, partition_data=[PartitionProduceData(index=WIRE[1], records=batch)]
        )
        return await self._session.call(
            ProduceRequest(acks=self._acks, timeout_ms=5000, topic_data=[data]), PRODUCE_BY_ID, PRODUCE_BY_ID
        )


class NameProducer(Producer):
    """Plain producer that sends by topic name, so that a batch may reach a later incarnation. `sent` is called with
    every send before the request goes out."""

    def __init__(
        self, session: Session, recorder: Recorder, incarnation: Incarnation, sent: Callable[[Send], None]
    ) -> None:
        super().__init__(session, recorder, incarnation.place, idempotent=False, acks=-1)
        session.topic_id = incarnation.topic_id
        self._wire = WIRE
        self._incarnation = incarnation
        self._sent = sent
        self._pause_seconds_max = BY_NAME_PAUSE_SECONDS_MAX

    async def _attempt(self, send: Send, batch: bytes, *, zombie: bool) -> bool:
        if send.attempts == 0:
            self._sent(send)
        return await super()._attempt(send, batch, zombie=zombie) or self._incarnation.given_up

    async def _call(self, request: Any, low: int, high: int) -> Any:
        return await self._incarnation.by_name(self._session, request, low, high)


class IncarnationReader(Reader):
    """Reader of one incarnation, by id or by name."""

    def __init__(self, session: Session, recorder: Recorder, incarnation: Incarnation) -> None:
        super().__init__(session, recorder, incarnation.place)
        session.topic_id = incarnation.topic_id
        self._wire = WIRE
        self._incarnation = incarnation

    async def _fetch(self, wanted: FetchPartition) -> Any:
        if self._session.chance.random() >= BY_ID_RATE:
            return await super()._fetch(wanted)
        topic = FetchTopic(topic_id=self._incarnation.topic_id, partitions=[wanted])
        return await self._session.call(fetch_request(topic), *FETCH_BY_ID)

    async def _call(self, request: Any, low: int, high: int) -> Any:
        return await self._incarnation.by_name(self._session, request, low, high)
