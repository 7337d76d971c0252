"""The cluster that client tests talk to: our node, or Apache Kafka with KRAFT_TARGET=kafka, to tell a fault of ours
from one of the test's."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.bench.probe import until_acknowledged
from tests.bench.systems import KafkaSystem, KraftSystem

TARGET = os.environ.get("KRAFT_TARGET", "kraft")


@dataclass(frozen=True)
class Cluster:
    """One running node. `target` is "kraft" or "kafka"."""

    target: str
    system: KafkaSystem | KraftSystem

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.system.port}"

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        """A topic that is led and served. Underscores in option names stand for dots."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        config = {"retention_ms": "-1", **config}  # Tests write records with times of their own, often old ones.
        wanted = NewTopic(
            topic, partitions, 1, config={name.replace("_", "."): value for name, value in config.items()}
        )
        for future in admin.create_topics([wanted]).values():
            future.result(30)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = admin.list_topics(topic, timeout=10).topics[topic]
            if (
                found.error is None
                and len(found.partitions) == partitions
                and all(each.leader >= 0 for each in found.partitions.values())
            ):
                return topic
            time.sleep(0.05)
        raise TimeoutError(f"{topic} has no leaders")


@contextmanager
def running_cluster(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A node on free ports, killed at the end. `settings` are of our node."""
    system: KafkaSystem | KraftSystem = (
        KafkaSystem(directory / "kafka") if TARGET == "kafka" else KraftSystem(directory / "kraft", settings=settings)
    )
    system.prepare()
    system.launch()
    try:
        until_acknowledged(system, "cluster-is-up", create=True)
        yield Cluster(TARGET, system)
    finally:
        system.kill()
