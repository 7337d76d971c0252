"""When snapshots are written, and that they hold the image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from kraft.common.errors import OutOfResources
from kraft.common.ids import OffsetAndEpoch
from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.publisher import MetadataUpdate
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.metadata.snapshot_generator import SnapshotGenerator
from kraft.world.simulated import Universe


class Writer:
    def __init__(self, snapshot: OffsetAndEpoch, timestamp_ms: int) -> None:
        self.snapshot = snapshot
        self.timestamp_ms = timestamp_ms
        self.records: list[Any] = []
        self.frozen = False
        self.closed = False

    def append(self, records: Sequence[Any], level: int | None) -> None:
        self.records += records

    async def freeze(self) -> None:
        await trio.lowlevel.checkpoint()
        self.frozen = True

    def close(self) -> None:
        self.closed = True


class Shelf:
    """Where snapshots go."""

    def __init__(self) -> None:
        self.writers: list[Writer] = []
        self.refuses = False
        self.is_full = False

    def create(self, snapshot: OffsetAndEpoch, timestamp_ms: int) -> Writer | None:
        if self.refuses:
            return None
        if self.is_full:
            raise OutOfResources("no room")
        self.writers.append(Writer(snapshot, timestamp_ms))
        return self.writers[-1]


def image_with(topics: int) -> MetadataImage:
    records: list[Any] = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    records += [TopicRecord(name=f"t{index}", topic_id=index.to_bytes(16, "big")) for index in range(topics)]
    return MetadataImage().replay_batch(records)[0]


def update(
    offset: int, size: int = 100, *, image: MetadataImage | None = None, is_snapshot: bool = False
) -> MetadataUpdate:
    return MetadataUpdate(image or image_with(1), MetadataChanges(), offset, 2, offset * 10, size, is_snapshot)


def run(body: Any, **limits: Any) -> Shelf:
    """Run `body(generator, universe, shelf)` beside the generator's task."""
    shelf = Shelf()

    async def fate(universe: Universe) -> None:
        generator = SnapshotGenerator(
            shelf.create, universe.world_for(1).clock, **{"max_bytes": 1_000, "max_interval_ms": 0, **limits}
        )
        async with trio.open_nursery() as generator_nursery:
            generator_nursery.start_soon(generator.run)
            await body(generator, universe, shelf)
            await universe.sleep(1)
            generator_nursery.cancel_scope.cancel()

    Universe(1).run(fate, seconds_max=100_000)
    return shelf


def test_a_snapshot_is_written_after_enough_bytes() -> None:
    async def body(generator: SnapshotGenerator, universe: Universe, shelf: Shelf) -> None:
        for offset in range(25):
            generator.publish(update(offset))
            await universe.sleep(0.1)
        assert generator.snapshots_written == 2

    shelf = run(body)
    assert [(w.snapshot, w.timestamp_ms, w.frozen, w.closed) for w in shelf.writers] == [
        (OffsetAndEpoch(10, 2), 90, True, True),
        (OffsetAndEpoch(20, 2), 190, True, True),
    ]


def test_a_snapshot_is_written_when_the_last_is_old_and_records_followed() -> None:
    async def body(generator: SnapshotGenerator, universe: Universe, shelf: Shelf) -> None:
        for offset in range(5):
            await universe.sleep(1_000)
            generator.publish(update(offset))
        await universe.sleep(1)
        assert len(shelf.writers) == 1

    run(body, max_bytes=1 << 40, max_interval_ms=3_600_000)


def test_a_loaded_snapshot_resets_the_byte_count() -> None:
    async def body(generator: SnapshotGenerator, universe: Universe, shelf: Shelf) -> None:
        generator.publish(update(1, 900))
        generator.publish(update(2, 0, is_snapshot=True))
        generator.publish(update(3, 900))
        await universe.sleep(1)
        assert not shelf.writers

    run(body)


def test_a_snapshot_refused_by_a_full_disk_is_retried_with_the_next_records() -> None:
    async def body(generator: SnapshotGenerator, universe: Universe, shelf: Shelf) -> None:
        shelf.is_full = True
        generator.publish(update(1, 5_000))
        await universe.sleep(1)
        shelf.is_full = False
        generator.publish(update(2, 1))
        await universe.sleep(1)

    assert [writer.snapshot.offset for writer in run(body).writers] == [3]


def test_a_snapshot_contains_the_whole_image_however_long() -> None:
    image = image_with(2_000)

    async def body(generator: SnapshotGenerator, universe: Universe, shelf: Shelf) -> None:
        generator.publish(update(1, 5_000, image=image))

    shelf = run(body)
    assert MetadataImage().replay_batch(shelf.writers[0].records)[0] == image


def test_an_empty_image_and_a_refusal_write_no_snapshot() -> None:
    async def body(generator: SnapshotGenerator, universe: Universe, shelf: Shelf) -> None:
        generator.publish(update(1, 5_000, image=MetadataImage()))
        shelf.refuses = True
        generator.publish(update(2, 5_000))
        await universe.sleep(1)
        assert generator.snapshots_written == 0

    assert run(body).writers == []


def test_of_several_requested_snapshots_only_the_newest_is_written() -> None:
    async def body(generator: SnapshotGenerator, universe: Universe, shelf: Shelf) -> None:
        for offset in range(1, 4):
            generator.publish(update(offset, 5_000))

    assert [writer.snapshot.offset for writer in run(body).writers] == [4]
