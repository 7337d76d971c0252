"""The loader: what publishers see of commits, snapshots and metadata transactions, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio

from kraft.common.ids import OffsetAndEpoch
from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.loader import RECORDS_PER_STEP, MetadataLoader
from kraft.metadata.publisher import MetadataUpdate
from kraft.metadata.records.abort_transaction_record import AbortTransactionRecord
from kraft.metadata.records.begin_transaction_record import BeginTransactionRecord
from kraft.metadata.records.end_transaction_record import EndTransactionRecord
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.metadata.records.no_op_record import NoOpRecord
from kraft.metadata.records.remove_topic_record import RemoveTopicRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.raft.ports import CommittedBatch, LeaderAndEpoch

BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=name.encode().ljust(16, b"."))


def batch(base: int, *records: Any, epoch: int = 1) -> CommittedBatch:
    return CommittedBatch(base, base + max(len(records), 1) - 1, epoch, base * 10, records, 50)


class Publisher:
    """Remembers every update, and can take its time."""

    def __init__(self, steps: int = 0) -> None:
        self.updates: list[MetadataUpdate] = []
        self.steps = steps

    def publish(self, update: MetadataUpdate) -> Iterator[None] | None:
        self.updates.append(update)
        return iter([None] * self.steps) if self.steps else None

    @property
    def names(self) -> list[str]:
        return list(self.updates[-1].image.topics.id_by_name)


def loader_with(publisher: Publisher, **options: Any) -> MetadataLoader:
    loader = MetadataLoader(**options)
    loader.add_publisher(publisher)
    return loader


def apply(loader: MetadataLoader, *batches: CommittedBatch) -> None:
    """Hand over a commit, and wait if the loader wants it."""
    waiting = loader.handle_commit(list(batches))
    if waiting is not None:

        async def wait() -> None:
            await waiting

        trio.run(wait)


def test_every_commit_is_published_with_its_changes() -> None:
    publisher = Publisher()
    loader = loader_with(publisher)
    apply(loader, batch(0, topic("a"), topic("b")))
    apply(loader, batch(2, topic("c")), batch(3, RemoveTopicRecord(topic_id=topic("a").topic_id)))
    first, second = publisher.updates
    assert (first.offset, first.epoch, first.timestamp_ms, first.size, first.is_snapshot) == (1, 1, 0, 50, False)
    assert sorted(first.changes.topics.created.values()) == ["a", "b"]
    assert (second.offset, second.size) == (3, 100)
    assert list(second.changes.topics.created.values()) == ["c"]
    assert [deleted.name for deleted in second.changes.topics.deleted.values()] == ["a"]
    assert loader.image is second.image
    assert loader.published_offset == 3


def test_control_batches_advance_the_offset() -> None:
    publisher = Publisher()
    loader = loader_with(publisher)
    apply(loader, batch(0))
    assert (publisher.updates[-1].offset, bool(publisher.updates[-1].changes)) == (0, False)


def test_records_of_an_open_transaction_are_not_published() -> None:
    publisher = Publisher()
    loader = loader_with(publisher)
    apply(loader, batch(0, topic("a"), BEGIN, topic("b")))
    assert loader.transaction_is_open
    assert publisher.updates == [], "the offset would promise more than the image shows"
    assert list(loader.image.topics.id_by_name) == ["a"]
    apply(loader, batch(3, topic("c")))
    assert publisher.updates == []
    apply(loader, batch(4, END, topic("d")))
    assert publisher.names == ["a", "b", "c", "d"]
    assert len(publisher.updates[-1].changes.topics.created) == 4
    assert not loader.transaction_is_open


def test_an_aborted_transaction_leaves_no_change() -> None:
    publisher = Publisher()
    loader = loader_with(publisher)
    apply(loader, batch(0, BEGIN, topic("b"), ABORT, topic("c"), BEGIN, END))
    assert publisher.names == ["c"]
    assert list(publisher.updates[-1].changes.topics.created.values()) == ["c"]


@pytest.mark.parametrize("records", [(END,), (ABORT,), (BEGIN, BEGIN)])
def test_nested_and_unopened_transactions_are_an_error(records: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="metadata transaction"):
        MetadataLoader().handle_commit([batch(0, *records)])


def test_nothing_is_published_before_the_high_watermark_is_reached() -> None:
    publisher = Publisher()
    known: list[int | None] = [None]
    loader = loader_with(publisher, high_watermark=lambda: known[0])
    apply(loader, batch(0, topic("a")))
    known[0] = 3
    apply(loader, batch(1, topic("b")))
    assert publisher.updates == []
    apply(loader, batch(2, topic("c")))
    assert publisher.names == ["a", "b", "c"]
    assert len(publisher.updates[0].changes.topics.created) == 3
    known[0] = 99
    apply(loader, batch(3, topic("d")))
    assert publisher.names == ["a", "b", "c", "d"], "once caught up, it goes on"


def test_a_late_publisher_first_receives_the_whole_image() -> None:
    loader = MetadataLoader()
    apply(loader, batch(0, topic("a")))
    publisher = Publisher()
    loader.add_publisher(publisher)
    assert publisher.updates[0].is_snapshot
    assert list(publisher.updates[0].changes.topics.created.values()) == ["a"]
    apply(loader, batch(1, topic("b")))
    assert list(publisher.updates[1].changes.topics.created.values()) == ["b"]


def test_long_commits_are_applied_in_steps() -> None:
    loader = loader_with(Publisher())
    waiting = loader.handle_commit([batch(0, *(topic(f"t{index:05}") for index in range(RECORDS_PER_STEP * 3)))])
    assert waiting is not None
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async def run() -> None:
        async with trio.open_nursery() as counting_nursery:
            counting_nursery.start_soon(count)
            await trio.lowlevel.checkpoint()
            await waiting
            counting_nursery.cancel_scope.cancel()

    trio.run(run)
    assert turns >= 3
    assert len(loader.image.topics.by_id) == RECORDS_PER_STEP * 3


def test_slow_publishers_finish_before_the_next_update() -> None:
    slow, quick = Publisher(steps=5), Publisher()
    loader = loader_with(slow)
    loader.add_publisher(quick)
    apply(loader, batch(0, topic("a")))
    assert len(quick.updates) == 1


class Snapshot:
    def __init__(self, end_offset: int, *records: Any) -> None:
        self.snapshot = OffsetAndEpoch(end_offset, 4)
        self.last_contained_timestamp_ms = 77
        self.closed = False
        self._records = records

    def batches(self) -> Iterator[CommittedBatch]:
        yield batch(3, *self._records)

    def close(self) -> None:
        self.closed = True


def load(loader: MetadataLoader, snapshot: Snapshot) -> None:
    async def wait() -> None:
        await loader.handle_load_snapshot(snapshot)

    trio.run(wait)


def test_a_snapshot_replaces_everything_including_an_open_transaction() -> None:
    publisher = Publisher()
    loader = loader_with(publisher)
    apply(loader, batch(0, topic("a"), topic("b")))
    apply(loader, batch(2, BEGIN, topic("ghost")))
    snapshot = Snapshot(10, FeatureLevelRecord(name="metadata.version", feature_level=30), topic("b"), topic("c"))
    load(loader, snapshot)
    update = publisher.updates[-1]
    assert snapshot.closed
    assert (update.offset, update.epoch, update.timestamp_ms, update.is_snapshot) == (9, 4, 77, True)
    assert publisher.names == ["b", "c"]
    assert [gone.name for gone in update.changes.topics.deleted.values()] == ["a"]
    assert list(update.changes.topics.created.values()) == ["c"]
    assert update.changes.features == {"metadata.version": None}
    apply(loader, batch(10, topic("d")))
    assert publisher.names == ["b", "c", "d"]


class Controller:
    """Hands over images as an active controller would."""

    def __init__(self) -> None:
        self.offers: dict[int, tuple[MetadataImage, MetadataChanges]] = {}
        self.committed: list[tuple[int, bool]] = []
        self.leaders: list[LeaderAndEpoch] = []

    def prepared(
        self, base: MetadataImage, last_offset: int, epoch: int
    ) -> tuple[MetadataImage, MetadataChanges] | None:
        return self.offers.get(last_offset)

    def handle_committed(self, update: MetadataUpdate, transaction_is_open: bool) -> None:
        self.committed.append((update.offset, transaction_is_open))

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.leaders.append(leader)


def test_the_controller_receives_every_batch_and_can_supply_its_image() -> None:
    publisher, controller = Publisher(), Controller()
    loader = loader_with(publisher)
    loader.controller = controller
    made = MetadataImage().replay_batch([topic("a")])
    controller.offers[0] = made
    apply(loader, batch(0, topic("a")), batch(1, BEGIN, NoOpRecord()), batch(3, END))
    assert controller.committed == [(0, False), (2, True), (3, False)]
    assert loader.image.topics.by_id is made[0].topics.by_id
    assert publisher.names == ["a"]
    loader.handle_leader_change(LeaderAndEpoch(3, 8))
    assert controller.leaders == [LeaderAndEpoch(3, 8)]
    assert loader.leader == LeaderAndEpoch(3, 8)
