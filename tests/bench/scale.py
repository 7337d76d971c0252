"""`python -m tests.bench.scale`: the metadata of a hundred nodes and a million partitions, without their data.

The controller is the product's, over a log in memory; a second loader is a broker that replays what the log says.
Brokers are messages that the bench sends in their names. Each event is told with the records that it writes, their
bytes (which go to every node), the processor time of the active controller and of a broker that follows, and the
longest step of the controller's loop, in which nobody else is served.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import trio
import trio.lowlevel

from kraft.common.errors import NotLeader
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.loader import MetadataLoader
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.raft.ports import CommittedBatch, LeaderAndEpoch
from kraft.world.simulated import Universe
from tests.bench.process_usage import rss_mb
from tests.unit.controller.harness import CONTEXT, LogInMemory, Rig

REPLICAS = 3
TOPICS_A_REQUEST = 5
SECONDS_MAX = 100_000
BEAT_SECONDS = 1.0
STORM = 1_000
"""Topics of one partition that are made, one request each."""


class CountedLog(LogInMemory):
    """Tells the bytes that were appended, and hands records on as they are: a follower decodes them for itself."""

    def __init__(self, loader: MetadataLoader, node_id: int = 1) -> None:
        super().__init__(loader, node_id)
        self.bytes = 0

    def append(self, epoch: int, records: Sequence[Any], *, encoded: Sequence[bytes] | None = None) -> int:
        if self.leader != LeaderAndEpoch(self.node_id, epoch):
            raise NotLeader("not the leader", self.leader.leader_id, self.leader.epoch)
        assert encoded is not None, "the controller encodes as it replays"
        base, size = self.log_end_offset, sum(map(len, encoded))
        self.bytes += size
        self.batches.append(CommittedBatch(base, base + len(records) - 1, epoch, 0, tuple(records), size))
        self._news.set()
        return self.batches[-1].last_offset


class Steps(trio.abc.Instrument):
    """The longest step of the loop since `take`."""

    def __init__(self) -> None:
        self._began = 0.0
        self._longest = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._longest = max(self._longest, time.thread_time() - self._began)

    def take(self) -> float:
        longest, self._longest = self._longest, 0.0
        return longest


class Event(NamedTuple):
    """One row. Times in seconds of processor time."""

    name: str
    records: int
    size: int
    controller: float
    longest: float
    broker: float
    memory_mb: float


class Model:
    """A cluster of so many nodes, told to the controller."""

    def __init__(self, universe: Universe, rig: Rig, log: CountedLog, nodes: int) -> None:
        self.universe, self.rig, self.log = universe, rig, log
        self.nodes = range(1, nodes + 1)
        self.events: list[Event] = []
        self.steps = Steps()
        self._follower = MetadataLoader()
        self._followed = 0
        self._loaded: MetadataImage | None = None

    async def event(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do it, and write down what it took."""
        gc.collect()
        records, size = self.log.log_end_offset, self.log.bytes
        await trio.lowlevel.checkpoint()
        self.steps.take()
        began = time.process_time()
        await work()
        took = time.process_time() - began
        await trio.lowlevel.checkpoint()
        longest = self.steps.take()
        began = time.process_time()
        await self._follow()
        event = Event(
            name,
            self.log.log_end_offset - records,
            self.log.bytes - size,
            took,
            longest,
            time.process_time() - began,
            rss_mb(os.getpid()),
        )
        self.events.append(event)
        print(line_of(event), flush=True)

    async def _follow(self) -> None:
        """What a broker does with the same records, read from bytes."""
        serde, level = MetadataRecordSerde(), self.rig.image.features.metadata_version
        todo, self._followed = self.log.batches[self._followed :], len(self.log.batches)
        for batch in todo:
            records = tuple(serde.decode(serde.encode(record, level)) for record in batch.records)
            finished = self._follower.handle_commit([batch._replace(records=records)])
            if finished is not None:
                await finished

    async def register_all(self) -> None:
        for node in self.nodes:
            await self.rig.broker(node)

    async def beat_all(self, *but: int) -> None:
        for node in self.nodes:
            if node not in but:
                await self.rig.beat(node)

    async def make(self, topics: Sequence[str], partitions: int, at_once: int) -> None:
        for start in range(0, len(topics), at_once):
            wanted = [
                CreatableTopic(name=name, num_partitions=partitions, replication_factor=REPLICAS)
                for name in topics[start : start + at_once]
            ]
            answer = await self.rig.controller.requests.create_topics(CreateTopicsRequest(topics=wanted), CONTEXT)
            assert all(topic.error_code == ErrorCode.NONE for topic in answer.topics), answer
            if start % (100 * at_once) == 0:
                await self.beat_all()

    async def delete(self, topics: Sequence[str]) -> None:
        for name in topics:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)])
            answer = await self.rig.controller.requests.delete_topics(request, CONTEXT)
            assert answer.responses[0].error_code == ErrorCode.NONE, answer

    async def lose(self, node: int) -> None:
        """Its process is proven to be gone: connection and port are closed."""
        self.rig.refusing.add(9000 + node)
        self.rig.controller.broker_connection_lost(node)
        await self.universe.sleep(0.01)
        assert self.rig.image.cluster.brokers[node].fenced

    async def come_back(self, node: int) -> None:
        self.rig.refusing.discard(9000 + node)
        await self.rig.register(node, incarnation=2, previous_epoch=self.rig.epochs[node])
        answer = await self.rig.beat(node)
        assert not answer.is_fenced

    async def restart(self, node: int) -> None:
        """An orderly stop, as a rolling restart does to each node: leaders move away, the process ends, and comes
        back."""
        for _ in range(1_000):
            answer = await self.rig.beat(node, want_shut_down=True)
            if answer.should_shut_down:
                break
            await self.beat_all(node)
        assert answer.should_shut_down
        await self.come_back(node)

    async def fail_over(self) -> None:
        """Another controller takes over that has replayed the log; a new term begins."""
        self.log.lose(2, self.log.leader.epoch + 1)
        await self.universe.sleep(0.01)
        await self.log.lead(self.log.leader.epoch + 1)
        await self.universe.sleep(0.01)
        await self.beat_all()

    async def load_snapshot(self) -> None:
        """What a controller or broker does that starts with nothing but a snapshot."""
        serde, level = MetadataRecordSerde(), self.rig.image.features.metadata_version
        chunk: list[bytes] = []
        chunks: list[list[bytes]] = []
        for record in self.rig.image.write():
            chunk.append(serde.encode(record, level))
            if len(chunk) == 500:
                chunks.append(chunk)
                chunk = []
                await trio.lowlevel.checkpoint()
        chunks.append(chunk)
        began = time.process_time()
        image = MetadataLoader().image
        for each in chunks:
            image, _ = image.replay_batch([serde.decode(value) for value in each])
            await trio.lowlevel.checkpoint()
        size = sum(len(value) for each in chunks for value in each)
        print(f"    snapshot: {size / 1e6:.0f} MB, read in {time.process_time() - began:.1f} s", flush=True)
        assert len(image.topics.by_id) == len(self.rig.image.topics.by_id)
        self._loaded = image  # To give it up would be a step of this one.


def line_of(event: Event) -> str:
    return (
        f"| {event.name} | {event.records} | {event.size / 1e6:.2f} | {event.controller:.3f} | "
        f"{event.longest * 1000:.1f} | {event.broker:.3f} | {event.memory_mb:.0f} |"
    )


async def measure(universe: Universe, nodes: int, topics: int, partitions: int) -> list[Event]:
    rig = Rig(universe, make_log=CountedLog)
    log = rig.log
    assert isinstance(log, CountedLog)
    model = Model(universe, rig, log, nodes)
    trio.lowlevel.add_instrument(model.steps)
    names = [f"topic-{number}" for number in range(topics)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.controller.run)
        nursery.start_soon(log.run)
        await log.lead(1)
        await universe.sleep(0.001)
        await model.event(f"{nodes} brokers register", model.register_all)
        await model.event(f"{topics} topics of {partitions} partitions", lambda: model.make(names, partitions, 1))
        await model.event("all brokers beat once", model.beat_all)
        await model.event("a node is lost", lambda: model.lose(nodes))
        await model.event("it comes back", lambda: model.come_back(nodes))
        await model.event("a node restarts in order", lambda: model.restart(1))
        await model.event("the next one restarts in order", lambda: model.restart(2))
        await model.event("the controller fails over", model.fail_over)
        storm = [f"storm-{number}" for number in range(STORM)]
        await model.event(f"{STORM} topics are made, one a request", lambda: model.make(storm, 1, 1))
        await model.event(f"{STORM} topics are deleted, one a request", lambda: model.delete(storm))
        await model.event("a snapshot is written and loaded", model.load_snapshot)
        nursery.cancel_scope.cancel()
    return model.events


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale", description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=1_000, help="of each topic")
    options = parser.parse_args()
    print("| event | records | MB | controller, CPU s | longest step, ms | broker, CPU s | memory, MB |")
    print("|---|---|---|---|---|---|---|")

    async def body(universe: Universe) -> None:
        await measure(universe, options.nodes, options.topics, options.partitions)

    Universe(1).run(body, seconds_max=SECONDS_MAX)
    return 0


if __name__ == "__main__":
    sys.exit(main())
