"""What several modules of integration tests start in the same way. A module that needs another cluster has a fixture
of its own under the same name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.capabilities import require_capability
from tests.integration.clusters import Cluster, running_cluster
from tests.integration.outcomes import Kraft

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node for a whole module, whose tests each take topics of their own."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Another cluster, which knows nothing of the first."""
    with running_cluster(tmp_path_factory.mktemp("elsewhere")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with both sources: ours and Spark's own connector."""
    require_capability("java17")
    require_capability("mvn")
    from jepsen.spark.spark_sessions import start_session

    session = start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def kraft(
    cluster: Cluster,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Kraft:
    """`kraft spark`, in the session that is there."""
    from tests.integration.spark_commands import kraft_in

    return kraft_in(cluster, spark, monkeypatch, capfd, tmp_path)
