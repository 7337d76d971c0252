"""Transactions of unmodified clients: consume-transform-produce exactly once, what read_committed consumers see, and
both while a leader is killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import KafkaException, TopicPartition

from jepsen.java.kafka import tool
from jepsen.three_nodes import ThreeNodes, until
from kraft.testing.foreign.librdkafka import Consumer, Producer
from kraft.testing.foreign.process import ForeignProcess, Hung
from tests.capabilities import require_capability

SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
}
SECONDS_MAX = 60
PARTITIONS = 2
INPUTS = 60
PER_TRANSACTION = 5
DEAD_SECONDS = 3
JAVA_RECORDS = 1000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    with ThreeNodes(tmp_path_factory.mktemp("transactions"), *settings) as cluster:
        yield cluster


def read(cluster: ThreeNodes, topic: str, isolation: str, partitions: int = PARTITIONS) -> list[int]:
    """All that a consumer sees of a topic, sorted."""
    consumer = Consumer(
        cluster.servers(
            group_id=f"read-{topic}-{isolation}",
            isolation_level=isolation,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            enable_partition_eof=True,
        )
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    values: list[int] = []
    ended: set[int] = set()
    deadline = time.monotonic() + SECONDS_MAX
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"{topic} ended in {ended} only: {values}"
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            values.append(int(message.value()))
        else:
            ended.add(message.partition())
    return sorted(values)


class Transformer:
    """Reads a topic, writes what it read to another, and commits both together.

    Its clients live in a process of their own, and it is restarted, with the same transactional id and group, after
    every error that ends a producer and wherever librdkafka hangs, whatever timeout it is given: it was seen to wait
    for a coordinator that has left the metadata (confluentinc/librdkafka, issues 5456 and 5511), and two of its
    threads for each other's locks (`rd_kafka_toppar_handle_OffsetForLeaderEpoch`, `rd_kafka_toppar_forget_leader`).
    """

    def __init__(self, cluster: ThreeNodes, source: str, target: str) -> None:
        self._cluster = cluster
        self._source = source
        self._target = target
        self.commits = 0
        self.aborts = 0
        self._start()

    def _start(self) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                self.process = ForeignProcess()
                self._begin()
                return
            except (KafkaException, Hung):
                self.process.close()
                assert time.monotonic() < deadline, "no producer could be begun"

    def _begin(self) -> None:
        self.producer = Producer(
            self._cluster.servers(
                transactional_id=f"transform-{self._source}", socket_timeout_ms=3000, transaction_timeout_ms=10_000
            ),
            process=self.process,
        )
        self.producer.init_transactions(20)
        self.consumer = Consumer(
            self._cluster.servers(
                group_id=f"transform-{self._source}",
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=6000,
                socket_timeout_ms=3000,
            ),
            process=self.process,
        )
        self.consumer.subscribe([self._source])

    def _restart(self) -> None:
        """A crash of the whole client: its transaction is left open, its place in the group is not given up."""
        self.process.close()
        self._start()

    def step(self, *, abort: bool = False) -> None:
        """One transaction over what there is to read; by choice it is aborted."""
        try:
            self._transact(abort=abort)
        except Hung:
            self._restart()

    def _transact(self, *, abort: bool) -> None:
        messages = [each for each in self.consumer.consume(PER_TRANSACTION, 1) if each.error() is None]
        if not messages:
            return
        try:
            self.producer.begin_transaction()
            for message in messages:
                self.producer.produce(self._target, message.value(), partition=int(message.value()) % PARTITIONS)
            positions = self.consumer.position(self.consumer.assignment())
            self.producer.send_offsets_to_transaction(positions, self.consumer.consumer_group_metadata(), 20)
            if abort:
                self.producer.flush(SECONDS_MAX)  # What is still queued would not be sent at all.
                self._abort()
                return
            self.producer.commit_transaction(30)
            self.commits += 1
        except KafkaException as problem:
            if problem.args[0].txn_requires_abort():
                self._abort()
            else:
                self._restart()

    def _abort(self) -> None:
        self.aborts += 1
        try:
            self.producer.abort_transaction(30)
        except KafkaException:
            self._restart()
            return
        # What was read must be read again.
        self.consumer.unsubscribe()
        self.consumer.subscribe([self._source])

    def until_all_is_read(self) -> None:
        """Every input is covered by a committed offset."""
        deadline = time.monotonic() + 2 * SECONDS_MAX
        while self._committed() < INPUTS:
            assert time.monotonic() < deadline, f"{self._committed()} of {INPUTS} are committed"
            self.step()

    def _committed(self) -> int:
        try:
            found = self.consumer.committed([TopicPartition(self._source, index) for index in range(PARTITIONS)], 10)
        except KafkaException:
            return 0
        except Hung:
            self._restart()
            return 0
        return sum(max(each.offset, 0) for each in found)

    def close(self) -> None:
        self.process.close()


@contextmanager
def dead_for_a_while(cluster: ThreeNodes, victim: int) -> Iterator[None]:
    """Kill a node, and start it again within the block: librdkafka may wait for the very node that it asked last."""
    cluster.kill([victim])
    with ThreadPoolExecutor(1) as starter:

        def start() -> None:
            time.sleep(DEAD_SECONDS)
            cluster.start([victim])

        started = starter.submit(start)
        yield
        started.result(SECONDS_MAX)


async def _read_with_aiokafka(cluster: ThreeNodes, topic: str, count: int) -> list[int]:
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, isolation_level="read_committed")
    await consumer.start()
    try:
        partitions = [AioTopicPartition(topic, index) for index in range(PARTITIONS)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning()
        values: list[int] = []
        async with asyncio.timeout(SECONDS_MAX):
            while len(values) < count:
                values.append(int((await consumer.getone()).value))
        return sorted(values)
    finally:
        await consumer.stop()


def test_consume_transform_produce_is_exactly_once_while_leaders_die(cluster: ThreeNodes) -> None:
    source, target = cluster.create("inputs", PARTITIONS), cluster.create("outputs", PARTITIONS)
    with Producer(cluster.servers()) as producer:
        for value in range(INPUTS):
            producer.produce(source, b"%d" % value, partition=value % PARTITIONS)
        assert producer.flush(SECONDS_MAX) == 0
    transformer = Transformer(cluster, source, target)
    until(lambda: transformer.step() or transformer.commits >= 2, "no transaction was committed")
    transformer.step(abort=True)
    for topic in (target, "__transaction_state", "__consumer_offsets"):
        with dead_for_a_while(cluster, cluster.leader(topic)):
            commits = transformer.commits
            until(lambda commits=commits: transformer.step() or transformer.commits > commits, "nothing is committed")
        cluster.until_in_sync(target)
    transformer.until_all_is_read()
    transformer.close()
    assert transformer.aborts
    inputs = list(range(INPUTS))
    assert read(cluster, target, "read_committed") == inputs
    assert len(read(cluster, target, "read_uncommitted")) > INPUTS
    assert asyncio.run(_read_with_aiokafka(cluster, target, INPUTS)) == inputs


@pytest.mark.java
def test_java_clients_write_and_read_transactions(cluster: ThreeNodes) -> None:
    """Apache Kafka's producer lets its partitions be added by what it writes, and has a new epoch after each
    transaction (KIP-890)."""
    require_capability("java17")
    require_capability("mvn")
    topic = cluster.create("java", PARTITIONS)
    hanging = Producer(cluster.servers(transactional_id="aborted"))
    hanging.init_transactions(SECONDS_MAX)
    hanging.begin_transaction()
    hanging.produce(topic, b"-1", partition=0)
    hanging.flush(SECONDS_MAX)
    tool(
        "producer-perf",
        "--bootstrap-server",
        cluster.bootstrap,
        "--topic",
        topic,
        "--num-records",
        str(JAVA_RECORDS),
        "--record-size",
        "10",
        "--throughput",
        "-1",
        "--transactional-id",
        "java",
        "--transaction-duration-ms",
        "1",
    )
    hanging.abort_transaction(SECONDS_MAX)
    said = tool(
        "console-consumer",
        "--bootstrap-server",
        cluster.bootstrap,
        "--topic",
        topic,
        "--from-beginning",
        "--isolation-level",
        "read_committed",
        "--max-messages",
        str(JAVA_RECORDS),
        "--timeout-ms",
        "60000",
    )
    lines = said.stdout.splitlines()
    assert (len(lines), "-1" in lines) == (JAVA_RECORDS, False)
