"""The pending log: who is released by which commit, and which images may be handed over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from kraft.common.errors import ApiError
from kraft.controller.controller_result import ControllerResult
from kraft.controller.writes.pending_log import PendingLog
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.loader import RECORDS_PER_STEP
from kraft.metadata.records.begin_transaction_record import BeginTransactionRecord
from kraft.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.end_transaction_record import EndTransactionRecord
from kraft.metadata.records.no_op_record import NoOpRecord
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.metadata.records.partition_record import PartitionRecord
from kraft.metadata.records.remove_topic_record import RemoveTopicRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.protocol.error_codes import ErrorCode


class Log:
    def __init__(self) -> None:
        self.log_end_offset = 5
        self.sizes: list[int] = []
        self.is_full = False
        self.asked_to_grow: list[bool] = []

    def require_room(self, *, grows: bool) -> None:
        self.asked_to_grow.append(grows)
        if self.is_full:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    def encode(self, records: Sequence[Any], level: int | None) -> list[bytes]:
        return [repr(record).encode() for record in records]

    def append(self, epoch: int, records: Sequence[Any], *, encoded: Sequence[bytes] | None = None) -> int:
        assert encoded == self.encode(records, None)
        self.sizes.append(len(records))
        self.log_end_offset += len(records)
        return self.log_end_offset - 1


def topics(*names: str) -> ControllerResult[None]:
    return ControllerResult([TopicRecord(name=name, topic_id=name.encode().ljust(16)) for name in names], None)


def test_a_commit_completes_exactly_the_waits_below_its_offset() -> None:
    async def body() -> None:
        pending = PendingLog(Log())
        pending.claim(3, MetadataImage())
        released: list[int] = []

        async def wait(offset: int) -> None:
            await pending.committed(offset)
            released.append(offset)

        async with trio.open_nursery() as waiters_nursery:
            for name in ("a", "b", "c"):
                offset, _ = await pending.append(topics(name))
                waiters_nursery.start_soon(wait, offset)
                await trio.testing.wait_all_tasks_blocked()
            assert released == []
            pending.handle_committed(6, MetadataImage(), False)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(released) == [5, 6]
            pending.handle_committed(7, MetadataImage(), False)
        assert sorted(released) == [5, 6, 7]
        await pending.committed(7)  # Committed already: no waiting.

    trio.run(body)


def test_on_a_full_disk_a_request_with_records_is_refused_and_changes_nothing() -> None:
    async def body() -> None:
        log = Log()
        pending = PendingLog(log)
        pending.claim(3, MetadataImage())
        log.is_full = True
        before = pending.image
        with pytest.raises(ApiError) as refused:
            await pending.append(topics("a"))
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert pending.image is before
        assert log.sizes == []
        await pending.append(ControllerResult([], None))
        log.is_full = False
        await pending.append(topics("a"))
        assert log.sizes == [1]

    trio.run(body)


TOPIC = TopicRecord(name="a", topic_id=b"a".ljust(16))


@pytest.mark.parametrize(
    ("records", "grows"),
    [
        ([ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1")], False),
        ([RemoveTopicRecord(topic_id=TOPIC.topic_id)], False),
        ([PartitionChangeRecord(partition_id=0, topic_id=TOPIC.topic_id, isr=[1])], False),
        ([BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=1)], False),
        ([NoOpRecord()], True),
        ([PartitionRecord(partition_id=1, topic_id=TOPIC.topic_id, replicas=[1], isr=[1], leader=1)], True),
        ([ConfigRecord(resource_type=2, resource_name="b", name="retention.ms", value="1"), TOPIC], True),
    ],
    ids=["configuration", "deletion", "in-sync set", "fencing", "nothing", "partition", "topic"],
)
def test_records_that_grow_the_metadata_are_distinguished_from_records_that_shrink_it(
    records: list[Any], grows: bool
) -> None:
    async def body() -> None:
        log = Log()
        pending = PendingLog(log)
        pending.claim(3, MetadataImage())
        log.is_full = True
        with pytest.raises(ApiError):
            await pending.append(ControllerResult(records, None))
        assert log.asked_to_grow == [grows]

    trio.run(body)


def test_an_image_is_published_only_on_top_of_its_base_image() -> None:
    async def body() -> None:
        pending = PendingLog(Log())
        base = MetadataImage()
        pending.claim(3, base)
        await pending.append(topics("a"))
        first = pending.image
        await pending.append(topics("b"))
        equal_but_other = MetadataImage(configs=MetadataImage().configs)
        assert pending.prepared(equal_but_other, 5, 3) is None
        assert pending.prepared(base, 6, 3) is None, "not the next batch"
        assert pending.prepared(base, 5, 2) is None, "another leader's batch"
        handed = pending.prepared(base, 5, 3)
        assert handed is not None
        assert handed[0] is first
        assert list(handed[1].topics.created.values()) == ["a"]

    trio.run(body)


def test_a_batch_with_a_metadata_transaction_is_replayed_by_the_loader() -> None:
    async def body() -> None:
        pending = PendingLog(Log())
        base = MetadataImage()
        pending.claim(3, base)
        records = [BeginTransactionRecord(), *topics("a").records, EndTransactionRecord()]
        await pending.append(ControllerResult(records, None))
        assert pending.prepared(base, 7, 3) is None

    trio.run(body)


def test_long_results_are_split_into_batches_and_long_atomic_ones_are_refused() -> None:
    async def body() -> None:
        log = Log()
        pending = PendingLog(log)
        pending.claim(3, MetadataImage())
        offset, _ = await pending.append(ControllerResult([NoOpRecord()] * 25_000, None))
        assert log.sizes == [10_000, 10_000, 5_000]
        assert offset == 5 + 25_000 - 1
        with pytest.raises(AssertionError):
            await pending.append(ControllerResult([NoOpRecord()] * 10_001, None, atomic=True))

    trio.run(body)


def test_with_everything_committed_the_committed_image_is_the_base() -> None:
    async def body() -> None:
        pending = PendingLog(Log())
        pending.claim(3, MetadataImage())
        await pending.append(topics("a"))
        await pending.append(topics("b"))
        shown, _ = MetadataImage().replay_batch(topics("a").records)
        ahead = pending.image
        pending.handle_committed(5, shown, False)
        assert pending.image is ahead
        all_of_it, _ = shown.replay_batch(topics("b").records)
        pending.handle_committed(6, all_of_it, False)
        assert pending.image is all_of_it

    trio.run(body)


def test_losing_the_epoch_during_a_long_replay_appends_nothing() -> None:
    async def body() -> None:
        log = Log()
        pending = PendingLog(log)
        pending.claim(3, MetadataImage())

        async def lose() -> None:
            pending.renounce()

        async with trio.open_nursery() as losing_nursery:
            losing_nursery.start_soon(lose)
            with pytest.raises(ApiError):
                await pending.append(topics(*(f"t{index}" for index in range(2_000))))
        assert log.sizes == []

    trio.run(body)


def test_a_request_without_records_waits_for_all_earlier_writes() -> None:
    async def body() -> None:
        pending = PendingLog(Log())
        pending.claim(3, MetadataImage())
        for name in ("a", "b"):
            await pending.append(topics(name))
        assert (await pending.append(ControllerResult([], None)))[0] == 6
        pending.handle_committed(6, pending.image, False)
        assert (await pending.append(ControllerResult([], None)))[0] == -1

    trio.run(body)


def many_topics() -> ControllerResult[None]:
    """So many that replaying them pauses twice: every other task has had a turn by then."""
    return topics(*(f"t{index}" for index in range(2 * RECORDS_PER_STEP + 1)))


def test_an_operation_resumed_in_a_later_epoch_of_this_controller_writes_nothing() -> None:
    async def body() -> None:
        log = Log()
        pending = PendingLog(log)
        pending.claim(3, MetadataImage())

        async def be_deposed_and_return() -> None:
            pending.renounce()
            pending.claim(5, pending.image)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(be_deposed_and_return)
            with pytest.raises(ApiError) as refused:
                await pending.append(many_topics())
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        assert (log.sizes, pending.epoch) == ([], 5)

    trio.run(body)


def test_an_image_is_published_even_if_the_loader_caught_up_during_a_pause() -> None:
    async def body() -> None:
        pending = PendingLog(Log())
        pending.claim(3, MetadataImage())
        await pending.append(topics("a"))
        committed, _ = MetadataImage().replay_batch(topics("a").records)

        async def commit() -> None:
            pending.handle_committed(5, committed, False)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(commit)
            offset, _ = await pending.append(many_topics())
        assert pending.prepared(committed, offset, 3) is not None

    trio.run(body)


def test_during_an_open_metadata_transaction_the_pending_image_stays_ahead() -> None:
    async def body() -> None:
        pending = PendingLog(Log())
        base = MetadataImage()
        pending.claim(3, base)
        await pending.append(ControllerResult([BeginTransactionRecord(), *topics("a").records], None))
        ahead = pending.image
        pending.handle_committed(6, base, transaction_is_open=True)
        assert pending.image is ahead

    trio.run(body)


def test_no_request_waits_for_records_of_an_earlier_epoch_of_this_controller() -> None:
    async def body() -> None:
        pending = PendingLog(Log())
        pending.claim(3, MetadataImage())
        await pending.append(topics("a"))
        pending.renounce()
        pending.claim(5, MetadataImage())
        assert (await pending.append(ControllerResult([], None)))[0] == -1

    trio.run(body)
