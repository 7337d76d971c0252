"""The Spark harness: a loss that is real is told, in every run; one round for each source with every fault in a
soak. `make spark-harness` runs many."""

from __future__ import annotations

from pathlib import Path

import pytest

from jepsen.spark.loss import RETENTION_CHECK_MS, LossRound
from jepsen.spark.once_round import OnceRound
from jepsen.spark.round import FAULTS, Round
from jepsen.spark.spark_cluster import SparkCluster
from jepsen.three_nodes import ThreeNodes
from tests.capabilities import require_capability

pytestmark = [pytest.mark.spark, pytest.mark.java]
SETTINGS = ("--set", f"log.retention.check.interval.ms={RETENTION_CHECK_MS}", "--set", "broker.session.timeout.ms=4000")


@pytest.fixture(autouse=True)
def spark_is_there() -> None:
    require_capability("java17")
    require_capability("mvn")


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_an_unclean_election_below_a_checkpoint_is_reported_with_partition_and_offsets(tmp_path: Path) -> None:
    with ThreeNodes(tmp_path / "nodes", *SETTINGS) as cluster:
        verdict = LossRound(cluster, tmp_path, 1, "kraft").run(("election",))
    assert verdict.ok, verdict
    assert verdict.checked > 0


@pytest.mark.soak
@pytest.mark.timeout(800)
@pytest.mark.parametrize(("source", "options"), [("kraft", {}), ("kraft", {"fetcher": "librdkafka"}), ("kafka", {})])
def test_a_loss_is_reported_and_the_remaining_records_arrive_once(
    tmp_path: Path, source: str, options: dict[str, str]
) -> None:
    with ThreeNodes(tmp_path / "nodes", *SETTINGS) as cluster:
        verdict = LossRound(cluster, tmp_path, 2, source, options).run()
    assert verdict.ok, verdict
    assert verdict.checked > 0


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("source", ["kraft", "kafka"])
def test_spark_delivers_each_record_once_while_everything_is_killed(tmp_path: Path, source: str) -> None:
    with ThreeNodes(tmp_path / "nodes") as cluster:
        for verdict in Round(cluster, tmp_path, 1, [source], FAULTS, "local[2,8]").run():
            assert verdict.ok, verdict
            assert verdict.checked > 0


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_archived_records_are_written_once_while_the_driver_is_killed_and_tasks_run_twice(tmp_path: Path) -> None:
    with ThreeNodes(tmp_path / "nodes") as cluster, SparkCluster(tmp_path / "spark") as spark:
        one = OnceRound(cluster.bootstrap, cluster.restart, spark, tmp_path, "foreach", 30_000, 1000, replicas=3)
        for verdict in one.run():
            assert verdict.ok, verdict
            assert verdict.checked == 30_000
