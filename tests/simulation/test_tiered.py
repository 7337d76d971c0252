"""Whole nodes with tiered storage: while brokers die and the store fails, nothing that was acknowledged is lost, and
every record is read at its offset, from whichever tier and leader."""

from __future__ import annotations

import random

import pytest
import trio

from kraft.common.errors import KraftError
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.record_batch import batches
from kraft.world.simulated import Universe
from tests.simulation.clusters import BROKERS, CONTROLLER, TOPIC, Cluster
from tests.unit.server.brokers import batch

URI = "s3://bucket/kraft"
KEYS = {
    "remote.log.storage.system.enable": "true",
    "kraft.remote.storage.uri": URI,
    "remote.log.manager.task.interval.ms": "500",
    "remote.log.manager.task.retry.backoff.max.ms": "2000",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
}
CONFIGS = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": "2000",
    "local_retention_bytes": "4000",
    "retention_ms": "-1",
    "file_delete_delay_ms": "0",
    "min_insync_replicas": "2",
}
LOCAL_SEGMENTS_MAX = 5
"""Four thousand bytes, what no segment of the leader covers whole, and the active one."""
BREAKS = 5
FAILURES = (KraftError, OSError, TimeoutError)


class TieredCluster(Cluster):
    """`acknowledged` are values by their offsets."""

    def __init__(self, universe: Universe, nursery: trio.Nursery) -> None:
        super().__init__(universe, nursery, KEYS)
        self.acknowledged: dict[int, bytes] = {}
        self.store = universe.object_servers.at(URI)

    async def write(self) -> None:
        """One numbered record after another, until cancelled."""
        number = 0
        while True:
            number += 1
            value = b"%d " % number + bytes(400)
            data = PartitionProduceData(index=0, records=batch(value))
            request = ProduceRequest(
                acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
            )
            with self.universe.world_for("client").clock.move_on_after(8.0):
                try:
                    told = (await self.call(str(self.partition.leader), request, version=12)).responses[0]
                except FAILURES:
                    await self.universe.sleep(0.2)
                    continue
                if told.partition_responses[0].error_code == 0:
                    self.acknowledged[told.partition_responses[0].base_offset] = value
            await self.universe.sleep(0.1)

    async def read(self) -> dict[int, bytes]:
        """All of the topic by offset, as a consumer reads it, from the beginning."""
        found: dict[int, bytes] = {}
        offset, end = 0, 1
        give_up = self.universe.time.now + 120
        topic = self.image.topics.by_name(TOPIC)
        assert topic is not None
        while offset < end:
            assert self.universe.time.now < give_up, f"{offset} of {end}"
            wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=20_000)
            request = FetchRequest(
                max_wait_ms=200,
                min_bytes=1,
                max_bytes=20_000,
                topics=[FetchTopic(topic=TOPIC, topic_id=topic.id, partitions=[wanted])],
            )
            try:
                told = (await self.call(str(self.partition.leader), request)).responses[0].partitions[0]
            except FAILURES:
                await self.universe.sleep(0.2)
                continue
            end = max(end, told.high_watermark)
            for each in batches(told.records or b"", partial_tail=True):
                assert each.base_offset == offset, "a hole, or a record twice"
                each.verify_crc()
                found.update((record.offset, bytes(record.value or b"")) for record in each.records())
                offset = each.next_offset
            if told.error_code:
                await self.universe.sleep(0.2)
        return found

    def local_segments(self, name: str) -> int:
        broker = self.nodes[name].broker
        found = None if broker is None else broker.replicas.find(TOPIC, 0)
        return 0 if found is None else len(found.log.segments)

    async def until_few_are_local(self) -> None:
        give_up = self.universe.time.now + 120
        while not all(0 < self.local_segments(name) <= LOCAL_SEGMENTS_MAX for name in BROKERS):
            assert self.universe.time.now < give_up, [self.local_segments(name) for name in BROKERS]
            await self.universe.sleep(0.2)

    async def break_something(self, chance: random.Random) -> None:
        """A broker dies, by a kill or a power loss, at some step of what it does, and returns."""
        name = str(self.partition.leader) if chance.random() < 0.6 else chance.choice(BROKERS)
        if name not in BROKERS:
            return
        if chance.random() < 0.7:
            self.universe.kill_after_calls(name, chance.randrange(2000), power_lost=chance.random() < 0.5)
            await self.universe.sleep(2.0)
        if self.universe.world_of(name).node.alive:
            self.universe.kill(name)
        # Long enough now and then that what it lacks has left the disks of the others.
        await self.universe.sleep(chance.uniform(0.1, 6.0) if chance.random() < 0.6 else 25.0)
        await self.start(name)
        await self.until(lambda now: len(now.isr) == 3)


async def story(cluster: TieredCluster, seed: int) -> None:
    chance = random.Random(seed)
    faults = cluster.store.faults
    faults.delay_mean = 0.005
    await cluster.create(**CONFIGS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.write)
        await cluster.universe.sleep(3)
        faults.failure_rate = faults.damage_rate = 0.02
        faults.lost_answer_rate = faults.late_rate = 0.002  # Half a minute each.
        for _ in range(BREAKS):
            await cluster.break_something(chance)
            await cluster.universe.sleep(chance.uniform(0, 2))
        nursery.cancel_scope.cancel()
    faults.failure_rate = faults.lost_answer_rate = faults.late_rate = faults.damage_rate = 0.0
    await cluster.until_few_are_local()
    found = await cluster.read()
    assert len(cluster.acknowledged) > 50
    assert {offset: found.get(offset) for offset in cluster.acknowledged} == cluster.acknowledged
    old = cluster.partition.leader
    cluster.universe.kill(str(old))
    await cluster.until(lambda now: now.leader not in (-1, old))
    assert await cluster.read() == found


@pytest.mark.parametrize("seed", range(4))
def test_no_tiered_record_is_lost_while_brokers_die_and_the_store_fails(seed: int) -> None:
    async def main(universe: Universe) -> None:
        async with trio.open_nursery() as nursery:
            cluster = TieredCluster(universe, nursery)
            for name in (CONTROLLER, *BROKERS):
                await cluster.start(name)
            await story(cluster, seed)
            nursery.cancel_scope.cancel()

    universe = Universe(seed)
    with universe.trace:
        universe.run(main, seconds_max=900.0)
