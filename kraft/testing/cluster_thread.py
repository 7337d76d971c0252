"""A `LocalCluster` whose event loop runs in its own thread: for tests that do not use trio, with clients that block."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

import trio

from kraft.testing.cluster_security import Security
from kraft.testing.faults.switchboard import Party
from kraft.testing.local_cluster import LocalCluster
from kraft.testing.records import Record, Stored

if TYPE_CHECKING:
    from kraft.testing.asyncio_view import AsyncioView

T = TypeVar("T")


class ClusterThread:
    """`with ClusterThread(3) as cluster`: every node serves inside the block. The methods are those of `LocalCluster`,
    but block, and may be called from any thread. Outside the block they raise RuntimeError."""

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
        """Arguments as for `LocalCluster`."""
        self._cluster = LocalCluster(
            nodes, directory, settings, admin=admin, security=security, users=users, authorizer=authorizer
        )
        self._begun: Future[trio.lowlevel.TrioToken] = Future()
        self._serving: Future[trio.lowlevel.TrioToken] = Future()
        self._ended: Future[None] = Future()
        self._leave = trio.Event()
        self._life = trio.CancelScope()
        self._thread = threading.Thread(target=self._run, name="kraft-cluster")

    @property
    def asyncio(self) -> AsyncioView:
        """The same methods as asyncio coroutines: `await cluster.asyncio.kill(1)`."""
        from kraft.testing.asyncio_view import AsyncioView  # asyncio is slow to import, and few tests need it.

        return AsyncioView(self)

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of every node, for `bootstrap.servers`."""
        self._token()
        return self._cluster.bootstrap

    @property
    def admin_url(self) -> str:
        """The URL of the HTTP admin of the first running node. Raises RuntimeError if no node has one."""
        self._token()
        return self._cluster.admin_url

    @property
    def users(self) -> tuple[str, ...]:
        """The users that have a certificate or a password, the admin first; empty for a plain cluster."""
        return self._cluster.users

    @overload
    def client_settings(
        self, client: Literal["java", "librdkafka", "spark"], user: str | None = None
    ) -> dict[str, str]: ...
    @overload
    def client_settings(self, client: Literal["aiokafka"], user: str | None = None) -> dict[str, Any]: ...
    def client_settings(self, client: Any, user: str | None = None) -> dict[str, Any]:
        """The settings with which `client` connects as `user`, by its own names, `bootstrap.servers` included."""
        self._token()
        settings: dict[str, Any] = self._cluster.client_settings(client, user)
        return settings

    @property
    def node_ids(self) -> tuple[int, ...]:
        return self._cluster.node_ids

    @property
    def running(self) -> tuple[int, ...]:
        """Ids of the nodes that serve."""
        return self._cluster.running

    @property
    def events(self) -> list[Mapping[str, object]]:
        """The log events of all nodes so far, the newest last."""
        return list(self._cluster.events)

    def start(self, *nodes: int) -> None:
        """Start `nodes` again on their existing data. Returns when they serve."""
        self._call(partial(self._cluster.start, *nodes))

    def stop(self, *nodes: int) -> None:
        """Shut `nodes` down in an orderly way. Returns when they have ended."""
        self._call(partial(self._cluster.stop, *nodes))

    def kill(self, *nodes: int) -> None:
        """Kill `nodes` without a controlled shutdown. Returns when their ports are free."""
        self._call(partial(self._cluster.kill, *nodes))

    def pause(self, node_id: int) -> None:
        """Freeze a node, as SIGSTOP does."""
        self._switch(partial(self._cluster.pause, node_id))

    def resume(self, node_id: int) -> None:
        """Let a paused node continue."""
        self._switch(partial(self._cluster.resume, node_id))

    def partition(self, *groups: Iterable[Party], one_way: bool = False) -> None:
        """Cut the network between `groups` of nodes, and clients if a group has "clients". With `one_way` only messages
        from the first group are lost."""
        self._switch(partial(self._cluster.partition, *groups, one_way=one_way))

    def delay(self, seconds: float, *nodes: int) -> None:
        """Deliver everything that `nodes` (all by default) receive `seconds` later. 0 ends the delay."""
        self._switch(partial(self._cluster.delay, seconds, *nodes))

    def lose(self, share: float, *nodes: int) -> None:
        """Lose a share of the packets that `nodes` (all by default) receive. They are sent again. 0 ends the loss."""
        self._switch(partial(self._cluster.lose, share, *nodes))

    def fail(self, api: str, error: str, *nodes: int, times: int | None = 1, carried_out: bool = False) -> None:
        """Make `nodes` (all by default) answer the next requests of an API with an error: `fail("Produce",
        "NOT_ENOUGH_REPLICAS")`. With `carried_out` they carry the request out as well."""
        self._switch(partial(self._cluster.fail, api, error, *nodes, times=times, carried_out=carried_out))

    def heal(self) -> None:
        """End all cuts, delays, losses and false responses."""
        self._switch(self._cluster.heal)

    def full_disk(self, node_id: int) -> None:
        """Make the node's disk full until `mend_disk`."""
        self._switch(partial(self._cluster.full_disk, node_id))

    def failing_disk(self, node_id: int) -> None:
        """Make all writes and syncs of the node fail until `mend_disk`; the node may end because of that."""
        self._switch(partial(self._cluster.failing_disk, node_id))

    def slow_disk(self, node_id: int, seconds: float) -> None:
        """Make each sync and each large write of the node take `seconds` longer until `mend_disk`."""
        self._switch(partial(self._cluster.slow_disk, node_id, seconds))

    def move_clock(self, node_id: int, seconds: float) -> None:
        """Move the node's wall clock by `seconds`, forward or back."""
        self._switch(partial(self._cluster.move_clock, node_id, seconds))

    def mend_disk(self, node_id: int) -> None:
        """Repair the node's disk; its data is kept."""
        self._switch(partial(self._cluster.mend_disk, node_id))

    def leader(self, topic: str, partition: int = 0, *, other_than: int | None = None) -> int:
        """Return the running node that leads the partition. Waits until a node other than `other_than` leads it."""
        return self._call(partial(self._cluster.leader, topic, partition, other_than=other_than))

    def controller(self, *, other_than: int | None = None) -> int:
        """Return the active controller. Waits until a node other than `other_than` is it."""
        return self._call(partial(self._cluster.controller, other_than=other_than))

    def coordinator(self, group: str, *, other_than: int | None = None) -> int:
        """Return the running node that coordinates the group. Waits until a node other than `other_than` does."""
        return self._call(partial(self._cluster.coordinator, group, other_than=other_than))

    def create_topic(self, name: str, partitions: int = 1, *, replicas: int | None = None, **configs: object) -> None:
        """Create a topic. Returns when every node knows its leaders. `configs` may have underscores for dots."""
        self._call(partial(self._cluster.create_topic, name, partitions, replicas=replicas, **configs))

    def delete_topic(self, name: str) -> None:
        self._call(partial(self._cluster.delete_topic, name))

    def configure_group(self, group: str, **configs: object) -> None:
        """Set configurations of a group, which need not exist: `share_auto_offset_reset="earliest"`. Returns when every
        node knows them."""
        self._call(partial(self._cluster.configure_group, group, **configs))

    def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Mapping[str, bytes | str | None] | None = None,
        seconds: float = 30.0,
    ) -> list[Stored]:
        """Write a record for each value; returns when all in-sync replicas have them."""
        return self._call(
            partial(
                self._cluster.produce, topic, *values, key=key, partition=partition, headers=headers, seconds=seconds
            )
        )

    def consume(
        self,
        topic: str,
        count: int | None = None,
        *,
        partition: int | None = None,
        committed: bool = False,
        seconds: float = 10.0,
    ) -> list[Record]:
        """Read from the beginning: `count` records, or all that exist now."""
        return self._call(
            partial(self._cluster.consume, topic, count, partition=partition, committed=committed, seconds=seconds)
        )

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._serving.result()  # Raises what kept the cluster from serving.
        except BaseException:  # Ctrl-C, too: otherwise the thread would not end, and the process waits for it.
            self._give_up()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended.done():
            self._serving.result().run_sync_soon(self._leave.set)
        self._thread.join()
        if error is None:
            self._ended.result()  # A node that failed fails the test.

    def _give_up(self) -> None:
        """End the cluster, whether it serves yet or not."""
        if not self._ended.done():
            with suppress(trio.RunFinishedError):
                self._begun.result().run_sync_soon(self._life.cancel)
        self._thread.join()

    def _token(self) -> trio.lowlevel.TrioToken:
        """The trio token of the cluster's loop. Raises RuntimeError while the cluster does not serve."""
        if self._ended.done():
            problem = self._ended.exception()
            raise RuntimeError(
                "the cluster is closed" if problem is None else "the cluster has failed, see the cause"
            ) from problem
        if not self._serving.done():
            raise RuntimeError("the cluster does not serve yet: use it inside `with`")
        return self._serving.result()

    def _call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run `function` on the loop of the cluster. Raises its errors."""
        try:
            return trio.from_thread.run(function, trio_token=self._token())
        except (trio.RunFinishedError, trio.Cancelled):
            self._thread.join()
            self._token()
            raise

    def _switch(self, function: Callable[[], None]) -> None:
        trio.from_thread.run_sync(function, trio_token=self._token())

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
        self._begun.set_result(trio.lowlevel.current_trio_token())
        with self._life:
            async with self._cluster:
                self._serving.set_result(trio.lowlevel.current_trio_token())
                await self._leave.wait()
