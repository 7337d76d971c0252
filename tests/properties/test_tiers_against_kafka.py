"""A node of ours and Apache Kafka give the same answers about the same tiered topics, from their first segment to their
end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen.java.jars import jars
from jepsen.java.kafka import BEFORE, ApacheKafka, tool
from tests.bench.probe import until_serving
from tests.bench.systems import KraftSystem
from tests.capabilities import require_capability
from tests.properties.tiers_against_kafka import HOUR_MS, LOCAL, TieredLife, TieredSide

pytestmark = pytest.mark.java
SOAK = os.environ.get("KRAFT_SOAK") == "1"
SEEDS = range(10 if SOAK else 2)
BATCHES = 40 if SOAK else 30
TIMES = ("earliest", "latest", "max-timestamp", "earliest-local", "latest-tiered")
COMMON = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "4",
}


def kafka_settings(store: Path) -> dict[str, str]:
    return {
        **COMMON,
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": f"{jars('local_tiered_storage')}/*",
        "rsm.config.dir": str(store),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        # A broker that was killed may not register again before its session is over: nine seconds by default.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }


class Nodes:
    """Kafka and ours, one node each, with a store each."""

    def __init__(self, kafka: ApacheKafka, ours: KraftSystem, stores: tuple[Path, Path]) -> None:
        self.kafka, self.ours = kafka, ours
        self.sides = (
            TieredSide("ours", ("127.0.0.1", ours.port), stores[0]),
            TieredSide("kafka", ("127.0.0.1", kafka.port), stores[1]),
        )

    def kill(self) -> None:
        """Both are killed and come back."""
        self.kafka.kill()
        self.ours.kill()
        self.ours.launch()
        self.kafka.start()
        until_serving(self.ours)
        for side in self.sides:
            side.reconnect()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    require_capability("java17")
    require_capability("mvn")
    directory = tmp_path_factory.mktemp("tiers")
    stores = directory / "store", directory / "kafka-store"
    ours = KraftSystem(
        directory / "ours" / "data", settings={**COMMON, "kraft.remote.storage.uri": f"file://{stores[0]}"}
    )
    ours.prepare()
    ours.launch()
    try:
        with ApacheKafka(
            directory / "kafka", settings=kafka_settings(stores[1]), heap="-Xmx512M", release=BEFORE
        ) as kafka:
            until_serving(ours)
            made = Nodes(kafka, ours, stores)
            yield made
            for side in made.sides:
                side.close()
    finally:
        ours.kill()


def told_by_tools(side: TieredSide, topic: str) -> list[str]:
    """What Kafka's own command-line tools print of a topic."""
    at = ("--bootstrap-server", "{}:{}".format(*side.address))
    offsets = [tool("get-offsets", *at, "--topic", topic, "--time", each).stdout for each in TIMES]
    read = tool(
        "console-consumer", *at, "--topic", topic, "--from-beginning", "--timeout-ms", "4000", "--formatter-property",
        "print.offset=true", "--isolation-level", "read_committed",
    )  # fmt: skip
    return [*offsets, read.stdout]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_both_tiers_answer_as_in_kafka(nodes: Nodes, seed: int) -> None:
    life = TieredLife(seed, nodes.sides, transactions=seed % 2 == 1)
    life.make()
    life.grow(BATCHES)
    _, local, tiered = life.look()
    assert 0 < local <= tiered < life.end

    nodes.kill()
    life.see_epoch()
    life.grow(BATCHES)
    _, local, _ = life.look()
    life.delete_records(life.end + 1)
    deleted = local // 3
    life.delete_records(deleted)
    start, local, _ = life.look()
    assert start == deleted
    if life.transactions:
        ours, kafka = (told_by_tools(side, life.topic) for side in nodes.sides)
        assert ours == kafka

    life.configure(retention_bytes=str(3 * LOCAL))
    shorter, _, _ = life.look()
    assert shorter > start
    life.configure(local_retention_ms=str(HOUR_MS), retention_bytes="-1")
    _, local, _ = life.look()
    assert local == life.end or life.transactions
    life.grow(BATCHES // 2)
    life.configure(retention_bytes="-1", retention_ms=str(19 * HOUR_MS))
    start, _, _ = life.look()
    assert start == life.end or life.transactions
    life.delete()
