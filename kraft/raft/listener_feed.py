"""Delivers the committed log to a state machine: a snapshot first if the log no longer starts at 0, then batches in
order, then leader changes.

A read that fails for lack of file descriptors or memory is retried soon. Until then the state machine only lags.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

import trio

from kraft.common.errors import OutOfResources
from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.records.record_batch import batches
from kraft.raft.ports import CommittedBatch, LeaderAndEpoch, RaftListener, RecordSerde
from kraft.raft.snapshot.snapshot_reader import SnapshotReader
from kraft.world.ports import Clock

T = TypeVar("T")

READ_BYTES = 1 << 20
RETRY_SECONDS = 0.2


class CommittedLog(Protocol):
    """The driver's interface for a feed."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def applied_offset(self) -> int:
        """The end of the records that are committed, on disk, and may be delivered to listeners."""

    @property
    def leader_to_tell(self) -> tuple[LeaderAndEpoch, int]:
        """The leader, and the offset that a listener must have consumed before it is notified of this leader."""

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None: ...
    def open_snapshot(self, snapshot: OffsetAndEpoch) -> SnapshotReader: ...
    def read_committed(self, offset: int, max_bytes: int) -> bytes: ...


class ListenerFeed:
    """One listener and its position. `run` is its only task; `wake` notifies it of changes."""

    def __init__(
        self,
        listener: RaftListener,
        source: CommittedLog,
        serde: RecordSerde,
        recent: dict[int, CommittedBatch],
        clock: Clock,
    ) -> None:
        self.next_offset = -1  # -1: nothing delivered yet.
        self._listener = listener
        self._source = source
        self._serde = serde
        self._recent = recent  # Batches that this node has appended, by base offset: they need not be read back.
        self._clock = clock
        self._told: LeaderAndEpoch | None = None
        self._news = trio.Event()

    def wake(self) -> None:
        """Continue if the state of the quorum or its log has changed for this listener."""
        source, next_offset = self._source, self.next_offset
        if (
            next_offset < source.applied_offset
            or next_offset < source.log_start_offset
            or source.leader_to_tell[0] != self._told
        ):
            self._news.set()

    async def run(self, on_progress: Callable[[], None]) -> None:
        """Deliver forever. An exception of the listener ends the node:
        a state machine that failed must not continue."""
        while True:
            while await self._deliver():
                on_progress()
            await self._news.wait()
            self._news = trio.Event()

    async def _deliver(self) -> bool:
        """Deliver the next batches, snapshot or leader change, or wait for resources to read it. Returns False if there
        was none."""
        source = self._source
        snapshot = source.latest_snapshot
        if snapshot is not None and (self.next_offset < 0 or self.next_offset < source.log_start_offset):
            reader = await self._read(partial(source.open_snapshot, snapshot))
            return reader is None or await self._load(reader)
        if self.next_offset < 0:
            self.next_offset = source.log_start_offset
        if self.next_offset < source.applied_offset:
            found = await self._read(self._next_batches)
            return found is None or await self._commit(found)
        return await self._tell_leader()

    async def _read(self, read: Callable[[], T]) -> T | None:
        """Return the result of `read`. If resources are missing, wait a while and return None."""
        try:
            return read()
        except OutOfResources:
            await self._clock.sleep(RETRY_SECONDS)
            return None

    async def _load(self, reader: SnapshotReader) -> bool:
        await finished(self._listener.handle_load_snapshot(reader))
        self.next_offset = reader.snapshot.offset
        return True

    async def _commit(self, found: list[CommittedBatch]) -> bool:
        await finished(self._listener.handle_commit(found))
        self.next_offset = found[-1].end_offset
        return True

    def _next_batches(self) -> list[CommittedBatch]:
        """Return the batches after `next_offset`, as many as one read returns."""
        offset, end, found, size = self.next_offset, self._source.applied_offset, list[CommittedBatch](), 0
        while offset < end and size < READ_BYTES and (recent := self._recent.get(offset)) is not None:
            found.append(recent)
            offset, size = recent.end_offset, size + recent.size
        if found:
            return found
        for view in batches(self._source.read_committed(offset, READ_BYTES)):
            records = (
                () if view.is_control else tuple(self._serde.decode(record.value or b"") for record in view.records())
            )
            found.append(
                CommittedBatch(
                    view.base_offset,
                    view.last_offset,
                    view.partition_leader_epoch,
                    view.max_timestamp,
                    records,
                    view.size,
                )
            )
        assert found, f"nothing to read at committed offset {offset}"
        return found

    async def _tell_leader(self) -> bool:
        leader, after_offset = self._source.leader_to_tell
        if leader == self._told or self.next_offset < after_offset:
            return False
        self._told = leader
        await finished(self._listener.handle_leader_change(leader))
        return True


async def finished(result: Awaitable[None] | None) -> None:
    """Await a listener's result if it is awaitable."""
    if inspect.isawaitable(result):
        await result
