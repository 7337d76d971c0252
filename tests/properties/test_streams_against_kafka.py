"""A node of ours and Apache Kafka give the same answers to the same random lives of streams groups."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from jepsen.java.kafka import ApacheKafka
from tests.bench.probe import until_serving
from tests.bench.systems import KraftSystem
from tests.capabilities import require_capability
from tests.properties.streams_against_kafka.life import StreamsLife
from tests.properties.transactions_against_kafka import Side

pytestmark = pytest.mark.java
SOAK = os.environ.get("KRAFT_SOAK") == "1"
SEEDS = range(200 if SOAK else 8)
STEPS = 120 if SOAK else 60
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.retention.check.interval.ms": "86400000",
    "group.streams.min.session.timeout.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "100",
}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    require_capability("java17")
    require_capability("mvn")
    directory = tmp_path_factory.mktemp("streams")
    ours = KraftSystem(directory / "ours" / "data", settings=SETTINGS)
    ours.prepare()
    ours.launch()
    try:
        with ApacheKafka(directory / "kafka", settings=SETTINGS, heap="-Xmx512M") as kafka:
            until_serving(ours)
            made = Side("ours", ("127.0.0.1", ours.port)), Side("kafka", ("127.0.0.1", kafka.port))
            yield made
            for side in made:
                side.close()
    finally:
        ours.kill()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", SEEDS)
def test_streams_group_responses_equal_those_of_kafka(sides: tuple[Side, Side], seed: int) -> None:
    life = StreamsLife(seed, sides)
    life.make()
    life.run(STEPS)
    assert life.compared > STEPS // 2
