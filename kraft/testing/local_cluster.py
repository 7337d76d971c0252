"""A cluster in one process: several production nodes in one trio loop, over real sockets and real files.

What leaves is a bootstrap address for any Kafka client, and ways to break the cluster: `kill` ends a node between
two instructions of its own, without any farewell, `stop` lets it hand over its leaderships, `start` serves the same
directory on the same ports again. The nodes are what `kraft-node` runs; only what belongs to a process - signals,
the ready line, the HTTP admin - is absent. One loop means that a client which blocks has to live in another thread:
`ClusterThread` keeps the loop there and is for tests that are not trio's.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import trio

from kraft.common.config.internal_topics import internal_topic_settings
from kraft.common.config.node_config import NodeConfig
from kraft.common.config.node_loader import load_node_config
from kraft.server.node import Node, run_node
from kraft.testing.ports import HOST, free_ports
from kraft.world.real import RealWorld

EVENTS_KEPT = 10_000
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0


class _Life:
    """One run of one node, from start to end."""

    __slots__ = ("ended", "node", "scope")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.node: Node | None = None
        self.ended = trio.Event()


class LocalCluster:
    """`async with LocalCluster(3) as cluster`: every node serves inside the block, and none is left behind it.

    A node that fails by itself ends the block with its error. Whatever is public is called from the loop that
    entered the block.
    """

    def __init__(
        self, nodes: int = 3, directory: str | Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        """`nodes` voters, each broker and controller, with ids from 1. Data lies in `directory`/ID (None: a
        temporary one, removed at the end).

        `settings` are Kafka properties for every node.
        """
        if nodes < 1:
            raise ValueError(f"a cluster has at least one node, not {nodes}")
        self.node_ids: tuple[int, ...] = tuple(range(1, nodes + 1))
        self.events: deque[Mapping[str, Any]] = deque(maxlen=EVENTS_KEPT)
        """The log events of all nodes, the newest last."""
        self._directory = directory
        self._settings = dict(settings or {})
        self._configs: dict[int, NodeConfig] = {}
        self._lives: dict[int, _Life] = {}
        self._nursery: trio.Nursery | None = None
        self._stack = AsyncExitStack()

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of every node, for `bootstrap.servers`."""
        return ",".join(self._configs[node].broker_listeners[0].address for node in self.node_ids)

    @property
    def running(self) -> tuple[int, ...]:
        """Ids of the nodes that serve or are starting."""
        return tuple(self._lives)

    def node(self, node_id: int) -> Node:
        """The serving node. Raises LookupError when it is not serving."""
        life = self._lives.get(node_id)
        if life is None or life.node is None:
            raise LookupError(f"node {node_id} does not serve (running: {', '.join(map(str, self._lives)) or 'none'})")
        return life.node

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            if self._directory is None:
                self._directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="kraft-cluster-"))
            self._configs = configurations(self.node_ids, Path(self._directory), self._settings)
            self._nursery = await stack.enter_async_context(trio.open_nursery())
            await self.start(self.node_ids)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if kind is None:
            with trio.move_on_after(STOP_SECONDS_MAX):
                await self.stop(self.running)
        self._open_nursery().cancel_scope.cancel()
        return await self._stack.__aexit__(kind, error, trace)

    async def start(self, nodes: Iterable[int]) -> None:
        """Returns when all of `nodes` serve. At once, since the first of a new cluster needs a majority. Raises
        TimeoutError after START_SECONDS_MAX."""
        with trio.fail_after(START_SECONDS_MAX):
            async with trio.open_nursery() as starters:
                for node_id in nodes:
                    if node_id in self._lives:
                        raise ValueError(f"node {node_id} runs already")
                    self._lives[node_id] = _Life()
                    starters.start_soon(self._open_nursery().start, self._live, node_id)

    async def stop(self, nodes: Iterable[int]) -> None:
        """Controlled shutdown of `nodes`, side by side; returns when they have ended."""
        lives = [self._lives[node_id] for node_id in nodes]
        for life in lives:
            if life.node is not None:
                life.node.begin_shutdown()
        for life in lives:
            await life.ended.wait()

    async def kill(self, node_id: int) -> None:
        """End the node without a farewell: its connections close, nothing is handed over or flushed. Returns when
        its ports are free."""
        life = self._lives[node_id]
        life.scope.cancel()
        await life.ended.wait()

    async def _live(self, node_id: int, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        life = self._lives[node_id]
        world = RealWorld(log_sink=self.events.append)
        try:
            with life.scope:
                async with trio.open_nursery() as nursery:
                    life.node = await nursery.start(partial(run_node, self._configs[node_id], world))
                    task_status.started()
        finally:
            del self._lives[node_id]
            life.ended.set()

    def _open_nursery(self) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError("a LocalCluster is used inside `async with`")
        return self._nursery


def configurations(nodes: Iterable[int], directory: Path, settings: Mapping[str, str]) -> dict[int, NodeConfig]:
    """One configuration a node: static voters on free ports of the loopback. Raises ConfigurationError when
    `settings` do not fit."""
    nodes = tuple(nodes)
    ports = iter(free_ports(2 * len(nodes)))
    addresses = {node: (next(ports), next(ports)) for node in nodes}
    voters = ",".join(f"{node}@{HOST}:{controller}" for node, (_, controller) in addresses.items())
    return {
        node: load_node_config(
            sets=[
                f"{key}={value}"
                for key, value in {
                    "node.id": str(node),
                    "log.dirs": str(directory / str(node)),
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAINTEXT://{HOST}:{broker},CONTROLLER://{HOST}:{controller}",
                    "kraft.format": "true",
                    "kraft.cluster.id": "bG9jYWwta3JhZnQtdGVzdA",
                    "group.initial.rebalance.delay.ms": "0",
                    **internal_topic_settings(len(nodes)),
                    **settings,
                }.items()
            ]
        )
        for node, (broker, controller) in addresses.items()
    }
