"""One round of the Spark harness for each source, with every fault; `make spark-harness` runs many."""

from __future__ import annotations

from pathlib import Path

import pytest

from jepsen.spark.round import FAULTS, Round
from tests.capabilities import require_capability
from tests.integration.three_nodes import three_nodes

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.soak]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("source", ["kraft", "kafka"])
def test_spark_gets_every_record_once_while_all_is_killed(tmp_path: Path, source: str) -> None:
    require_capability("java17")
    require_capability("mvn")
    with three_nodes(tmp_path / "nodes") as cluster:
        for verdict in Round(cluster, tmp_path, 1, [source], FAULTS, "local[2,8]").run():
            assert verdict.ok, verdict
            assert verdict.checked > 0
