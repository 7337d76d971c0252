"""Replicas move between log directories, several times and back, while idempotent and transactional producers write to
them and segments roll. Nodes stop and are killed after moves, and in the midst of them. What was acknowledged is there
once, what was aborted stays aborted, and no directory goes offline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from jepsen.three_nodes import ThreeNodes, ask, until
from kraft.cli.admin.app import main
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.testing.foreign.librdkafka import AdminClient, Producer
from kraft.testing.foreign.process import ForeignProcess
from kraft.testing.node_process import NodeProcess
from tests.integration.transactions_of_one_key import SECONDS_MAX, read_all

DISKS = ("one", "two", "three")
STATE = "__transaction_state"
FILLER_BYTES = 1_000_000
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "replica.alter.log.dirs.io.max.bytes.per.second": 2 * FILLER_BYTES,
    "log.cleaner.backoff.ms": 100,
    "log.flush.offset.checkpoint.interval.ms": 500,
    "log.segment.delete.delay.ms": 100,
}
ALONE = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
ROLLING = {"segment.ms": "150", "index.interval.bytes": "0"}
COMPACTED = {**ROLLING, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
TROUBLE = ("log directory offline", "background_work_failed", "replica cannot move", "Traceback")


def options(settings: dict[str, int]) -> tuple[str, ...]:
    return tuple(word for name, value in settings.items() for word in ("--set", f"{name}={value}"))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path, *options({**SETTINGS, **ALONE}), disks=DISKS) as node:
        yield node


def make_topic(bootstrap: str, topic: str, config: dict[str, str], replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def is_made() -> bool:
        try:
            admin.create_topics([NewTopic(topic, 1, replicas, config=config)])[topic].result(SECONDS_MAX)
        except KafkaException as problem:
            if problem.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise
            return False
        return True

    until(is_made, f"{topic} cannot be made")


def move(node: NodeProcess, topic: str, disk: str) -> None:
    """Ask that the replica be brought to the disk; it may just be coming to this node."""
    path = str(node.directory / disk)
    wanted = [AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])])]

    def is_begun() -> bool:
        answer = ask(node.bootstrap, AlterReplicaLogDirsRequest(dirs=wanted))
        return bool(answer.results[0].partitions[0].error_code == ErrorCode.NONE)

    until(is_begun, f"{topic} does not move")


def places(node: NodeProcess, topic: str) -> list[tuple[str, bool]]:
    """Disk, and whether it is a copy on its way."""
    found = []
    for result in ask(node.bootstrap, DescribeLogDirsRequest(topics=None)).results:
        assert result.error_code == ErrorCode.NONE, f"{result.log_dir} is offline"
        name = Path(result.log_dir).name
        for told in result.topics:
            found += [(name, each.is_future_key) for each in told.partitions if told.name == topic]
    return found


def until_at(node: NodeProcess, topic: str, disk: str) -> None:
    until(lambda: places(node, topic) == [(disk, False)], f"{topic} does not come to {disk}:\n{node.log_tail()}")


def move_and_wait(node: NodeProcess, topic: str, *disks: str) -> None:
    for disk in disks:
        move(node, topic, disk)
        until_at(node, topic, disk)


def restart(node: NodeProcess, *, orderly: bool) -> None:
    if orderly:
        assert node.stop() == 0
    else:
        node.kill()
    node.start()


def assert_well(*nodes: NodeProcess) -> None:
    for node in nodes:
        log = node.log_path.read_text(encoding="utf-8")
        assert [line for line in log.splitlines() if any(word in line for word in TROUBLE)] == []
    assert main(["cluster", "health", "-b", nodes[0].bootstrap, "--wait", "30"]) == 0


class Writers:
    """An idempotent and a transactional producer, which write to one partition for the length of a `with` block, a
    record after the other. Every third transaction is aborted."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._plain, self._transactions)]
        self.plain: list[bytes] = []
        """Acknowledged."""
        self.committed: list[bytes] = []
        self.failed: list[str] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _run(self, work: Callable[[ForeignProcess], None]) -> None:
        process = ForeignProcess()
        try:
            work(process)
        except Exception as problem:  # noqa: BLE001  # Told by the test, in its own thread.
            self.failed.append(f"{type(problem).__name__}: {problem}")
        finally:
            process.close()

    def _producer(self, process: ForeignProcess, **more: str) -> Producer:
        settings = {"bootstrap.servers": self._bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 200}
        return Producer({**settings, "enable.idempotence": True, "linger.ms": 0, **more}, process=process)

    def _plain(self, process: ForeignProcess) -> None:
        producer, number = self._producer(process), 0

        def told(error: Any, message: Any) -> None:
            if error is None:
                self.plain.append(bytes(message.value()))
            else:
                self.failed.append(str(error))

        while not self._stopped.is_set():
            producer.produce(self._topic, b"i-%d" % number, b"i-%d" % number, 0, on_delivery=told)
            number += 1
            assert number % 4 or producer.flush(SECONDS_MAX) == 0
        assert producer.flush(SECONDS_MAX) == 0

    def _transactions(self, process: ForeignProcess) -> None:
        producer, number = self._producer(process, **{"transactional.id": f"writes-{self._topic}"}), 0
        again(lambda: producer.init_transactions(SECONDS_MAX))
        while not self._stopped.is_set():
            commits, kind = number % 3 != 2, b"a" if number % 3 == 2 else b"c"
            producer.begin_transaction()
            values = [b"%b-%d-%d" % (kind, number, part) for part in range(2)]
            for value in values:
                producer.produce(self._topic, value, value, 0)
            assert producer.flush(SECONDS_MAX) == 0
            end = producer.commit_transaction if commits else producer.abort_transaction
            again(lambda end=end: end(SECONDS_MAX))
            self.committed += values if commits else []
            number += 1

    def more(self, count: int = 6) -> None:
        """Wait until both have gone on."""
        wanted = (len(self.plain) + count, len(self.committed) + count)
        until(
            lambda: self.failed or (len(self.plain) >= wanted[0] and len(self.committed) >= wanted[1]),
            f"the producers stand still: {len(self.plain)} and {len(self.committed)} records",
        )
        assert self.failed == []


def again(call: Callable[[], object]) -> None:
    """As librdkafka asks: what may be tried again is."""

    def is_done() -> bool:
        try:
            call()
        except KafkaException as problem:
            if not problem.args[0].retriable():
                raise
            return False
        return True

    until(is_done, "a transaction does not end")


@contextmanager
def written(bootstrap: str, topic: str) -> Iterator[Writers]:
    """Writes go on inside the block; at its end everything is there once."""
    with Writers(bootstrap, topic) as writers:
        writers.more()
        yield writers
        writers.more()
    assert writers.failed == []
    found = [value for value in read_all(bootstrap, topic) if value[:1] in (b"i", b"c", b"a")]
    assert [value for value in found if value[:1] == b"i"] == writers.plain
    assert [value for value in found if value[:1] == b"c"] == writers.committed
    assert len(found) == len(writers.plain) + len(writers.committed), "what was aborted is read"


def fill(bootstrap: str, topic: str) -> None:
    """So much that a move takes half a second."""
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for _ in range(20):
            producer.produce(topic, b"x" * (FILLER_BYTES // 20), b"filler", 0)
        assert producer.flush(SECONDS_MAX) == 0


def segments(node: NodeProcess, disk: str, topic: str) -> int:
    return len(list((node.directory / disk / f"{topic}-0").glob("*.log")))


@pytest.mark.parametrize("orderly", [True, False], ids=["stopped", "killed"])
def test_a_partition_moves_under_producers_and_its_old_node_stops(node: NodeProcess, orderly: bool) -> None:
    make_topic(node.bootstrap, "t", ROLLING)
    with written(node.bootstrap, "t") as writers:
        move_and_wait(node, "t", *DISKS, *DISKS)
        writers.more()
        restart(node, orderly=orderly)
        writers.more()
        move_and_wait(node, STATE, *DISKS, "one")
        move_and_wait(node, "t", "two")
        restart(node, orderly=orderly)
        writers.more()
        move_and_wait(node, "t", "one")
        restart(node, orderly=True)
    assert segments(node, "one", "t") > 3
    assert_well(node)


@pytest.mark.parametrize("orderly", [True, False], ids=["stopped", "killed"])
def test_a_node_stops_during_moves(node: NodeProcess, orderly: bool) -> None:
    make_topic(node.bootstrap, "t", ROLLING)
    fill(node.bootstrap, "t")
    with written(node.bootstrap, "t") as writers:
        for disk in ("two", "three", "one"):
            move(node, "t", disk)
            move(node, STATE, disk)
            writers.more(4)
            restart(node, orderly=orderly)
            writers.more(4)
            until_at(node, "t", disk)
        restart(node, orderly=True)
    assert_well(node)


def test_a_compacted_partition_moves_while_it_is_cleaned(node: NodeProcess) -> None:
    make_topic(node.bootstrap, "t", COMPACTED)
    fill(node.bootstrap, "t")
    with written(node.bootstrap, "t") as writers:
        for orderly, disk in ((True, "two"), (False, "three"), (True, "one")):
            move_and_wait(node, "t", *DISKS, disk)
            writers.more()
            restart(node, orderly=orderly)
            fill(node.bootstrap, "t")
    assert_well(node)


def test_a_topic_is_deleted_and_recreated_while_it_moves(node: NodeProcess) -> None:
    for number, disk in enumerate(("two", "three")):
        make_topic(node.bootstrap, "t", ROLLING)
        fill(node.bootstrap, "t")
        with written(node.bootstrap, "t"):
            move(node, "t", disk)
        move(node, "t", DISKS[number % 2])
        AdminClient({"bootstrap.servers": node.bootstrap}).delete_topics(["t"])["t"].result(SECONDS_MAX)
        make_topic(node.bootstrap, "t", ROLLING)
        with written(node.bootstrap, "t"):
            move_and_wait(node, "t", disk)
        AdminClient({"bootstrap.servers": node.bootstrap}).delete_topics(["t"])["t"].result(SECONDS_MAX)
    restart(node, orderly=True)
    assert_well(node)


def test_replicas_on_three_nodes_move_while_their_leader_is_killed(tmp_path: Path) -> None:
    cluster = ThreeNodes(tmp_path, *options(SETTINGS))
    for node in cluster.nodes.values():
        node.data_directories = ",".join(str(node.directory / disk) for disk in DISKS)
    with cluster:
        cluster.create("t", **{name.replace(".", "_"): value for name, value in ROLLING.items()})
        cluster.until_in_sync("t")
        fill(cluster.bootstrap, "t")
        with written(cluster.bootstrap, "t") as writers:
            for orderly, disk in ((False, "two"), (True, "three")):
                for node in cluster.nodes.values():
                    move(node, "t", disk)
                writers.more(2)
                restart(cluster.nodes[cluster.leader("t")], orderly=orderly)
                writers.more()
                for node in cluster.nodes.values():
                    until_at(node, "t", disk)
            cluster.until_in_sync("t")
        assert_well(*cluster.nodes.values())
