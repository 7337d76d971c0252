"""When to write a snapshot of the metadata, and writing it: by bytes of log and by age, a few hundred records at a
time.

An image is a value, so the snapshot of an offset can be written while the log goes on. Only one is written at a
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Protocol

import trio

from kraft.common.errors import OutOfResources
from kraft.common.ids import OffsetAndEpoch
from kraft.metadata.publisher import MetadataUpdate
from kraft.world.ports import Clock

RECORDS_PER_STEP: Final = 200


class SnapshotWriter(Protocol):
    """A snapshot being written; it exists for others only once frozen."""

    def append(self, records: Sequence[Any]) -> None: ...
    async def freeze(self) -> None: ...
    def close(self) -> None:
        """Drop it, unless it is frozen."""


SnapshotFactory = Callable[[OffsetAndEpoch, int], SnapshotWriter | None]
"""Starts the snapshot of an end offset (exclusive) with the timestamp of its last record; None when there is one
already or it cannot be."""


class SnapshotGenerator:
    """A publisher, and a task that writes."""

    def __init__(self, create: SnapshotFactory, clock: Clock, *, max_bytes: int, max_interval_ms: int) -> None:
        """`max_bytes` is metadata.log.max.record.bytes.between.snapshots, `max_interval_ms`
        metadata.log.max.snapshot.interval.ms (0: never by age)."""
        self._create = create
        self._clock = clock
        self._max_bytes = max_bytes
        self._max_interval = max_interval_ms / 1000
        self._bytes = 0
        self._last_written = clock.now()
        self._wanted: MetadataUpdate | None = None
        self._work = trio.Event()
        self.snapshots_written = 0

    def publish(self, update: MetadataUpdate) -> Iterator[None] | None:
        """Count, and ask for a snapshot when it is time. A snapshot that was loaded starts the count afresh."""
        if update.is_snapshot:
            self._bytes = 0
            self._last_written = self._clock.now()
            return None
        self._bytes += update.size
        old_enough = self._max_interval > 0 and self._clock.now() - self._last_written >= self._max_interval
        if (self._bytes >= self._max_bytes or (old_enough and self._bytes > 0)) and not update.image.is_empty:
            self._bytes = 0
            self._last_written = self._clock.now()
            self._wanted = update
            self._work.set()
        return None

    async def run(self) -> None:
        """Write the snapshots asked for. Never ends."""
        while True:
            while self._wanted is None:
                self._work = trio.Event()
                await self._work.wait()
            update, self._wanted = self._wanted, None
            await self.write(update)

    async def write(self, update: MetadataUpdate) -> bool:
        """Write the snapshot of `update`'s image; tells whether there is a new one. A full disk is tried again with
        the next records."""
        try:
            return await self._write(update)
        except OutOfResources:
            self._bytes = max(self._bytes, self._max_bytes)
            return False

    async def _write(self, update: MetadataUpdate) -> bool:
        writer = self._create(OffsetAndEpoch(update.offset + 1, update.epoch), update.timestamp_ms)
        if writer is None:
            return False
        try:
            records = update.image.write()
            while chunk := list(islice(records, RECORDS_PER_STEP)):
                writer.append(chunk)
                await trio.lowlevel.checkpoint()
            await writer.freeze()
        finally:
            writer.close()
        self.snapshots_written += 1
        return True
