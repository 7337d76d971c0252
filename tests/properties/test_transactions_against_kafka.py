"""A node of ours and Apache Kafka give the same answers to the same random lives of transactional ids, at each level of
transaction.version, and go on alike after their coordinators have been replaced."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from jepsen.java.kafka import ApacheKafka
from tests.bench.probe import until_serving
from tests.bench.systems import KraftSystem
from tests.capabilities import require_capability
from tests.properties.transactions_against_kafka import Life, Side, codes_of

pytestmark = pytest.mark.java
SOAK = os.environ.get("KRAFT_SOAK") == "1"
SEEDS = range(40 if SOAK else 5)
STEPS = 60 if SOAK else 40
LEVELS = (0, 1, 2)
SETTINGS = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}
KAFKA_SETTINGS = {
    **SETTINGS,
    # A broker that was killed may not register again before its session is over: nine seconds by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
UPGRADE, SAFE_DOWNGRADE = 1, 2


class Nodes:
    """Kafka and ours, one node each."""

    def __init__(self, kafka: ApacheKafka, ours: KraftSystem) -> None:
        self.kafka, self.ours = kafka, ours
        self.sides = Side("ours", ("127.0.0.1", ours.port)), Side("kafka", ("127.0.0.1", kafka.port))

    def replace_coordinators(self) -> None:
        """Both are killed and come back, with another epoch of each coordinator."""
        self.kafka.kill()
        self.ours.kill()
        self.ours.launch()
        self.kafka.start()
        until_serving(self.ours)
        for side in self.sides:
            side.reconnect()

    def set_level(self, level: int, upgrade_type: int) -> None:
        update = {"feature": "transaction.version", "max_version_level": level, "upgrade_type": upgrade_type}
        for side in self.sides:
            answer = side.ask("UpdateFeatures", 1, {"timeout_ms": 10_000, "feature_updates": [update]})
            assert not any(codes_of(answer)), (side.name, answer)
            while self.level_of(side) != level:
                time.sleep(0.02)

    def level_of(self, side: Side) -> int:
        features = side.ask("ApiVersions", 3, {"client_software_name": "x", "client_software_version": "1"})
        levels = {each["name"]: each["max_version_level"] for each in features["finalized_features"]}
        return levels.get("transaction.version", 0)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    require_capability("java17")
    require_capability("mvn")
    directory = tmp_path_factory.mktemp("transactions")
    ours = KraftSystem(directory / "ours" / "data", settings=SETTINGS)
    ours.prepare()
    ours.launch()
    try:
        with ApacheKafka(directory / "kafka", settings=KAFKA_SETTINGS, heap="-Xmx512M") as kafka:
            until_serving(ours)
            made = Nodes(kafka, ours)
            yield made
            for side in made.sides:
                side.close()
    finally:
        ours.kill()


@pytest.mark.timeout(900)
def test_transaction_responses_equal_those_of_kafka_at_every_level_and_after_coordinator_changes(nodes: Nodes) -> None:
    lives = [Life(seed, nodes.sides) for seed in SEEDS]
    nodes.set_level(0, SAFE_DOWNGRADE)
    for life in lives:
        life.make_topic()
    for level in LEVELS:
        if level > 0:
            nodes.set_level(level, UPGRADE)
        for steps in (STEPS // 2, STEPS - STEPS // 2):
            for life in lives:
                life.run(steps, level)
            nodes.replace_coordinators()
    assert sum(life.compared for life in lives) > 2 * STEPS * len(lives)
