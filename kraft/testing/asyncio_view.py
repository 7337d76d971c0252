"""The methods of a `ClusterThread` for coroutines of asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kraft.testing.faults.switchboard import Party
from kraft.testing.records import Record, Stored

if TYPE_CHECKING:
    from kraft.testing.cluster_thread import ClusterThread


class AsyncioView:
    """The methods of a cluster as coroutines. Each runs the cluster's method of the same name in a worker thread, so
    that the caller's loop and its clients continue."""

    def __init__(self, cluster: ClusterThread) -> None:
        self._cluster = cluster

    async def start(self, *nodes: int) -> None:
        """Start `nodes` again on their existing data. Returns when they serve."""
        await asyncio.to_thread(partial(self._cluster.start, *nodes))

    async def stop(self, *nodes: int) -> None:
        """Shut `nodes` down in an orderly way. Returns when they have ended."""
        await asyncio.to_thread(partial(self._cluster.stop, *nodes))

    async def kill(self, *nodes: int) -> None:
        """Kill `nodes` without a controlled shutdown. Returns when their ports are free."""
        await asyncio.to_thread(partial(self._cluster.kill, *nodes))

    async def pause(self, node_id: int) -> None:
        """Freeze a node, as SIGSTOP does."""
        await asyncio.to_thread(partial(self._cluster.pause, node_id))

    async def resume(self, node_id: int) -> None:
        """Let a paused node continue."""
        await asyncio.to_thread(partial(self._cluster.resume, node_id))

    async def partition(self, *groups: Iterable[Party], one_way: bool = False) -> None:
        """Cut the network between `groups` of nodes, and clients if a group has "clients". With `one_way` only messages
        from the first group are lost."""
        await asyncio.to_thread(partial(self._cluster.partition, *groups, one_way=one_way))

    async def delay(self, seconds: float, *nodes: int) -> None:
        """Deliver everything that `nodes` (all by default) receive `seconds` later. 0 ends the delay."""
        await asyncio.to_thread(partial(self._cluster.delay, seconds, *nodes))

    async def lose(self, share: float, *nodes: int) -> None:
        """Lose a share of the packets that `nodes` (all by default) receive. They are sent again. 0 ends the loss."""
        await asyncio.to_thread(partial(self._cluster.lose, share, *nodes))

    async def fail(self, api: str, error: str, *nodes: int, times: int | None = 1, carried_out: bool = False) -> None:
        """Make `nodes` (all by default) answer the next requests of an API with an error."""
        await asyncio.to_thread(partial(self._cluster.fail, api, error, *nodes, times=times, carried_out=carried_out))

    async def heal(self) -> None:
        """End all cuts, delays, losses and false responses."""
        await asyncio.to_thread(self._cluster.heal)

    async def full_disk(self, node_id: int) -> None:
        """Make the node's disk full until `mend_disk`."""
        await asyncio.to_thread(partial(self._cluster.full_disk, node_id))

    async def failing_disk(self, node_id: int) -> None:
        """Make all writes and syncs of the node fail until `mend_disk`; the node may end because of that."""
        await asyncio.to_thread(partial(self._cluster.failing_disk, node_id))

    async def slow_disk(self, node_id: int, seconds: float) -> None:
        """Make each sync and each large write of the node take `seconds` longer until `mend_disk`."""
        await asyncio.to_thread(partial(self._cluster.slow_disk, node_id, seconds))

    async def move_clock(self, node_id: int, seconds: float) -> None:
        """Move the node's wall clock by `seconds`, forward or back."""
        await asyncio.to_thread(partial(self._cluster.move_clock, node_id, seconds))

    async def mend_disk(self, node_id: int) -> None:
        """Repair the node's disk; its data is kept."""
        await asyncio.to_thread(partial(self._cluster.mend_disk, node_id))

    async def leader(self, topic: str, partition: int = 0, *, other_than: int | None = None) -> int:
        """Return the running node that leads the partition. Waits until a node other than `other_than` leads it."""
        return await asyncio.to_thread(partial(self._cluster.leader, topic, partition, other_than=other_than))

    async def controller(self, *, other_than: int | None = None) -> int:
        """Return the active controller. Waits until a node other than `other_than` is it."""
        return await asyncio.to_thread(partial(self._cluster.controller, other_than=other_than))

    async def coordinator(self, group: str, *, other_than: int | None = None) -> int:
        """Return the running node that coordinates the group. Waits until a node other than `other_than` does."""
        return await asyncio.to_thread(partial(self._cluster.coordinator, group, other_than=other_than))

    async def create_topic(
        self, name: str, partitions: int = 1, *, replicas: int | None = None, **configs: object
    ) -> None:
        """Create a topic. Returns when every node knows its leaders. `configs` may have underscores for dots."""
        await asyncio.to_thread(partial(self._cluster.create_topic, name, partitions, replicas=replicas, **configs))

    async def delete_topic(self, name: str) -> None:
        await asyncio.to_thread(partial(self._cluster.delete_topic, name))

    async def configure_group(self, group: str, **configs: object) -> None:
        """Set configurations of a group, which need not exist: `share_auto_offset_reset="earliest"`. Returns when every
        node knows them."""
        await asyncio.to_thread(partial(self._cluster.configure_group, group, **configs))

    async def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Mapping[str, bytes | str | None] | None = None,
        seconds: float = 30.0,
    ) -> list[Stored]:
        """Write a record for each value; returns when all in-sync replicas have them."""
        return await asyncio.to_thread(
            partial(
                self._cluster.produce, topic, *values, key=key, partition=partition, headers=headers, seconds=seconds
            )
        )

    async def consume(
        self,
        topic: str,
        count: int | None = None,
        *,
        partition: int | None = None,
        committed: bool = False,
        seconds: float = 10.0,
    ) -> list[Record]:
        """Read from the beginning: `count` records, or all that exist now."""
        return await asyncio.to_thread(
            partial(self._cluster.consume, topic, count, partition=partition, committed=committed, seconds=seconds)
        )
