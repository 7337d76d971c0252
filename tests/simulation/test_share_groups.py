"""Share groups while brokers are killed: the members settle every record, and none is delivered after that. Each record
that was rejected has a dead letter.

What a leader has handed out is not durable (KIP-932): its successor may deliver a record that a member still holds. But
an acknowledgement that was answered is durable, wherever the leader and the share coordinator die.
"""

from __future__ import annotations

import random

import pytest
import trio

from kraft.common.errors import KraftError
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.replication.partition import READ_UNCOMMITTED
from kraft.rpc_client.connection import ClientConnection, Disconnected, connect
from kraft.share.fetched_batches import read_batches
from tests.simulation.clusters import BROKERS, TOPIC, Cluster, simulate
from tests.unit.server.brokers import batch
from tests.unit.server.share.members import ACCEPT, REJECT, RELEASE, Member, configure, turn_on

LETTERS = "dlq.letters"
KEYS = {
    "share.coordinator.state.topic.num.partitions": "2",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "group.share.min.record.lock.duration.ms": "1000",
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "default.replication.factor": "3",
}
SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": "3000",
    "share.delivery.count.limit": "10",
    "errors.deadletterqueue.topic.name": LETTERS,
}
RECORDS = 100
BATCH = 4
LIMIT = 10
LOST = (KraftError, Disconnected, TimeoutError, OSError, AssertionError)
"""What a member meets while brokers die. It then joins, or begins its session, again."""


class History:
    """What members were given and what they settled, in the order in which they learned it."""

    def __init__(self) -> None:
        self.accepted: set[int] = set()
        self.rejected: set[int] = set()
        self.has_rejected = trio.Event()
        self.counts: dict[int, int] = {}
        self.broken: list[str] = []
        """Laws that were broken, in words."""

    def acquired(self, ranges: list[tuple[int, int, int]]) -> None:
        for first, last, count in ranges:
            for offset in range(first, last + 1):
                if offset in self.accepted | self.rejected:
                    self.broken.append(f"record {offset} was settled, and is delivered again")
                if count > LIMIT:
                    self.broken.append(f"record {offset} is delivered for the {count}th time")
                self.counts[offset] = count

    def has_settled(self, first: int, last: int, choice: int) -> None:
        if choice != RELEASE:
            (self.accepted if choice == ACCEPT else self.rejected).update(range(first, last + 1))
        if choice == REJECT:
            self.has_rejected.set()


class Worker:
    """A member that accepts most records, rejects, releases or forgets some, until told that the story ends."""

    def __init__(self, cluster: Cluster, name: str, history: History, choices: random.Random) -> None:
        self.cluster = cluster
        self.name = name
        self.history = history
        self.choices = choices
        self.is_steady = False
        """Accept everything from now on."""

    async def run(self) -> None:
        while True:
            try:
                await self._session()
            except* LOST:
                await self.cluster.universe.sleep(0.3)

    async def _connection(self, nursery: trio.Nursery, broker: str) -> ClientConnection:
        async def keep(task_status: trio.TaskStatus[ClientConnection]) -> None:
            async with connect(self.cluster.universe.world_for(f"client-{self.name}"), f"node-{broker}", 9092) as made:
                task_status.started(made)
                await trio.sleep_forever()

        return await nursery.start(keep)

    async def _session(self) -> None:
        """Join the group, and fetch from the leader of that time until something fails."""
        async with trio.open_nursery() as nursery:
            coordinator = Member(await self._connection(nursery, self.choices.choice(BROKERS)), self.name)
            for _ in range(20):
                response = await coordinator.beat()
                assert response.error_code == 0, response
                if coordinator.partitions:
                    break
                await self.cluster.universe.sleep(0.5)
            leader = str(self.cluster.partition.leader)
            member = Member(await self._connection(nursery, leader), self.name)
            member.topic_id, member.partitions = coordinator.topic_id, coordinator.partitions
            ended = trio.Event()

            async def beat() -> None:
                while not ended.is_set():
                    await self.cluster.universe.sleep(1)
                    assert (await coordinator.beat()).error_code == 0

            nursery.start_soon(beat)
            while True:
                await self._work(member)

    async def _work(self, member: Member) -> None:
        ranges = await member.fetch(max_records=self.choices.randint(1, 12), share_acquire_mode=1)
        self.history.acquired(ranges)
        for first, last, _ in ranges:
            await self.cluster.universe.sleep(self.choices.uniform(0, 0.3))
            choice = (
                ACCEPT if self.is_steady else self.choices.choices([ACCEPT, REJECT, RELEASE, None], [6, 2, 1, 1])[0]
            )
            if choice is None:
                continue
            if await member.acknowledge((first, last, [choice])) == 0:
                self.history.has_settled(first, last, choice)


async def produce_all(cluster: Cluster) -> None:
    """Produce the records, to whoever leads, each once."""
    for _ in range(RECORDS // BATCH):
        while True:
            leader = cluster.partition.leader
            end = await _end(cluster)
            try:
                data = [
                    TopicProduceData(
                        name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch(*[b"x"] * BATCH))]
                    )
                ]
                request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=data)
                response = await cluster.call(str(leader), request, version=12)
                assert response.responses[0].partition_responses[0].error_code == 0
                break
            except LOST:
                await cluster.universe.sleep(0.5)
                if await _end(cluster) > end:
                    break
        await cluster.universe.sleep(1.5)


async def _end(cluster: Cluster) -> int:
    for name in BROKERS:
        node = cluster.nodes[name]
        partition = node.broker.replicas.find(TOPIC, 0) if node.broker is not None else None
        if partition is not None and partition.is_leader:
            return partition.log.log_end_offset
    return 0


async def _letters(cluster: Cluster) -> set[int]:
    """The offsets of the records that have letters."""
    found: set[int] = set()
    for name in BROKERS:
        node = cluster.nodes[name]
        partition = node.broker.replicas.find(LETTERS, 0) if node.broker is not None else None
        if partition is not None and partition.is_leader:
            data = partition.read(0, 1 << 20, READ_UNCOMMITTED, min_one_message=True)
            for written in read_batches(data, 1 << 20):
                found.update(int(dict(each.headers)["__dlq.errors.offset"] or b"") for each in written.records())
    return found


async def _leader_after_rejection(cluster: Cluster, history: History) -> str:
    """Wait until a member has learned that a record is rejected. Returns the leader, which has to write its letter."""
    history.has_rejected = trio.Event()
    with cluster.universe.world_for("client").clock.move_on_after(10):
        await history.has_rejected.wait()
    return str(cluster.partition.leader)


@pytest.mark.parametrize("seed", range(1, 5))
def test_no_accepted_record_is_delivered_again_and_all_are_accepted_in_the_end(seed: int) -> None:
    async def story(cluster: Cluster) -> None:
        choices, history = random.Random(seed), History()
        universe = cluster.universe
        async with connect(universe.world_for("client"), "node-2", 9092) as client:
            await cluster.create()
            await turn_on(client, 2)
            await configure(client, "g", SETTINGS)
        workers = [Worker(cluster, name, history, random.Random(f"{seed}-{name}")) for name in ("a", "b", "c")]
        async with trio.open_nursery() as nursery:
            for worker in workers:
                nursery.start_soon(worker.run)
            nursery.start_soon(produce_all, cluster)
            for number in range(6):
                await universe.sleep(choices.uniform(2, 6))
                victim = choices.choice(BROKERS)
                if number % 2:
                    victim = await _leader_after_rejection(cluster, history)
                    await universe.sleep(choices.choice([0, 0.002, 0.01]))
                universe.kill(victim)
                await universe.sleep(choices.uniform(1, 8))
                await cluster.start(victim)
            for worker in workers:
                worker.is_steady = True
            await universe.sleep(60)
            nursery.cancel_scope.cancel()
        assert history.broken == []
        letters = await _letters(cluster)
        end = await _end(cluster)
        left = [
            offset
            for offset in range(end)
            if offset not in history.accepted | history.rejected and history.counts.get(offset) != LIMIT
        ]
        assert end >= RECORDS
        assert [offset for offset in left if offset not in letters] == [], f"records that nobody settled: {left}"
        assert history.rejected
        assert history.rejected - letters == set(), "rejected records without a letter"
        assert not history.accepted & letters, "letters of accepted records"

    simulate(story, seed=seed, more_keys=KEYS)
