"""The pytest fixtures that an installed kraft provides: `kraft_cluster` starts a whole cluster for a test and ends it
afterwards. There is one for a module and one for a session, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from kraft.testing.cluster_security import Security
    from kraft.testing.cluster_thread import ClusterThread


class StartCluster(Protocol):
    """The type of the fixtures: `cluster = kraft_cluster(nodes=3, min_insync_replicas=2)`, then `cluster.bootstrap`."""

    def __call__(
        self,
        nodes: int = 3,
        *,
        admin: bool = False,
        security: Security = "plain",
        users: Iterable[str] | None = None,
        authorizer: bool = False,
        settings: Mapping[str, object] | None = None,
        **more: object,
    ) -> ClusterThread:
        """Start a cluster; returns when it serves. `settings` and `more` are Kafka properties of every node, with
        underscores for dots if you like. With `admin` each node serves its HTTP admin. `security` holds for all
        listeners. `users` may connect beside the admin; with an `authorizer` they need ACLs."""


@contextmanager
def _starter(directory: Path) -> Iterator[StartCluster]:
    from kraft.testing.cluster_thread import ClusterThread  # The whole server: only for tests that ask.

    with ExitStack() as clusters:
        started: list[ClusterThread] = []

        def start(
            nodes: int = 3,
            *,
            admin: bool = False,
            security: Security = "plain",
            users: Iterable[str] | None = None,
            authorizer: bool = False,
            settings: Mapping[str, object] | None = None,
            **more: object,
        ) -> ClusterThread:
            place = directory / f"kraft-cluster-{len(started)}"
            together = {**(settings or {}), **more}
            cluster = ClusterThread(
                nodes, place, together, admin=admin, security=security, users=users, authorizer=authorizer
            )
            started.append(clusters.enter_context(cluster))
            return cluster

        yield start


@pytest.fixture
def kraft_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """A function that starts a cluster: `cluster = kraft_cluster(nodes=3, min_insync_replicas=2)`, then
    `cluster.bootstrap`.

    Each call starts another cluster, and all end with the test. A node that failed by itself fails the test.
    """
    with _starter(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def module_kraft_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartCluster]:
    """Start clusters like `kraft_cluster`. They end with the tests of the file."""
    with _starter(tmp_path_factory.mktemp("kraft")) as start:
        yield start


@pytest.fixture(scope="session")
def session_kraft_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartCluster]:
    """Start clusters like `kraft_cluster`. They end with the whole run."""
    with _starter(tmp_path_factory.mktemp("kraft")) as start:
        yield start
