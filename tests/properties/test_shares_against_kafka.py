"""A node of ours and Apache Kafka give the same answers to the same random lives of share groups."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from jepsen.java.kafka import ApacheKafka
from tests.bench.probe import until_serving
from tests.bench.systems import KraftSystem
from tests.capabilities import require_capability
from tests.properties.shares_against_kafka.life import ShareLife
from tests.properties.transactions_against_kafka import Side

pytestmark = pytest.mark.java
SOAK = os.environ.get("KRAFT_SOAK") == "1"
SEEDS = range(60 if SOAK else 5)
STEPS = 120 if SOAK else 60
SETTINGS = {
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.assignment.interval.ms": "0",
}

KAFKA_SETTINGS = {**SETTINGS, "num.network.threads": "1"}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    require_capability("java17")
    require_capability("mvn")
    directory = tmp_path_factory.mktemp("shares")
    ours = KraftSystem(directory / "ours" / "data", settings=SETTINGS)
    ours.prepare()
    ours.launch()
    try:
        with ApacheKafka(directory / "kafka", settings=KAFKA_SETTINGS, heap="-Xmx512M") as kafka:
            until_serving(ours)
            made = Side("ours", ("127.0.0.1", ours.port)), Side("kafka", ("127.0.0.1", kafka.port))
            yield made
            for side in made:
                side.close()
    finally:
        ours.kill()


@pytest.mark.timeout(900)
def test_share_group_responses_equal_those_of_kafka(sides: tuple[Side, Side]) -> None:
    for seed in SEEDS:
        life = ShareLife(seed, sides)
        try:
            life.make()
            life.run(STEPS)
            assert life.compared > STEPS // 2
        finally:
            life.close()
