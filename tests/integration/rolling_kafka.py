"""A cluster whose nodes change between Apache Kafka and ours, over the same directories, ports and properties."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from jepsen.java.kafka import CLUSTER_ID, ApacheKafka, tool
from kraft.common.ids import uuid_to_text
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import HOST, free_ports

SECONDS_MAX: Final = 90.0
START_SECONDS_MAX: Final = 180.0
"""Until a program serves. Six may start at the same time on two processors."""
DISKS: Final = ("a", "b")
"""The log directories of a separate broker."""


def internal_topics(replicas: int) -> dict[str, str]:
    """Settings of few partitions and many replicas, and of a cleaner that is often at work."""
    return {
        **{
            f"{topic}.replication.factor": str(replicas)
            for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        },
        "transaction.state.log.min.isr": str(max(1, replicas - 1)),
        "share.coordinator.state.topic.min.isr": str(max(1, replicas - 1)),
        "min.insync.replicas": str(max(1, replicas - 1)),
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "share.coordinator.state.topic.num.partitions": "3",
        "log.cleaner.backoff.ms": "1000",
    }


def until(is_so: Callable[[], bool], what: str, seconds: float = SECONDS_MAX) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.1)


class Member:
    """One node of the cluster: Kafka's program or ours on the same directories."""

    def __init__(self, kafka: ApacheKafka, disks: Sequence[str] = ("data",)) -> None:
        self.kafka = kafka
        self.ours = NodeProcess(
            kafka.directory,
            "--config",
            str(kafka.directory / "server.properties"),
            listen=None,
            controller_listen=None,
            disks=disks,
            ready_seconds_max=START_SECONDS_MAX,
        )
        self.is_ours = False

    def stop(self, *, kill: bool = False) -> None:
        running = self.ours if self.is_ours else self.kafka
        if kill:
            running.kill()
        else:
            running.stop()

    def start(self, *, ours: bool) -> None:
        self.is_ours = ours
        if ours:
            self.ours.start()
        else:
            self.kafka.launch()
            self.kafka.wait_until_listening(START_SECONDS_MAX)


class RollingCluster:
    """Nodes that Apache Kafka's `kafka-storage` formats, with default features; a quorum of dynamic voters
    (kraft.version 1), or of static ones. Combined nodes, or controllers and brokers of two log directories each."""

    def __init__(
        self,
        directory: Path,
        *,
        dynamic: bool,
        release: str,
        settings: dict[str, str] | None = None,
        login: dict[str, str] | None = None,
        format_options: Sequence[str] = (),
        controllers: Sequence[int] = (1, 2, 3),
        brokers: Sequence[int] = (),
    ) -> None:
        """`login` are librdkafka's settings of an administrator. `format_options` are those of `kafka-storage`.
        `controllers` and `brokers` are ids of nodes; without brokers the controllers are combined nodes."""
        self.directory = directory
        self.controllers: Final = tuple(controllers)
        self.brokers: Final = tuple(brokers) or self.controllers
        self.replicas: Final = len(self.brokers)
        self.dynamic = dynamic
        self.release = release
        self.login = login or {}
        self.format_options = tuple(format_options)
        numbers = tuple(dict.fromkeys((*self.controllers, *self.brokers)))
        ports = free_ports(2 * len(numbers))
        self.ports = dict(zip(numbers, ports[: len(numbers)], strict=True))
        self.controller_ports = dict(zip(numbers, ports[len(numbers) :], strict=True))
        self.settings = {**self._quorum(), **internal_topics(self.replicas), **(settings or {})}
        self.members: dict[int, Member] = {number: self._member(number) for number in numbers}

    def _controllers(self) -> dict[int, str]:
        """The addresses of the controllers."""
        return {number: f"{HOST}:{self.controller_ports[number]}" for number in self.controllers}

    def _quorum(self) -> dict[str, str]:
        found = self._controllers()
        if self.dynamic:
            return {"controller.quorum.bootstrap.servers": ",".join(found.values())}
        return {"controller.quorum.voters": ",".join(f"{number}@{address}" for number, address in found.items())}

    def _member(self, number: int) -> Member:
        kafka = ApacheKafka(
            self.directory / f"node{number}",
            port=self.ports[number] if number in self.brokers else self.controller_ports[number],
            controller_port=self.controller_ports[number],
            node_id=number,
            settings=self.settings,
            heap="-Xmx384M",
            release=self.release,
        )
        if self.brokers == self.controllers:
            return Member(kafka)
        if number in self.controllers:
            listener = f"CONTROLLER://{HOST}:{self.controller_ports[number]}"
            kafka.settings |= {"process.roles": "controller", "listeners": listener}
            return Member(kafka)
        folders = ",".join(str(kafka.directory / name) for name in DISKS)
        kafka.settings |= {
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{kafka.bootstrap}",
            "log.dirs": folders,
        }
        return Member(kafka, DISKS)

    @property
    def voters(self) -> str:
        """The first voters, as `kafka-storage` takes them."""
        return ",".join(
            f"{number}@{address}:{uuid_to_text(bytes([number]) * 16)}"
            for number, address in self._controllers().items()
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(self.members[number].kafka.bootstrap for number in self.brokers)

    def start(self) -> None:
        """Format with Kafka's tool, and start Kafka's nodes."""
        for number, member in self.members.items():
            has_quorum = self.dynamic and number in self.controllers
            quorum = ("--initial-controllers", self.voters) if has_quorum else ()
            kafka = member.kafka
            kafka.directory.mkdir(parents=True)
            path = kafka.directory / "server.properties"
            properties = kafka.properties()
            if not self.dynamic:
                del properties["controller.quorum.bootstrap.servers"]
            path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
            tool(
                "storage",
                "format",
                "-t",
                CLUSTER_ID,
                "-c",
                str(path),
                *quorum,
                *self.format_options,
                release=self.release,
            )
        for member in self.members.values():
            member.kafka.launch()
        for member in self.members.values():
            member.kafka.wait_until_listening(START_SECONDS_MAX)

    def change(self, number: int, *, ours: bool, kill: bool = False) -> float:
        """End a node's program, start the other on its directory, and wait until all replicas are in sync. Returns the
        seconds that it took."""
        began = time.monotonic()
        self.members[number].stop(kill=kill)
        self.members[number].start(ours=ours)
        until(lambda: self.lagging() == [], f"replica in sync after node {number} changed: {self.lagging()}")
        return time.monotonic() - began

    def lagging(self) -> list[str]:
        """Partitions without all replicas in sync."""
        admin = AdminClient({**self.login, "bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            topics = admin.list_topics(timeout=10).topics
        except KafkaException as problem:
            return [str(problem)]
        return [
            f"{topic}-{number}: leader {partition.leader} of {partition.isrs}"
            for topic, found in topics.items()
            for number, partition in found.partitions.items()
            if len(partition.isrs) < self.replicas or partition.leader < 0
        ]

    def kill(self) -> None:
        for member in self.members.values():
            if member.is_ours and member.ours.runs:
                member.ours.kill()
            member.kafka.kill()
