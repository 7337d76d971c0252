"""A cluster in one process: several production nodes in one trio loop, over real sockets and real files.

It has a bootstrap address for any Kafka client, and methods that inject faults. `kill` ends a node between two of its
steps without a controlled shutdown. `stop` lets it hand over its leaderships. `start` serves the same directory on the
same ports again. `pause` freezes a node. `partition`, `delay` and `lose` act on the network, `full_disk`,
`failing_disk` and `slow_disk` on disks, `move_clock` on the wall clock, and `fail` on responses.

The nodes are what `kraft-node` runs, without the parts of a process: signals and the ready line. A client that blocks
must run in another thread than the loop. `ClusterThread` runs the loop in its own thread, for tests that do not use
trio.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, overload

import trio

from kraft.common.config.node.node_config import NodeConfig
from kraft.server.node import Node, run_node
from kraft.testing.admin_server import AdminServer
from kraft.testing.cluster_client import ClusterClient
from kraft.testing.cluster_security import Client, ClusterSecurity, Security
from kraft.testing.cluster_view import ClusterView
from kraft.testing.configurations import configurations
from kraft.testing.faults.answers import FailingAnswers, code_of, key_of
from kraft.testing.faults.switchboard import Party, Switchboard
from kraft.testing.faults.world import FaultyWorld
from kraft.testing.ports import HOST
from kraft.testing.records import Record, Stored, as_property, as_setting

EVENTS_KEPT = 10_000
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
REPLICAS_MAX = 3
"""Default number of replicas of a topic, if there are as many nodes."""


class _Life:
    """One run of one node, from start to end."""

    __slots__ = ("ended", "node", "scope", "world")

    def __init__(self, world: FaultyWorld) -> None:
        self.world = world
        self.scope = trio.CancelScope()
        self.node: Node | None = None
        self.ended = trio.Event()


class LocalCluster:
    """`async with LocalCluster(3) as cluster`: every node serves inside the block, and all have ended after it.

    A node that fails by itself ends the block with its error, unless the test has broken its disk. Public methods are
    called from the loop that entered the block. They raise LookupError for an unknown node, and RuntimeError if the
    node's state does not allow the call.
    """

    def __init__(
        self,
        nodes: int = 3,
        directory: str | Path | None = None,
        settings: Mapping[str, object] | None = None,
        *,
        admin: bool = False,
        security: Security = "plain",
        users: Iterable[str] | None = None,
        authorizer: bool = False,
    ) -> None:
        """`nodes` is the number of nodes, each voter, broker and controller, with ids from 1. Data is in
        `directory`/ID; None means a temporary directory, removed at the end.

        `settings` are Kafka properties for every node. With `admin` each serves its HTTP admin. `security` holds for
        all listeners. `users` (none given: alice) have certificates or passwords beside the admin; with an `authorizer`
        they need ACLs. Raises ValueError for invalid arguments, MissingPackage.
        """
        if nodes < 1:
            raise ValueError(f"a cluster has at least one node, not {nodes}")
        self.node_ids: tuple[int, ...] = tuple(range(1, nodes + 1))
        self.events: deque[Mapping[str, Any]] = deque(maxlen=EVENTS_KEPT)
        """The log events of all nodes, the newest last."""
        self._directory = directory
        self._settings = {as_property(key): as_setting(value) for key, value in (settings or {}).items()}
        self._has_admin = admin
        self._admin_ports: dict[int, int] = {}
        self._configs: dict[int, NodeConfig] = {}
        self._lives: dict[int, _Life] = {}
        self._failures: dict[int, str] = {}
        """Errors of nodes that ended because of a broken disk."""
        self._board = Switchboard()
        self._security = ClusterSecurity(security, users, authorizer=authorizer)
        self._client = ClusterClient(self._addresses, tls=self._security.tls, login=self._security.login)
        self._view = ClusterView(self._serving_nodes)
        self._nursery: trio.Nursery | None = None
        self._stack = AsyncExitStack()

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of every node, for `bootstrap.servers`."""
        self._open_nursery()
        return ",".join(self._configs[node].broker_listeners[0].address for node in self.node_ids)

    @property
    def running(self) -> tuple[int, ...]:
        """Ids of the nodes that serve or are starting."""
        return tuple(self._lives)

    @property
    def admin_url(self) -> str:
        """The URL of the HTTP admin of the first running node. Raises RuntimeError if no node has one."""
        for node in sorted(self._lives):
            if node in self._admin_ports:
                return f"http://{HOST}:{self._admin_ports[node]}"
        raise RuntimeError(
            "no node runs" if self._has_admin else "this cluster has no HTTP admin: start it with admin=True"
        )

    @property
    def users(self) -> tuple[str, ...]:
        """The users that have a certificate or a password, the admin first; empty for a plain cluster."""
        return self._security.users

    @overload
    def client_settings(
        self, client: Literal["java", "librdkafka", "spark"], user: str | None = None
    ) -> dict[str, str]: ...
    @overload
    def client_settings(self, client: Literal["aiokafka"], user: str | None = None) -> dict[str, Any]: ...
    def client_settings(self, client: Client, user: str | None = None) -> dict[str, Any]:
        """The settings with which a client connects as `user`, `bootstrap.servers` included: properties of Java's
        clients or of librdkafka, arguments of aiokafka, or options of Spark (each with `kafka.` before it).

        Without a user a TLS client shows no certificate. Raises LookupError for an unknown user, ValueError for an
        unknown client, or without a user if the cluster has logins.
        """
        return self._security.client_settings(client, self.bootstrap, user)

    def node(self, node_id: int) -> Node:
        """Return a serving node. Raises LookupError if it does not serve."""
        life = self._lives.get(node_id)
        if life is None or life.node is None:
            raise LookupError(f"node {node_id} does not serve ({self._running_text()})")
        return life.node

    async def __aenter__(self) -> Self:
        self._board.enter_loop()
        async with AsyncExitStack() as stack:
            if self._directory is None:
                self._directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="kraft-cluster-"))
            self._configs = configurations(self.node_ids, Path(self._directory), self._settings, self._security)
            self._nursery = await stack.enter_async_context(trio.open_nursery())
            await self.start(*self.node_ids)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        nursery = self._open_nursery()
        if kind is None:
            self.heal()
            for node in self.running:
                self.mend_disk(node)
                self._resume(node)
            with trio.move_on_after(STOP_SECONDS_MAX):
                await self.stop(*self.running)
        nursery.cancel_scope.cancel()
        self._nursery = None
        return await self._stack.__aexit__(kind, error, trace)

    # Nodes

    async def start(self, *nodes: int) -> None:
        """Start `nodes` together, since a new cluster needs a majority. Returns when all of them serve. Raises
        TimeoutError after START_SECONDS_MAX."""
        nursery = self._open_nursery()
        for node_id in nodes:
            self._require_known(node_id)
            if node_id in self._lives:
                raise RuntimeError(f"node {node_id} runs already")
        with trio.move_on_after(START_SECONDS_MAX) as patience:
            async with trio.open_nursery() as starters:
                for node_id in nodes:
                    self._failures.pop(node_id, None)
                    self._lives[node_id] = _Life(FaultyWorld(self._board, node_id, self.events.append))
                    starters.start_soon(nursery.start, self._live, node_id)
        if patience.cancelled_caught:
            raise TimeoutError(f"nodes {_list(nodes)} do not serve after {START_SECONDS_MAX:g} s")

    async def stop(self, *nodes: int) -> None:
        """Shut `nodes` down in an orderly way, concurrently. Returns when they have ended. Raises RuntimeError for a
        paused node."""
        lives = [self._life(node_id) for node_id in nodes]
        for node_id in nodes:
            if self._board.is_paused(node_id):
                raise RuntimeError(f"node {node_id} is paused: resume it before it is stopped, or kill it")
        for life in lives:
            if life.node is not None:
                life.node.begin_shutdown()
        for life in lives:
            await life.ended.wait()

    async def kill(self, *nodes: int) -> None:
        """Kill `nodes` without a controlled shutdown: their connections close, nothing is handed over or flushed.
        Returns when their ports are free."""
        lives = [self._life(node_id) for node_id in nodes]
        for node_id, life in zip(nodes, lives, strict=True):
            life.scope.cancel()
            self._resume(node_id)
        for life in lives:
            await life.ended.wait()

    def pause(self, node_id: int) -> None:
        """Freeze a node, as SIGSTOP does a process: connections stay open, nothing is read or answered, and no timer
        fires. Time passes."""
        life = self._life(node_id)
        if self._board.is_paused(node_id):
            raise RuntimeError(f"node {node_id} is paused already")
        self._board.pause(node_id)
        life.world.clock.follow()

    def resume(self, node_id: int) -> None:
        """Let a paused node continue."""
        self._life(node_id)
        if not self._board.is_paused(node_id):
            raise RuntimeError(f"node {node_id} is not paused")
        self._resume(node_id)

    def _resume(self, node_id: int) -> None:
        self._board.resume(node_id)
        self._lives[node_id].world.clock.follow()

    # Network and disks

    def partition(self, *groups: Iterable[Party], one_way: bool = False) -> None:
        """Cut the network between `groups` until `heal`, on existing and new connections. What was sent arrives then,
        if its connection still exists.

        A group has ids of nodes, and may have "clients". A node in no group reaches all others. With `one_way` only
        messages from the first group are lost. Cuts add up."""
        self._open_nursery()
        kept = [tuple(group) for group in groups]
        for party in (party for group in kept for party in group):
            if isinstance(party, int):
                self._require_known(party)
        self._board.cut_apart(kept, self.node_ids, one_way=one_way)

    def delay(self, seconds: float, *nodes: int) -> None:
        """Deliver everything that `nodes` receive, from nodes and clients, at least `seconds` later. 0 ends the delay.
        Without `nodes` it applies to all."""
        self._open_nursery()
        if seconds < 0:
            raise ValueError(f"nothing comes {-seconds:g} s before it is sent")
        for node_id in nodes or self.node_ids:
            self._require_known(node_id)
            self._board.delay(node_id, seconds)

    def lose(self, share: float, *nodes: int) -> None:
        """Lose a `share` of the packets that `nodes` receive. They are retransmitted 0.2 s later, as by TCP. 0 ends the
        loss. Without `nodes` it applies to all."""
        self._open_nursery()
        if not 0 <= share < 1:
            raise ValueError(f"{share:g} is no share of packets: it is 0, or more and less than 1")
        for node_id in nodes or self.node_ids:
            self._require_known(node_id)
            self._board.lose(node_id, share)

    def fail(self, api: str, error: str, *nodes: int, times: int | None = 1, carried_out: bool = False) -> None:
        """Make each of `nodes` answer the next `times` requests of an API by clients with an error. Without `nodes` it
        applies to all. With `times=None` it lasts until `heal`. With `carried_out` a node carries the request out
        before it answers.

        `api` and `error` are Kafka's names: "Produce", "NOT_LEADER_OR_FOLLOWER". Raises LookupError for unknown names.
        """
        self._open_nursery()
        if times is not None and times < 1:
            raise ValueError(f"{times} times is never")
        wanted = (code_of(error), carried_out, times)
        for node_id in nodes or self.node_ids:
            self._require_known(node_id)
            self._board.answers[node_id, key_of(api)] = wanted

    def heal(self) -> None:
        """End all cuts, delays, losses and false responses. Paused nodes, disks and clocks are not changed."""
        self._open_nursery()
        self._board.heal()

    def full_disk(self, node_id: int) -> None:
        """Make the node's disk full (ENOSPC) until `mend_disk`."""
        self._require_known(node_id)
        self._board.break_disk(node_id, "full")

    def failing_disk(self, node_id: int) -> None:
        """Make all writes and syncs of the node fail (EIO) until `mend_disk`. The node ends if that is its only disk;
        that is no failure of the cluster. `start` it again once the disk is mended."""
        self._require_known(node_id)
        self._board.break_disk(node_id, "failing")

    def slow_disk(self, node_id: int, seconds: float) -> None:
        """Make each sync and each large write of the node take `seconds` longer until `mend_disk`."""
        self._require_known(node_id)
        if seconds < 0:
            raise ValueError(f"no disk is {-seconds:g} s faster")
        self._board.slow_disk(node_id, seconds)

    def move_clock(self, node_id: int, seconds: float) -> None:
        """Move the node's wall clock by `seconds`, back if they are negative. Moves add up, also over restarts.
        Timeouts are not affected: they use the monotonic clock."""
        self._require_known(node_id)
        self._board.set_wall_clock(node_id, round(seconds * 1000))

    def mend_disk(self, node_id: int) -> None:
        """Repair the node's disk; its data is kept."""
        self._require_known(node_id)
        self._board.mend_disk(node_id)

    # Who does what

    async def leader(self, topic: str, partition: int = 0, *, other_than: int | None = None) -> int:
        """Return the running node that leads the partition by the newest committed metadata. Waits until a node other
        than `other_than` leads it.

        Raises LookupError if the partition does not exist, TimeoutError.
        """
        self._open_nursery()
        return await self._view.leader(topic, partition, other_than)

    async def controller(self, *, other_than: int | None = None) -> int:
        """Wait for an active controller that runs and is not `other_than`. Raises TimeoutError."""
        self._open_nursery()
        return await self._view.controller(other_than)

    async def coordinator(self, group: str, *, other_than: int | None = None) -> int:
        """Return the running node that coordinates the group; the group need not exist. Waits as `leader` does."""
        self._open_nursery()
        if not self._view.has_groups():
            await self._client.coordinator(group)
        return await self._view.coordinator(group, other_than)

    # Topics and records

    async def create_topic(
        self, name: str, partitions: int = 1, *, replicas: int | None = None, **configs: object
    ) -> None:
        """Create a topic. Returns when every node that is not cut off knows its leaders. `replicas` defaults to three,
        or to the number of nodes if that is less. `configs` may have underscores for dots: `cleanup_policy="compact"`.
        Raises ApiError."""
        self._open_nursery()
        copies = min(REPLICAS_MAX, len(self.node_ids)) if replicas is None else replicas
        await self._client.create_topic(name, partitions, copies, configs)
        await self._view.await_topic(name, everywhere=self._board.is_calm)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises LookupError if it does not exist, ApiError."""
        self._open_nursery()
        self._view.require_topic(name)
        await self._client.delete_topic(name)

    async def configure_group(self, group: str, **configs: object) -> None:
        """Set configurations of a group, which need not exist: `share_auto_offset_reset="earliest"`. Returns when every
        node that is not cut off knows them. Raises ApiError."""
        self._open_nursery()
        settings = {as_property(key): as_setting(value) for key, value in configs.items()}
        await self._client.configure_group(group, settings)
        await self._view.await_group_configs(group, settings, everywhere=self._board.is_calm)

    async def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Mapping[str, bytes | str | None] | None = None,
        seconds: float = 30.0,
    ) -> list[Stored]:
        """Write a record for each value. Returns when all in-sync replicas have them. Raises ApiError, and
        DeadlinePassed if a record was not acknowledged within `seconds`."""
        self._open_nursery()
        return await self._client.produce(topic, values, key, partition, headers or {}, seconds)

    async def consume(
        self,
        topic: str,
        count: int | None = None,
        *,
        partition: int | None = None,
        committed: bool = False,
        seconds: float = 10.0,
    ) -> list[Record]:
        """Read from the beginning: `count` records, or all that exist now, of one partition or all, each in order.
        `committed` leaves out the records of open and aborted transactions.

        Raises LookupError if the topic or partition does not exist, TimeoutError with the number of records read.
        """
        self._open_nursery()
        self._view.require_partition(topic, partition or 0)
        return await self._client.consume(topic, count, partition, committed, seconds)

    # Inside

    async def _live(self, node_id: int, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        life = self._lives[node_id]
        admin: AdminServer | None = None
        try:
            with life.scope:
                async with trio.open_nursery() as nursery:
                    life.node = await nursery.start(partial(run_node, self._configs[node_id], life.world))
                    self._may_answer_otherwise(node_id, life.node)
                    if self._has_admin:
                        port = self._admin_ports.get(node_id, 0)
                        admin = AdminServer(life.node.admin_service, port, self.events.append)
                        self._admin_ports[node_id] = admin.port
                    task_status.started()
        except Exception as problem:
            if life.node is None or self._board.disk_fault(node_id) is None:
                raise
            self._failures[node_id] = _innermost(problem)
        finally:
            if admin is not None:
                await admin.stop()
            del self._lives[node_id]
            self._board.resume(node_id)
            life.ended.set()

    def _may_answer_otherwise(self, node_id: int, node: Node) -> None:
        if node.broker is not None:
            refuse = node.broker.dispatcher.refuse
            for server in node.broker.socket_servers.values():
                server.dispatcher = FailingAnswers(server.dispatcher, refuse, self._board, node_id)

    def _open_nursery(self) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError(
                "a LocalCluster is used inside `async with`" + (", not after it" if self._configs else "")
            )
        return self._nursery

    def _life(self, node_id: int) -> _Life:
        """Return the present life of a node. Raises LookupError for an unknown node, RuntimeError if it is down."""
        self._open_nursery()
        self._require_known(node_id)
        life = self._lives.get(node_id)
        if life is None:
            why = f": {self._failures[node_id]}" if node_id in self._failures else ""
            raise RuntimeError(f"node {node_id} is down{why} ({self._running_text()})")
        return life

    def _require_known(self, node_id: int) -> None:
        if node_id not in self.node_ids:
            verb = "is" if len(self.node_ids) == 1 else "are"
            raise LookupError(f"there is no node {node_id}; there {verb} {_list(self.node_ids)}")

    def _running_text(self) -> str:
        return f"running: {_list(sorted(self._lives)) or 'none'}"

    def _serving_nodes(self) -> dict[int, Node]:
        return {
            node_id: life.node
            for node_id, life in sorted(self._lives.items())
            if life.node is not None and not self._board.is_paused(node_id)
        }

    def _addresses(self) -> list[tuple[str, int]]:
        """The addresses for the cluster's own client, those likely to answer first: nodes of a majority have fewer
        cuts."""
        serving = self._serving_nodes()
        ordered = sorted(self.node_ids, key=lambda node: (node not in serving, self._board.cuts_of(node), node))
        listeners = [self._configs[node].broker_listeners[0] for node in ordered]
        return [(listener.host, listener.port) for listener in listeners]


def _list(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes))


def _innermost(problem: BaseException) -> str:
    """The text of the first error inside nested exception groups."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return str(problem) or repr(problem)
