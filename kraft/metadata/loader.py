"""Builds images from committed records: the only reader of the metadata log in a node.

The Raft driver calls the three `handle_` methods, one at a time, in order, and only for committed records. A small
commit is applied synchronously. For a commit of more than 500 records, and for a snapshot, the caller gets an awaitable
that works in steps, so that other tasks run in between.

Records of an open metadata transaction (KIP-868) are replayed onto a second image. It becomes the visible one when the
transaction ends, and is dropped when it is aborted. So neither publishers nor snapshots see a part of a transaction.

Nothing is published before the first high watermark is reached, so that a starting node does not act on its past states
one by one.

On a node with a controller, each committed batch is passed to `controller` first, since responses wait for it. If the
controller wrote the batch itself, it provides the image that it built then. So both share one image and no record is
replayed twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import trio

from kraft.common.ids import OffsetAndEpoch
from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.publisher import MetadataPublisher, MetadataUpdate
from kraft.raft.ports import CommittedBatch, LeaderAndEpoch

RECORDS_PER_STEP: Final = 500

BEGIN_TRANSACTION: Final = 23
END_TRANSACTION: Final = 24
ABORT_TRANSACTION: Final = 25
TRANSACTION_MARKERS: Final = frozenset({BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION})


class SnapshotReader(Protocol):
    """A snapshot being read. `snapshot` names the log prefix that it replaces; its offset is exclusive."""

    @property
    def snapshot(self) -> OffsetAndEpoch: ...
    @property
    def last_contained_timestamp_ms(self) -> int: ...
    def batches(self) -> Iterator[CommittedBatch]: ...
    def close(self) -> None: ...


class ControllerHooks(Protocol):
    """The loader's interface to the node's controller."""

    def prepared(
        self, base: MetadataImage, last_offset: int, epoch: int
    ) -> tuple[MetadataImage, MetadataChanges] | None:
        """Return the image after the batch that ends at `last_offset`, if this controller wrote it on top of `base`;
        else None."""

    def handle_committed(self, update: MetadataUpdate, transaction_is_open: bool) -> None:
        """Handle a commit up to `update.offset`. `update.image` contains it, without an open transaction."""

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None: ...


class MetadataLoader:
    """Builds and publishes images. Owned by the node's loop. `image` is the newest image that publishers may see."""

    def __init__(self, high_watermark: Callable[[], int | None] | None = None) -> None:
        """`high_watermark` returns the committed end of the log, None while it is unknown. Without this function
        everything is published immediately."""
        self.image = MetadataImage()
        self.offset = -1
        self.epoch = -1
        self.timestamp_ms = -1
        self.leader: LeaderAndEpoch | None = None
        self.controller: ControllerHooks | None = None
        self._high_watermark = high_watermark
        self._caught_up = high_watermark is None
        self._publishers: list[MetadataPublisher] = []
        self._unpublished = MetadataChanges()
        self._unpublished_size = 0
        self._snapshot_unpublished = False
        self._published = MetadataImage()
        self._published_offset = -1
        self._inside: tuple[MetadataImage, MetadataChanges] | None = None

    @property
    def transaction_is_open(self) -> bool:
        return self._inside is not None

    @property
    def published_offset(self) -> int:
        """The last published offset; -1 before the first."""
        return self._published_offset

    def add_publisher(self, publisher: MetadataPublisher) -> None:
        """Pass every later image to `publisher`. If something is published already, the whole of it is passed first,
        immediately; otherwise the first update is."""
        self._publishers.append(publisher)
        if self._published_offset >= 0:
            changes = MetadataChanges.between(MetadataImage(), self._published)
            update = MetadataUpdate(
                self._published, changes, self._published_offset, self.epoch, self.timestamp_ms, 0, True
            )
            _drain(publisher.publish(update))

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> Awaitable[None] | None:
        """Apply committed batches. Await the result before the next call."""
        steps = self._commit(batches)
        if sum(len(batch.records) for batch in batches) > RECORDS_PER_STEP:
            return _step_by_step(steps)
        _drain(steps)
        return None

    def handle_load_snapshot(self, reader: SnapshotReader) -> Awaitable[None]:
        """Replace all metadata by a snapshot, and close its reader."""
        return _step_by_step(self._load_snapshot(reader))

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.leader = leader
        if self.controller is not None:
            self.controller.handle_leader_change(leader)

    def _commit(self, batches: Sequence[CommittedBatch]) -> Iterator[None]:
        for batch in batches:
            yield from self._apply_batch(batch)
        yield from self._publish()

    def _apply_batch(self, batch: CommittedBatch) -> Iterator[None]:
        batch_changes = MetadataChanges()
        prepared = self._prepared(batch)
        if prepared is not None:
            self.image, batch_changes = prepared
        else:
            for start in range(0, len(batch.records), RECORDS_PER_STEP):
                if start:
                    yield
                self._replay(batch.records[start : start + RECORDS_PER_STEP], batch_changes)
        self._unpublished.merge(batch_changes)
        self._unpublished_size += batch.size
        self.offset, self.epoch, self.timestamp_ms = batch.last_offset, batch.epoch, batch.append_timestamp_ms
        if self.controller is not None:
            self.controller.handle_committed(self._update(batch_changes, batch.size, False), self.transaction_is_open)

    def _prepared(self, batch: CommittedBatch) -> tuple[MetadataImage, MetadataChanges] | None:
        if self.controller is None or self._inside is not None or not batch.records:
            return None
        return self.controller.prepared(self.image, batch.last_offset, batch.epoch)

    def _replay(self, records: Sequence[Any], changes: MetadataChanges) -> None:
        """Replay some records, inside and outside of metadata transactions. `changes` collects what becomes visible."""
        for run, marker in _runs(records):
            if self._inside is not None:
                image, inside_changes = self._inside
                image, more = image.replay_batch(run)
                inside_changes.merge(more)
                self._inside = (image, inside_changes)
            elif run:
                self.image, more = self.image.replay_batch(run)
                changes.merge(more)
            if marker is not None:
                self._mark(marker, changes)

    def _mark(self, marker: int, changes: MetadataChanges) -> None:
        if marker == BEGIN_TRANSACTION:
            if self._inside is not None:
                raise ValueError("a metadata transaction starts inside another")
            self._inside = (self.image, MetadataChanges())
            return
        if self._inside is None:
            raise ValueError("a metadata transaction ends that never started")
        if marker == END_TRANSACTION:
            self.image, inside_changes = self._inside
            changes.merge(inside_changes)
        self._inside = None

    def _load_snapshot(self, reader: SnapshotReader) -> Iterator[None]:
        image = MetadataImage()
        try:
            for batch in reader.batches():
                for start in range(0, len(batch.records), RECORDS_PER_STEP):
                    image, _ = image.replay_batch(batch.records[start : start + RECORDS_PER_STEP])
                    yield
        finally:
            reader.close()
        changes = MetadataChanges.between(self.image, image)
        self._inside = None
        self.image = image
        self.offset, self.epoch = reader.snapshot.offset - 1, reader.snapshot.epoch
        self.timestamp_ms = reader.last_contained_timestamp_ms
        self._unpublished = MetadataChanges.between(self._published, image)
        self._unpublished_size = 0
        self._snapshot_unpublished = True
        if self.controller is not None:
            self.controller.handle_committed(self._update(changes, 0, True), False)
        yield from self._publish()

    def _publish(self) -> Iterator[None]:
        if self._inside is not None or self.offset <= self._published_offset or not self._has_caught_up():
            return
        update = self._update(self._unpublished, self._unpublished_size, self._snapshot_unpublished)
        self._unpublished, self._unpublished_size, self._snapshot_unpublished = MetadataChanges(), 0, False
        for publisher in self._publishers:  # Includes publishers added meanwhile.
            steps = publisher.publish(update)
            if steps is not None:
                yield from steps
        self._published, self._published_offset = update.image, update.offset

    def _has_caught_up(self) -> bool:
        if not self._caught_up:
            assert self._high_watermark is not None
            high_watermark = self._high_watermark()
            self._caught_up = high_watermark is not None and self.offset + 1 >= high_watermark
        return self._caught_up

    def _update(self, changes: MetadataChanges, size: int, is_snapshot: bool) -> MetadataUpdate:
        return MetadataUpdate(self.image, changes, self.offset, self.epoch, self.timestamp_ms, size, is_snapshot)


def _runs(records: Sequence[Any]) -> Iterator[tuple[Sequence[Any], int | None]]:
    """Return the runs of records without transaction markers, each with the marker that ends it."""
    start = 0
    for index, record in enumerate(records):
        if record.API_KEY in TRANSACTION_MARKERS:
            yield records[start:index], record.API_KEY
            start = index + 1
    if start < len(records):
        yield records[start:], None


def _drain(steps: Iterable[None] | None) -> None:
    if steps is not None:
        for _ in steps:
            pass


async def _step_by_step(steps: Iterator[None]) -> None:
    for _ in steps:
        await trio.lowlevel.checkpoint()
    await trio.lowlevel.checkpoint()
