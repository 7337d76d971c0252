"""A cluster of three processes, each broker and controller, and what tests do to it with unmodified clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import trio
from confluent_kafka import KafkaException
from confluent_kafka.cimpl import NewTopic

from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.records.record_batch import batches
from kraft.rpc_client.connection import connect
from kraft.testing.foreign.librdkafka import AdminClient, Consumer
from kraft.testing.foreign.process import Hung
from kraft.testing.process_cluster import ProcessCluster
from kraft.testing.steady_writer import SteadyWriter
from kraft.testing.watermarks import watermarks
from kraft.world.real import RealWorld

NODES = (1, 2, 3)
WAIT_SECONDS_MAX = 60.0
BATCH = 1000
"""Records read from a consumer at a time."""


def until(condition: Callable[[], Any], what: str, seconds: float = WAIT_SECONDS_MAX) -> Any:
    """Wait until `condition` returns a true value, and return that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise TimeoutError(what)


def ask(bootstrap: str, request: Any) -> Any:
    """Return a broker's response to a request in its newest version."""
    host, _, port = bootstrap.rpartition(":")

    async def call() -> Any:
        async with connect(RealWorld(log_sink=lambda event: None), host, int(port)) as connection:
            return await connection.call(request)

    return trio.run(call)


def batches_between(log: bytes, start: int, end: int) -> list[bytes]:
    """The whole batches with an offset from `start` to before `end`."""
    found = batches(log, partial_tail=True)  # The end may be on its way to the disk.
    return [
        log[batch.position : batch.position + batch.size]
        for batch in found
        if batch.next_offset > start and batch.base_offset < end
    ]


def next_offset(log: bytes) -> int:
    """The offset after the last record."""
    return max(batch.next_offset for batch in batches(log))


class ThreeNodes(ProcessCluster):
    """A cluster of static voters, and what its clients see."""

    def servers(self, **options: str | int | bool) -> dict[str, str | int | bool]:
        return {
            "bootstrap.servers": self.bootstrap,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in options.items()},
        }

    def ask(self, node: int, request: Any) -> Any:
        """Return a broker's response to a request in its newest version."""
        return ask(self.nodes[node].bootstrap, request)

    def create(self, topic: str, partitions: int = 1, replicas: int = 3, **config: str) -> str:
        """Create a topic. Returns when every running node knows it: the controller answers before that."""
        wanted = NewTopic(
            topic,
            partitions,
            replicas,
            config={"min.insync.replicas": "2", **{name.replace("_", "."): value for name, value in config.items()}},
        )
        AdminClient(self.servers()).create_topics([wanted])[topic].result(30)
        until(
            lambda: all(len(self.told_by(node, topic)) == partitions for node in self.running),
            f"a node has not heard of {topic}",
        )
        return topic

    def partitions(self, topic: str) -> dict[int, Any]:
        """The partitions by index, from the first client that gets an answer: leader, replicas, isrs."""

        def told() -> Any:
            try:
                return AdminClient(self.servers()).list_topics(topic, timeout=10).topics[topic]
            except (KafkaException, Hung):
                return None

        return dict(until(told, f"no client is told of {topic}").partitions)

    def leader(self, topic: str, partition: int = 0) -> int:
        def known() -> int | None:
            found = self.partitions(topic).get(partition)
            return found.leader if found is not None and found.leader >= 0 else None

        return int(until(known, f"{topic}-{partition} has no leader"))

    def told_by(self, node: int, topic: str) -> dict[int, Any]:
        """The partitions by index in this node's metadata: leader_id, replica_nodes, isr_nodes. No other node is asked:
        it may be paused."""
        found = self.ask(
            node, MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        ).topics[0]
        return {partition.partition_index: partition for partition in found.partitions}

    def quorum(self, node: int) -> Any:
        """The quorum as this node's broker describes it: leader_id, high_watermark, current_voters, observers."""
        request = DescribeQuorumRequest(
            topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
        )
        return self.ask(node, request).topics[0].partitions[0]

    def restart(self) -> None:
        """Stop all nodes in order, start them again, and wait until all partitions have leaders."""
        self.stop()
        self.start()

        def all_led() -> bool:
            topics = AdminClient(self.servers()).list_topics(timeout=10).topics.values()
            return bool(topics) and all(each.leader >= 0 for topic in topics for each in topic.partitions.values())

        until(all_led, "partitions have no leaders after a restart")

    def until_in_sync(self, topic: str) -> None:
        """Wait until all replicas of every partition are in sync."""

        def in_sync() -> bool:
            found = self.partitions(topic)
            return bool(found) and all(len(partition.isrs) == 3 for partition in found.values())

        until(in_sync, f"{topic} is not in sync: " + "\n".join(node.log_tail(15) for node in self.nodes.values()))

    def records(self, node: int, topic: str, partition: int) -> bytes:
        """The bytes of all segments of a replica on disk, in order."""
        directory = self.nodes[node].directory / "data" / f"{topic}-{partition}"
        return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))

    def until_identical(self, topic: str, partition: int = 0) -> bytes:
        """Wait until all replicas have the same bytes, and return them."""

        def same() -> bytes | None:
            found = [self.records(node, topic, partition) for node in NODES]
            return found[0] if found[0] and found[0] == found[1] == found[2] else None

        return bytes(until(same, f"the replicas of {topic}-{partition} differ"))

    def until_agree(self, topic: str, partition: int = 0, nodes: Sequence[int] = NODES) -> bytes:
        """Wait until these replicas have the same batches from the largest log start to the high watermark, and return
        those.

        Unlike in `until_identical`, replicas may start at different offsets, as after DeleteRecords or a refill.
        """
        start, end = watermarks(Consumer(self.servers(group_id="watermarks")), topic, partition, WAIT_SECONDS_MAX)

        def same() -> bytes | None:
            found = [b"".join(batches_between(self.records(node, topic, partition), start, end)) for node in nodes]
            return (
                found[0] if found[0] and found.count(found[0]) == len(found) and next_offset(found[0]) == end else None
            )

        return bytes(until(same, f"the replicas of {topic}-{partition} on {nodes} differ between {start} and {end}"))

    def read(self, topic: str, expected: int, partitions: int = 1) -> list[tuple[int, int, bytes]]:
        """Read all committed records from the beginning as (partition, offset, value). If librdkafka hangs, another
        consumer starts over."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            try:
                return self._read(topic, expected, partitions, deadline)
            except Hung:
                if time.monotonic() > deadline:
                    raise

    def _read(self, topic: str, expected: int, partitions: int, deadline: float) -> list[tuple[int, int, bytes]]:
        consumer = Consumer(
            self.servers(
                group_id=f"reader-{topic}",
                auto_offset_reset="earliest",
                enable_partition_eof=True,
                enable_auto_commit=False,
            )
        )
        consumer.subscribe([topic])
        found: list[tuple[int, int, bytes]] = []
        ended: dict[int, bool] = {}
        while time.monotonic() < deadline and not (len(found) >= expected and len(ended) == partitions):
            for message in consumer.consume(BATCH, 0.5):
                partition = int(message.partition() or 0)
                if message.error():
                    ended[partition] = True
                else:
                    found.append((partition, int(message.offset() or 0), bytes(message.value() or b"")))
        consumer.close()
        return found


def assert_acknowledged(cluster: ThreeNodes, topic: str, writer: SteadyWriter) -> None:
    """Assert that each acknowledged record exists once, at its acknowledged offset, in the order of writing."""
    assert not writer.failed
    found = cluster.read(topic, len(writer.acknowledged))
    at = {offset: value for _, offset, value in found}
    values = set(at.values())
    # librdkafka tells no offset of a write whose retry was answered as a duplicate.
    lost = [
        (value, offset)
        for value, offset, _ in writer.acknowledged
        if (value not in values if offset is None else at.get(offset) != value)
    ]
    assert not lost, (
        f"{len(lost)} of {len(writer.acknowledged)} are lost, {len(found)} found: {lost[:3]}, found "
        f"{found[:1]} to {found[-1:]}"
    )
    numbers = [int(value) for _, _, value in found]
    assert numbers == sorted(set(numbers))


def assert_nothing_lost(cluster: ThreeNodes, topic: str, writer: SteadyWriter) -> None:
    """Assert the same as `assert_acknowledged`, and that all replicas have the same bytes."""
    cluster.until_in_sync(topic)
    cluster.until_identical(topic)
    assert_acknowledged(cluster, topic, writer)
