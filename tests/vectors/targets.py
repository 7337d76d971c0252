"""Targets that the scripts start themselves: an Apache Kafka whose features are those that we serve, and a node of
ours; both empty, on free ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jepsen.java import client_metrics
from jepsen.java.kafka import ApacheKafka
from tests.bench.probe import until_serving
from tests.bench.systems import KraftSystem
from tests.vectors.runner import Target

# What is not served by us yet is off in the Kafka that is recorded, as far as Kafka lets it be: the answers then differ
# only where we do.
FEATURES = {"metadata.version": 30, "share.version": 0, "streams.version": 0}
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    # Scripts do not wait between two heartbeats.
    "group.consumer.assignment.interval.ms": "0",
    # Records carry fixed, old timestamps; no retention run may take them away meanwhile.
    "log.retention.check.interval.ms": "3600000",
}
KAFKA_SETTINGS = {**SETTINGS, "log.initial.task.delay.ms": "3600000"}


@contextmanager
def apache_kafka(directory: Path) -> Iterator[Target]:
    """An empty Apache Kafka 4.4.0, with a receiver of clients' metrics."""
    classes = client_metrics.compiled(directory / "classes")
    settings = {**KAFKA_SETTINGS, **client_metrics.SETTINGS}
    with ApacheKafka(directory / "kafka", settings=settings, features=FEATURES, classes=classes) as kafka:
        yield Target(("127.0.0.1", kafka.port), ("127.0.0.1", kafka.controller_port))


@contextmanager
def our_node(directory: Path) -> Iterator[Target]:
    """An empty node of ours, in a cluster with the features of the recordings."""
    system = KraftSystem(directory / "kraft", settings=SETTINGS, features=FEATURES)
    system.prepare()
    system.launch()
    try:
        until_serving(system)
        yield Target(("127.0.0.1", system.port), ("127.0.0.1", system.controller_port))
    finally:
        system.kill()
