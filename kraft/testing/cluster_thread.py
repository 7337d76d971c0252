"""A `LocalCluster` whose loop runs in a thread of its own: for tests that are not trio's, with clients that block."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

import trio

from kraft.testing.local_cluster import LocalCluster


class ClusterThread:
    """`with ClusterThread(3) as cluster`: every node serves inside the block. Its methods are those of
    `LocalCluster`, and block."""

    def __init__(
        self, nodes: int = 3, directory: str | Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        """Arguments as for `LocalCluster`."""
        self._cluster = LocalCluster(nodes, directory, settings)
        self._serving: Future[trio.lowlevel.TrioToken] = Future()
        self._ended: Future[None] = Future()
        self._leave = trio.Event()
        self._thread = threading.Thread(target=self._run, name="kraft-cluster")

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of every node, for `bootstrap.servers`."""
        return self._cluster.bootstrap

    @property
    def node_ids(self) -> tuple[int, ...]:
        return self._cluster.node_ids

    @property
    def events(self) -> list[Mapping[str, object]]:
        """The log events of all nodes so far, the newest last."""
        return list(self._cluster.events)

    def kill(self, node_id: int) -> None:
        """End the node without a farewell; returns when its ports are free."""
        trio.from_thread.run(self._cluster.kill, node_id, trio_token=self._serving.result())

    def stop(self, *nodes: int) -> None:
        """Controlled shutdown of `nodes`; returns when they have ended."""
        trio.from_thread.run(self._cluster.stop, nodes, trio_token=self._serving.result())

    def start(self, *nodes: int) -> None:
        """Start `nodes` again over what they left; returns when they serve."""
        trio.from_thread.run(self._cluster.start, nodes, trio_token=self._serving.result())

    def __enter__(self) -> Self:
        self._thread.start()
        self._serving.result()  # Raises what kept the cluster from serving.
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended.done():
            self._serving.result().run_sync_soon(self._leave.set)
        self._thread.join()
        if error is None:
            self._ended.result()  # A node that failed fails the test.

    def _run(self) -> None:
        try:
            trio.run(self._live)
        except BaseException as problem:  # noqa: BLE001 - handed to the thread that waits.
            self._ended.set_exception(problem)
            if not self._serving.done():
                self._serving.set_exception(problem)
        else:
            self._ended.set_result(None)

    async def _live(self) -> None:
        async with self._cluster:
            self._serving.set_result(trio.lowlevel.current_trio_token())
            await self._leave.wait()
