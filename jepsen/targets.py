"""The system under test: kraft, Apache Kafka 4.4.0 in its place, or a cluster of both.

Both get the same properties file, are formatted with the same arguments, and are queried by the same protocol. So one
takes over the disk of the other. Apache Kafka is fetched by mvn as for the benchmarks.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, Self

from jepsen.history import MIXED
from jepsen.java.jars import POMS, jars
from jepsen.sandbox import ROOT

FIRST_NODES: Final = (1, 2, 3, 4, 5)
"""The nodes that a cluster has from the beginning."""
KAFKAS: Final = 2
"""The usual number of first nodes that run Apache Kafka at the start of a cluster with both programs."""


def of_voters(voters: Sequence[str]) -> list[str]:
    """Return the arguments for the first voters of a new quorum. Without voters the node joins an existing quorum."""
    return ["-I", ",".join(voters)] if voters else ["-N"]


class Program(Protocol):
    """How one node is formatted and run.

    - `format_is_durable`: whether formatting syncs its files, so that they survive a power loss.
    - `monotonic_may_drift`: whether the program waits by reading the clock that the harness can change. Otherwise it
      waits in the kernel, which uses another clock.
    """

    name: str
    format_is_durable: bool
    monotonic_may_drift: bool
    ready_seconds_max: float

    def format(self, properties: Path, cluster_id: str, voters: Sequence[str]) -> list[str]: ...

    def serve(self, properties: Path) -> list[str]: ...

    def environment(self) -> Mapping[str, str]: ...

    def directory(self) -> Path: ...


class Target(Protocol):
    """The settings that all nodes of a cluster share, and the program that each node runs first.

    - `starts_at_once`: the deadlines after healing count from the start of the processes, not from when they serve.
    - `admin`: the settings for HTTP, if the target has it.
    - `other`: the program that can take over the disk of this one; None where all nodes run the same.
    """

    name: str
    starts_at_once: bool
    ready_seconds_max: float
    settings: Mapping[str, str]

    def program(self, number: int) -> Program: ...

    def other(self, program: Program) -> Program | None: ...

    def admin(self, host: str, port: int) -> Mapping[str, str]: ...


class OneProgram:
    """A target and a program in one: all nodes run it."""

    def program(self, number: int) -> Self:
        return self

    def other(self, program: Program) -> None:
        return None


class KraftTarget(OneProgram):
    """A checkout of kraft: this one, or a copy with an injected defect."""

    name = "kraft"
    format_is_durable = True
    monotonic_may_drift = True
    starts_at_once = True
    ready_seconds_max = 90.0
    settings: Mapping[str, str] = {"kraft.admin.listener": "off"}

    def __init__(self, source: Path = ROOT) -> None:
        self.source = source

    def format(self, properties: Path, cluster_id: str, voters: Sequence[str]) -> list[str]:
        start = [sys.executable, "-m", "kraft.cli.admin.app"]
        return [*start, "storage", "format", "-t", cluster_id, "-c", str(properties), *of_voters(voters)]

    def serve(self, properties: Path) -> list[str]:
        return [sys.executable, "-m", "kraft.cli.node", "--config", str(properties)]

    def admin(self, host: str, port: int) -> Mapping[str, str]:
        return {"kraft.admin.listener": f"{host}:{port}"}

    def environment(self) -> Mapping[str, str]:
        return {"PYTHONPATH": os.pathsep.join((str(self.source), str(self.source / "api")))}

    def directory(self) -> Path:
        return self.source


class KafkaTarget(OneProgram):
    """Apache Kafka 4.4.0. Raises JavaMissing if Java or its jars are missing."""

    name = "kafka"
    # Its bootstrap.checkpoint was seen to be empty after a power loss in the first minute: StorageTool does not sync
    # it.
    format_is_durable = False
    monotonic_may_drift = False
    starts_at_once = False
    ready_seconds_max = 300.0
    # Five JVMs on two processors take their time: what bounds that is no promise of Kafka's.
    settings: Mapping[str, str] = {
        "initial.broker.registration.timeout.ms": "300000",
        "controller.quorum.election.timeout.ms": "2000",
        "controller.quorum.fetch.timeout.ms": "4000",
        "broker.session.timeout.ms": "6000",
    }

    def __init__(self, log_level: str = "WARN") -> None:
        self.jars = jars("kafka")
        self._log_level = log_level

    def _java(self, heap: str, main: str) -> list[str]:
        log4j = POMS / "kafka" / "log4j2.xml"
        options = [
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={log4j}",
            f"-Dkafka.log.level={self._log_level}",
        ]
        return ["java", *heap.split(), *options, "-cp", f"{self.jars}/*", main]

    def format(self, properties: Path, cluster_id: str, voters: Sequence[str]) -> list[str]:
        return [
            *self._java("-Xmx256m", "kafka.tools.StorageTool"),
            "format",
            "-t",
            cluster_id,
            "-c",
            str(properties),
            *of_voters(voters),
        ]

    def serve(self, properties: Path) -> list[str]:
        return [*self._java("-Xmx512m -Xms128m", "kafka.Kafka"), str(properties)]

    def admin(self, host: str, port: int) -> Mapping[str, str]:
        return {}

    def environment(self) -> Mapping[str, str]:
        return {"LC_ALL": "C"}

    def directory(self) -> Path:
        return ROOT


class MixedTarget:
    """Nodes of Apache Kafka 4.4.0 and of kraft in one cluster. The seed draws which are whose. Raises JavaMissing."""

    name = MIXED
    starts_at_once = False
    ready_seconds_max = KafkaTarget.ready_seconds_max
    settings: Mapping[str, str] = {**KafkaTarget.settings, **KraftTarget.settings}

    def __init__(self, source: Path, seed: int, kafkas: int = KAFKAS) -> None:
        """`kafkas` is the number of first nodes that run Apache Kafka."""
        self.kraft = KraftTarget(source)
        self.kafka = KafkaTarget(log_level="INFO")
        self.kafkas = frozenset(random.Random(seed).sample(FIRST_NODES, kafkas))

    def program(self, number: int) -> Program:
        return self.kafka if number in self.kafkas else self.kraft

    def other(self, program: Program) -> Program:
        return self.kraft if program is self.kafka else self.kafka

    def admin(self, host: str, port: int) -> Mapping[str, str]:
        return {}


def target_named(name: str, source: str | None = None, seed: int = 0, kafkas: int = KAFKAS) -> Target:
    """Return the target of that name. `source` is the checkout of kraft to run (default: this one, or
    KRAFT_JEPSEN_SOURCE). Raises ValueError."""
    kraft = Path(source or os.environ.get("KRAFT_JEPSEN_SOURCE") or ROOT)
    if name == "kraft":
        return KraftTarget(kraft)
    if name == "kafka":
        return KafkaTarget()
    if name == MIXED:
        return MixedTarget(kraft, seed, kafkas)
    raise ValueError(f"TARGET={name}: kraft, kafka and mixed are known")
