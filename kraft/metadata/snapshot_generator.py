"""Writes snapshots of the metadata: by bytes of log and by age, a few hundred records at a time.

An image is immutable, so the snapshot of an offset can be written while the log grows. Only one is written at a time.
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
    """A snapshot being written. It becomes visible only once frozen."""

    def append(self, records: Sequence[Any], level: int | None) -> None:
        """Add records, encoded for nodes at this level of metadata.version."""

    async def freeze(self) -> None: ...
    def close(self) -> None:
        """Remove the snapshot unless it is frozen."""


SnapshotFactory = Callable[[OffsetAndEpoch, int], SnapshotWriter | None]
"""Starts the snapshot of an end offset (exclusive), with the timestamp of its last record. Returns None if it exists
already or is not possible."""


class SnapshotGenerator:
    """A publisher that decides when a snapshot is due, and a task that writes it."""

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
        """Count the log bytes, and request a snapshot when it is due. A loaded snapshot restarts the count."""
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
        """Write the requested snapshots. Never returns."""
        while True:
            while self._wanted is None:
                self._work = trio.Event()
                await self._work.wait()
            update, self._wanted = self._wanted, None
            await self.write(update)

    async def write(self, update: MetadataUpdate) -> bool:
        """Write the snapshot of `update`'s image. Returns whether there is a new one. After a full disk, it is retried
        with the next records."""
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
            level, records = update.image.features.metadata_version, update.image.write()
            while chunk := list(islice(records, RECORDS_PER_STEP)):
                writer.append(chunk, level)
                await trio.lowlevel.checkpoint()
            await writer.freeze()
        finally:
            writer.close()
        self.snapshots_written += 1
        return True
