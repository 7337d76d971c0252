"""Plain producers of a simulated run with acks=all. They record which replicas held each batch when it was
acknowledged."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import trio

from jepsen.checker.operations import Partition
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, RoamingSession, Unanswered
from jepsen.simulation.observer import Observer
from jepsen.simulation.recorder import Recorder
from jepsen.simulation.run import SimulatedRun
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import Record, build_batch
from kraft.protocol.records.record_batch import batches
from kraft.replication.partition import Partition as Replica
from kraft.storage.leader_epoch_cache import LeaderEpochCache

PRODUCERS: Final = 2
"""Producers of each partition."""
BATCH_RECORDS_MAX: Final = 20
VALUE_BYTES_MAX: Final = 300
ALL_BYTES: Final = 1 << 30


class Acknowledged(NamedTuple):
    """An acknowledged batch. `holders` are the nodes whose replica was in sync and had the batch at `when`. `epoch` is
    the leader epoch in which it was written, or -1 if the leader was gone before the epoch could be read."""

    place: Partition
    offset: int
    values: tuple[bytes, ...]
    when: float
    holders: tuple[str, ...]
    epoch: int

    @property
    def end(self) -> int:
        return self.offset + len(self.values)


class BatchProducers:
    """The plain producers of some partitions."""

    def __init__(
        self,
        observer: Observer,
        recorder: Recorder,
        chance: random.Random,
        places: Sequence[Partition],
        session: Callable[[str], RoamingSession],
    ) -> None:
        self.acks: list[Acknowledged] = []
        self.stopping = False
        self._observer = observer
        self._recorder = recorder
        self._chance = chance
        self._places = places
        self._session = session

    def start(self, run: SimulatedRun, nursery: trio.Nursery) -> None:
        for place in self._places:
            for number in range(PRODUCERS):
                name = f"producer-{place[0]}-{place[1]}-{number}"
                nursery.start_soon(run.client, partial(self._produce, name, place))

    def acknowledged(self) -> int:
        """The number of records acknowledged."""
        return sum(len(each.values) for each in self.acks)

    async def _produce(self, name: str, place: Partition) -> None:
        session, chance, count = self._session(name), self._chance, 0
        while not self.stopping:
            values = [b"%s:%d:" % (name.encode(), count + each) for each in range(chance.randint(1, BATCH_RECORDS_MAX))]
            values = [value + bytes(chance.randrange(VALUE_BYTES_MAX)) for value in values]
            count += len(values)
            now_ms = session.world.clock.wall_ms()
            batch = build_batch([Record(number, now_ms, None, value, ()) for number, value in enumerate(values)])
            data = TopicProduceData(
                name=place[0], partition_data=[PartitionProduceData(index=place[1], records=memoryview(batch))]
            )
            try:
                await session.aim(place)
                response = await session.call(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), 3, 12)
            except Unanswered:
                await session.pause(0.5)
                continue
            answer = response.responses[0].partition_responses[0]
            if answer.error_code == ErrorCode.NONE:
                self.acks.append(self._seen(place, answer.base_offset, values, session.host))
            elif answer.error_code not in TRY_AGAIN:
                raise Refused(f"Produce to {place}", answer.error_code)
            await session.pause(0.3)
        session.close()

    def _seen(self, place: Partition, offset: int, values: Sequence[bytes], host: str) -> Acknowledged:
        held = self._observer.replicas(place)
        writer = held.get(host.removeprefix("node-"))
        epoch = -1 if writer is None else writer.log.leader_epoch_cache.epoch_for_offset(offset)
        registration = self._observer.registration(place)
        holders = () if registration is None else _holders(held, registration.isr, offset + len(values))
        return Acknowledged(place, offset, tuple(values), self._recorder.now(), holders, epoch)


def _holders(held: Mapping[str, Replica], isr: Sequence[int], end: int) -> tuple[str, ...]:
    return tuple(
        name for name, replica in sorted(held.items()) if int(name) in isr and replica.log.log_end_offset >= end
    )


def is_there(acknowledged: Acknowledged, log: Mapping[int, bytes | None]) -> bool:
    """Whether a log holds the batch at the offset where it was acknowledged. `log` has values by offset."""
    found = [log.get(acknowledged.offset + number) for number in range(len(acknowledged.values))]
    return found == list(acknowledged.values)


def content_of_leader(observer: Observer, place: Partition) -> dict[int, bytes | None]:
    """The values in the leader's log by offset; empty if the partition has no leader."""
    leader = _leader(observer, place)
    if leader is None:
        return {}
    data = leader.log.read(leader.log.log_start_offset, ALL_BYTES).read()
    return {record.offset: record.value for batch in batches(data) for record in batch.records()}


def epochs_of_leader(observer: Observer, place: Partition) -> LeaderEpochCache:
    """The start offset of each leader epoch in the leader's log."""
    leader = _leader(observer, place)
    return LeaderEpochCache(() if leader is None else leader.log.leader_epoch_cache.entries)


def _leader(observer: Observer, place: Partition) -> Replica | None:
    return next((each for each in observer.replicas(place).values() if each.is_leader), None)
