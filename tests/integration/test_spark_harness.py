"""One round of the Spark harness; `make spark-harness` runs many, with every fault."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jepsen.spark.round import FAULTS, Round
from tests.capabilities import require_capability
from tests.integration.three_nodes import three_nodes

pytestmark = [pytest.mark.spark, pytest.mark.java]
SOAK = os.environ.get("KRAFT_SOAK") == "1"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("source", ["kraft", "kafka"] if SOAK else ["kraft"])
def test_spark_gets_every_record_once_while_its_driver_and_a_leader_are_killed(tmp_path: Path, source: str) -> None:
    require_capability("java17")
    require_capability("mvn")
    faults = FAULTS if SOAK else ("leader", "driver")
    with three_nodes(tmp_path / "nodes") as cluster:
        for verdict in Round(cluster, tmp_path, 1, [source], faults, "local[2,8]").run():
            assert verdict.ok, verdict
            assert verdict.checked > 0
