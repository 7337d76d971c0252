"""What pytest finds when kraft is installed: the fixture `kraft_cluster`, a whole cluster for a test and nothing
left behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from kraft.testing.cluster_thread import ClusterThread


@pytest.fixture
def kraft_cluster(tmp_path: Path) -> Iterator[Callable[..., ClusterThread]]:
    """A function that starts a cluster: `cluster = kraft_cluster(nodes=3, **{"min.insync.replicas": "2"})`, then
    `cluster.bootstrap`.

    Further calls start further clusters; all end with the test. A node that failed by itself fails the test.
    """
    from kraft.testing.cluster_thread import ClusterThread  # The whole server: only for tests that ask.

    with ExitStack() as clusters:

        def start(nodes: int = 3, **settings: str) -> ClusterThread:
            directory = tmp_path / f"kraft-cluster-{len(started)}"
            cluster = clusters.enter_context(ClusterThread(nodes, directory, settings))
            started.append(cluster)
            return cluster

        started: list[ClusterThread] = []
        yield start
