"""The coordinator runtime: one driver for each partition of an internal topic that this node leads. Used for groups and
transactions.

Leadership decides what is hosted: `on_election` loads a partition in its leader epoch, `on_resignation` drops it. A
driver of an older epoch is cancelled, and its successor waits for it to end, so two drivers never append concurrently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import trio

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.common.quarantine import Quarantine
from kraft.coordinator.coordinator_log import CoordinatorLog
from kraft.coordinator.pending_batch import Waiter
from kraft.coordinator.shard import CoordinatorShard, Marker, Operation, Producer
from kraft.coordinator.shard_driver import ShardDriver
from kraft.coordinator.sweeps import Walk
from kraft.protocol.error_codes import ErrorCode
from kraft.world.ports import World

S = TypeVar("S")
R = TypeVar("R")


class CoordinatorRuntime(Generic[S]):
    """Hosts the shards of `topic`. `perform(partition, leader epoch, effect)` is called with committed effects; it must
    not block. Every method but `run` may be called from any task of the loop. Errors are ApiError:

    COORDINATOR_NOT_AVAILABLE while `run` is not running, NOT_COORDINATOR for a partition that is not hosted,
    COORDINATOR_LOAD_IN_PROGRESS while it is loading, and until everything loaded is known to be committed.
    """

    def __init__(
        self,
        topic: str,
        shard: CoordinatorShard[S],
        *,
        log: CoordinatorLog,
        world: World,
        write_timeout_ms: int,
        perform: Callable[[int, int, Any], None] | None = None,
    ) -> None:
        self.topic = topic
        self.set_aside = Quarantine(world.clock, world.log_sink)
        self._shard = shard
        self._log = log
        self._world = world
        self._write_timeout_ms = write_timeout_ms
        self._perform = perform or _no_effect
        self._nursery: trio.Nursery | None = None
        self._drivers: dict[int, ShardDriver[S]] = {}
        # The last driver of a partition that was given up, which may still be ending.
        self._departed: dict[int, ShardDriver[S]] = {}

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Host shards until cancelled. Partitions elected earlier are loaded at the start."""
        try:
            async with trio.open_nursery() as shard_nursery:
                self._nursery = shard_nursery
                for partition in sorted(self._drivers):
                    shard_nursery.start_soon(self._drivers[partition].run)
                task_status.started()
                try:
                    await trio.sleep_forever()
                finally:
                    self._nursery = None
        finally:
            self._drivers = {}
            self._departed = {}

    def on_election(self, partition: int, leader_epoch: int) -> None:
        """Host the partition, which this node leads in `leader_epoch`. Ignored unless the epoch is newer than the
        hosted one."""
        hosted = self._drivers.get(partition)
        if hosted is not None and hosted.leader_epoch >= leader_epoch:
            return
        driver = ShardDriver(
            self._shard,
            TopicPartition(self.topic, partition),
            leader_epoch,
            log=self._log,
            clock=self._world.clock,
            write_timeout_ms=self._write_timeout_ms,
            note=self._world.log_sink,
            perform=self._perform,
            set_aside=self.set_aside,
        )
        self._drivers[partition] = driver
        if self._nursery is not None:
            if hosted is not None:
                hosted.close()
            self._nursery.start_soon(driver.run, hosted or self._departed.pop(partition, None))

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        """Drop the partition, which this node no longer leads as of `leader_epoch` (None: in any epoch, because the
        replica was removed)."""
        hosted = self._drivers.get(partition)
        if hosted is None or (leader_epoch is not None and leader_epoch <= hosted.leader_epoch):
            return
        del self._drivers[partition]
        if self._nursery is not None:
            hosted.close()
            self._departed[partition] = hosted

    def partitions(self) -> list[int]:
        """Partitions hosted here, loaded or loading."""
        return sorted(self._drivers)

    def is_active(self, partition: int) -> bool:
        driver = self._drivers.get(partition)
        return driver is not None and driver.active

    def hosts(self, partition: int, leader_epoch: int) -> bool:
        """Whether the partition is led here in that epoch, loaded or loading."""
        driver = self._drivers.get(partition)
        return self._nursery is not None and driver is not None and driver.leader_epoch == leader_epoch

    async def write(self, partition: int, operation: Operation, producer: Producer | None = None) -> Any:
        """Run an operation and wait for its response. Raises ApiError."""
        return await self._active(partition).submit(operation, producer).wait()

    def submit(self, partition: int, operation: Operation, producer: Producer | None = None) -> Waiter:
        """Run an operation without waiting for its response. Its records belong to the transaction of `producer`, if
        given. Raises ApiError."""
        return self._active(partition).submit(operation, producer)

    async def complete_transaction(self, partition: int, marker: Marker) -> None:
        """Append a transaction marker and wait until it is committed. Raises ApiError."""
        await self._active(partition).end_transaction(marker).wait()

    def read(self, partition: int, query: Callable[[S], R]) -> R:
        """Query the committed state of a partition's shard. Raises ApiError."""
        return query(self._active(partition).committed_state)

    def read_all(self, query: Callable[[S], R]) -> list[R]:
        """Query the committed state of every shard hosted here. Raises ApiError if one is still loading, because the
        result would be incomplete."""
        self._require_running()
        return [self.read(partition, query) for partition in self.partitions()]

    def read_loaded(self, query: Callable[[S], R]) -> list[R]:
        """Query the committed state of the loaded shards, for metrics."""
        return [
            query(self._drivers[partition].committed_state)
            for partition in self.partitions()
            if self._drivers[partition].active
        ]

    def walk_all(self, walk: Walk[S]) -> None:
        """Start a sweep of every shard hosted here, now or once it is loaded. Does not wait for it."""
        for partition in self.partitions():
            self._drivers[partition].walks.add(walk)

    def _require_running(self) -> None:
        if self._nursery is None:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is not running")

    def _active(self, partition: int) -> ShardDriver[S]:
        driver = self._drivers.get(partition)
        if self._nursery is None or driver is None:
            self._require_running()
            raise ApiError(ErrorCode.NOT_COORDINATOR, f"{self.topic}-{partition} is not led here")
        if not driver.active:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.topic}-{partition} is being loaded")
        return driver


def _no_effect(partition: int, leader_epoch: int, effect: Any) -> None:
    raise AssertionError(f"an effect that nobody performs: {effect}")
