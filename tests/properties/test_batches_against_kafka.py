"""A node of ours and Apache Kafka take, refuse, store, find and delete the same batches of strangers."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from jepsen.java.kafka import ApacheKafka
from tests.bench.probe import until_serving
from tests.bench.systems import KraftSystem
from tests.capabilities import require_capability
from tests.properties.batches_against_kafka import SETTINGS, BatchLife
from tests.properties.transactions_against_kafka import Side

pytestmark = pytest.mark.java
SOAK = os.environ.get("KRAFT_SOAK") == "1"
SEEDS = range(20 * len(SETTINGS) if SOAK else len(SETTINGS))
BATCHES = 50 if SOAK else 30
NODE_SETTINGS = {"log.retention.check.interval.ms": "300", "log.initial.task.delay.ms": "300"}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    require_capability("java17")
    require_capability("mvn")
    directory = tmp_path_factory.mktemp("batches")
    ours = KraftSystem(directory / "ours" / "data", settings=NODE_SETTINGS)
    ours.prepare()
    ours.launch()
    try:
        with ApacheKafka(directory / "kafka", settings=NODE_SETTINGS, heap="-Xmx512M") as kafka:
            until_serving(ours)
            both = Side("ours", ("127.0.0.1", ours.port)), Side("kafka", ("127.0.0.1", kafka.port))
            yield both
            for side in both:
                side.close()
    finally:
        ours.kill()


@pytest.mark.timeout(900)
def test_strange_batches_are_taken_stored_found_and_deleted_as_by_kafka(sides: tuple[Side, Side]) -> None:
    lives = [BatchLife(seed, sides) for seed in SEEDS]
    for life in lives:
        life.make_topic()
        life.run(BATCHES)
    for life in lives:
        life.begin_retention()
    for life in lives:
        life.await_retention()
    taken = sum(life.taken for life in lives)
    assert len(lives) * BATCHES // 3 < taken < len(lives) * BATCHES, "many are taken, and some refused"
