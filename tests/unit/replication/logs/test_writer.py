"""Appends that a thread writes: when they are seen, what waits for them, and what becomes of them when the world
changes meanwhile."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from kraft.common.errors import ApiError, NotLeader, StorageError
from kraft.common.ids import TopicPartition
from kraft.network.reply import Reply, Staged
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.builder import Record, build_batch
from kraft.replication.isr_policy import IsrRules
from kraft.replication.logs.writer import DECODED_AT_ONCE_MAX, LogWriter, QueuedAppend
from kraft.replication.partition import Partition
from kraft.storage.log_config import LogConfig
from kraft.storage.unified_log import UnifiedLog
from kraft.world.real.files import RealFileSystem
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from kraft.world.steps import at_once
from tests.unit.replication.logs.writing import produce, values
from tests.unit.server.brokers import NODE, Broker, batch, broker, decoded, simulate

LARGE = ("kraft.append.thread.min.bytes=1",)
VERSION = 12
NOW_MS = 1_700_000_000_000


def queue(
    made: Broker, value: bytes, name: str = "t", index: int = 0, *, acks: int = 1, leader_epoch: int | None = None
) -> QueuedAppend:
    return queued_in(
        made.replicas.writer, made.partition(name, index), batch(value), acks, leader_epoch, made.world.clock.wall_ms()
    )


def queued_in(
    writer: LogWriter,
    partition: Partition,
    records: bytes | bytearray,
    acks: int = 1,
    leader_epoch: int | None = None,
    now_ms: int = NOW_MS,
) -> QueuedAppend:
    append = writer.append(partition, memoryview(records), acks, now_ms, 0, leader_epoch=leader_epoch)
    assert isinstance(append, QueuedAppend)
    return append


def queued_as_follower(made: Broker, records: bytes, high_watermark: int) -> QueuedAppend:
    append = made.replicas.writer.append_as_follower(made.partition("t"), memoryview(records), high_watermark, 0, 0)
    assert isinstance(append, QueuedAppend)
    return append


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await trio.lowlevel.checkpoint()


async def until_written(made: Broker) -> None:
    """A thread has the append in hand."""
    await until(lambda: made.world.threads.running)


def replicated(offset: int, value: bytes) -> bytes:
    """A batch as the leader of epoch 1 numbered it."""
    return build_batch([Record(offset, NOW_MS, None, value, ())], base_offset=offset, leader_epoch=1)


def test_an_append_is_invisible_until_it_is_written() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            made.topic("t")
            log = made.partition("t").log
            append = queue(made, b"a")
            await until_written(made)
            assert (log.is_appending, log.log_end_offset, log.high_watermark, log.size) == (True, 0, 0, 0)
            info = await append
            assert info is not None
            assert (info.first_offset, log.log_end_offset, log.high_watermark) == (0, 1, 1)
            assert values(log) == [b"a"]

    simulate(play)


def test_a_small_append_waits_only_for_large_appends_of_its_own_log() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=("kraft.append.thread.min.bytes=1000",)) as made:
            made.topic("t")
            made.topic("other")
            large = queue(made, bytes(1000))
            await until_written(made)
            behind = made.dispatch(produce(("t", b"b")), VERSION)
            assert isinstance(behind, Staged)
            assert isinstance(made.dispatch(produce(("other", b"c")), VERSION), Reply)
            assert not large.done.is_set()
            answer = decoded(0, VERSION, await behind).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset, large.done.is_set()) == (0, 1, True)
            assert values(made.partition("t").log) == [bytes(1000), b"b"]

    simulate(play)


def test_one_thread_writes_queued_appends_one_per_log_in_order() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            made.topic("t", 3)
            queued = [queue(made, bytes([number]), index=number % 3) for number in range(9)]
            for append in queued:
                await append
            assert made.replicas.writer.rounds == 3
            for index in range(3):
                assert values(made.partition("t", index).log) == [bytes([number]) for number in range(index, 9, 3)]

    simulate(play)


def test_a_leader_epoch_change_during_a_write_undoes_the_append() -> None:
    """Its bytes would stand where the new epoch begins."""

    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            topic = made.topic("t", replicas=(NODE, 2))
            log = made.partition("t").log
            await queue(made, b"a")
            append, behind = queue(made, b"lost"), queue(made, b"b")
            await until_written(made)
            made.change(topic, leader=2)
            made.change(topic, leader=NODE)
            with pytest.raises(NotLeader):
                await append
            await behind  # It had not begun: it belongs to the new epoch.
            assert values(log) == [b"a", b"b"]
            assert log.end_offset_for_epoch(0) == (1, 0)
            assert log.leader_epoch_cache.latest_epoch == made.partition("t").leader_epoch == 2

    simulate(play)


def test_a_log_swapped_in_during_a_write_does_not_get_the_append() -> None:
    """A replica that moves between directories gets another log."""

    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            made.topic("t")
            made.topic("other")
            partition, old = made.partition("t"), made.partition("t").log
            append = queue(made, b"lost")
            await until_written(made)
            partition.log = made.partition("other").log
            with pytest.raises(NotLeader):
                await append
            assert (old.is_appending, values(old), partition.log.log_end_offset) == (False, [], 0)

    simulate(play)


def test_an_append_bound_to_one_leader_epoch_is_refused_in_another() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            topic = made.topic("t", replicas=(NODE, 2))
            append = queue(made, b"a", leader_epoch=0)
            made.change(topic, leader=2)
            made.change(topic, leader=NODE)
            with pytest.raises(NotLeader):
                await append
            with pytest.raises(NotLeader):
                await queue(made, b"b", leader_epoch=0)
            assert made.partition("t").log.log_end_offset == 0

    simulate(play)


def test_a_produce_response_uses_the_leader_epoch_of_its_append() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            topic = made.topic("t", replicas=(NODE, 2))
            waiting = made.dispatch(produce(("t", b"a")), VERSION)
            assert isinstance(waiting, Staged)
            await waiting.first_stage.wait()
            made.change(topic, leader=2)
            made.change(topic, leader=NODE, isr=[NODE])
            assert made.partition("t").log.high_watermark == 1
            answer = decoded(0, VERSION, await waiting).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    simulate(play)


def test_deleting_a_topic_during_a_write_drops_its_append() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            topic = made.topic("t")
            await queue(made, b"a")
            append, behind = queue(made, b"b"), queue(made, b"c")
            await until_written(made)
            made.delete_topic(topic)
            made.topic("t")
            for each in (append, behind):
                with pytest.raises(NotLeader):
                    await each
            await queue(made, b"new")
            assert values(made.partition("t").log) == [b"new"]
            assert made.logs.directories[0].is_online

    simulate(play)


class WatchedWorld:
    """A world whose one thread is a function call, after which somebody opens the file anew."""

    def __init__(self, log: UnifiedLog) -> None:
        self.threads = self
        self._log = log

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        result = function(*args)
        self._log.local.cache.clear()
        assert self._log.active_segment.open_log().file.size() > self._log.active_segment.size
        self.meanwhile()
        await trio.lowlevel.checkpoint()
        return result

    def meanwhile(self) -> None:
        """What else happens in that moment."""


def test_a_file_handle_opened_during_a_write_does_not_misplace_the_next_append(tmp_path: Path) -> None:
    """It took the size of a file in the making. On real files: there a handle remembers where its file ends."""
    files = RealFileSystem()
    log = at_once(UnifiedLog.open(files, str(tmp_path / "t-0"), TopicPartition("t", 0), LogConfig(), now_ms=0))
    partition = Partition(NODE, "t", 0, bytes(16), log, IsrRules(lambda: 0.0, lambda: 30.0, lambda broker, epoch: True))
    partition.is_leader, partition.leader_id, partition.leader_epoch = True, NODE, 0
    world = WatchedWorld(log)

    async def main() -> None:
        writer = LogWriter(world, [str(tmp_path)], lambda log: None, lambda log, problem: None, 1)  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            for value, lost in ((b"a", False), (b"lost", True), (b"b", False)):
                world.meanwhile = (lambda: setattr(partition, "leader_epoch", 1)) if lost else lambda: None  # type: ignore[method-assign]
                append = queued_in(writer, partition, batch(value))
                with pytest.raises(NotLeader) if lost else contextlib.nullcontext():
                    await append
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert values(log) == [b"a", b"b"]
    log.close()


def test_appends_beyond_a_full_round_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft.replication.logs.writer.ROUND_BYTES_MAX", 1)

    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            made.topic("t", 2)
            queued = [queue(made, bytes([number]), index=number // 2 % 2) for number in range(8)]
            for append in queued:
                await append
            assert made.replicas.writer.rounds == 8
            assert [values(made.partition("t", index).log) for index in range(2)] == [
                [b"\0", b"\1", b"\4", b"\5"],
                [b"\2", b"\3", b"\6", b"\7"],
            ]

    simulate(play)


def test_a_full_disk_undoes_the_append_and_the_next_one_succeeds() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            made.topic("t")
            await queue(made, b"a")
            universe.disk("broker").faults = [Fault("append", errno.ENOSPC, "/000")]
            answer = (await made.ask(produce(("t", b"lost")), VERSION)).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert made.logs.directories[0].is_online
            answer = (await made.ask(produce(("t", b"b")), VERSION)).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (0, 1)
            assert values(made.partition("t").log) == [b"a", b"b"]

    simulate(play)


def test_an_append_that_cannot_be_undone_takes_its_directory_offline() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a", "/b"], sets=LARGE) as made:
            made.topic("t", 2)
            failing = made.partition("t").log.directory
            universe.disk("broker").faults = [
                Fault("append", errno.EIO, f"{failing}/000"),
                Fault("truncate", errno.EIO, failing),
            ]
            answer = (await made.ask(produce(("t", b"a")), VERSION)).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert [directory.is_online for directory in made.logs.directories] == [False, True]
            await queue(made, b"b", index=1)

    simulate(play)


def test_a_failed_append_does_not_fail_the_directory_of_a_recreated_topic() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a", "/b"], sets=LARGE) as made:
            topic = made.topic("t")
            await queue(made, b"a")
            answers: list[Any] = []

            async def ask() -> None:
                answers.append(await made.ask(produce(("t", b"b")), VERSION))

            universe.disk("broker").faults = [Fault("append", errno.EIO), Fault("truncate", errno.EIO)]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await until_written(made)
                made.delete_topic(topic)
                made.topic("u")
                made.topic("t")
            assert made.partition("t").log.directory == "/b/t-0"
            assert answers[0].responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert [directory.is_online for directory in made.logs.directories] == [True, True]

    simulate(play)


def test_an_invalid_batch_is_reported_only_to_its_producer() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            made.topic("t")
            made.topic("u")
            corrupt = bytearray(batch(b"a"))
            corrupt[-1] ^= 1
            bad = queued_in(made.replicas.writer, made.partition("t"), corrupt)
            good = queue(made, b"b")
            with pytest.raises(ApiError) as caught:
                await bad
            assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
            await good
            answers = await made.ask(produce(("t", b"c"), ("missing", b"d"), ("u", b"e")), VERSION)
            codes = [topic.partition_responses[0].error_code for topic in answers.responses]
            assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]

    simulate(play)


def test_a_follower_appends_large_batches_of_its_leaders_epoch_only() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            topic = made.topic("t", replicas=(NODE, 2))
            made.change(topic, leader=2)
            partition = made.partition("t")
            await queued_as_follower(made, replicated(0, b"a"), 1)
            assert (partition.log.log_end_offset, partition.log.high_watermark) == (1, 1)
            append, behind = (queued_as_follower(made, replicated(n, value), 2) for n, value in ((1, b"b"), (2, b"c")))
            await until_written(made)
            made.change(topic, leader=NODE)
            for each in (append, behind):
                with pytest.raises(NotLeader):
                    await each
            await queue(made, b"d")
            assert values(partition.log) == [b"a", b"d"]

    simulate(play)


def test_during_a_write_segments_do_not_roll_and_truncation_waits() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            made.topic("t", retention_ms="1", segment_ms="1")
            log = made.partition("t").log
            await queue(made, b"a")
            append = queue(made, b"b")
            await until_written(made)
            now_ms = made.world.clock.wall_ms() + 1_000_000_000
            assert not log.roll_if_old(now_ms)
            assert not log.delete_old_segments(now_ms).count
            await made.replicas.writer.until_free(log)
            assert append.done.is_set()
            made.logs.truncate_to(log, 1, now_ms=now_ms)
            assert values(log) == [b"a"]

    simulate(play)


def test_a_write_in_progress_takes_effect_before_the_writer_stops() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            made.topic("t")
            append = queue(made, b"a")
            await until_written(made)
        log = made.logs.logs()[0] if made.logs.logs() else made.partition("t").log
        assert (append.done.is_set(), log.is_appending, log.log_end_offset) == (True, False, 1)
        log.close()

    simulate(play)


def test_an_unexpected_exception_in_one_append_does_not_end_the_writer() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            made.topic("t")
            partition = made.partition("t")

            def broken() -> None:
                raise AssertionError("scripted")

            bad = made.replicas.writer._enqueue(QueuedAppend(partition, 1, broken, lambda: None, None))
            with pytest.raises(AssertionError, match="scripted"):
                await bad
            await queue(made, b"a")

    simulate(play)


def test_a_flush_concurrent_with_a_write_covers_only_earlier_records() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            made.topic("t", flush_messages="1")
            log = made.partition("t").log
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(partial(made.ask, produce(("t", bytes([number]))), VERSION))
                    if number % 3 == 0:
                        await until_written(made)
                        made.replicas.flusher.flush_later(log)
            assert (log.recovery_point, log.high_watermark, log.log_end_offset) == (20, 20, 20)

    simulate(play)


def test_an_append_that_failed_permanently_is_a_storage_error() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            made.topic("t")
            universe.disk("broker").faults = [Fault("append", errno.EIO, "/000")]
            log = made.partition("t").log
            with pytest.raises(StorageError):
                await queue(made, b"a")
            assert not log.is_appending
            assert not made.logs.directories[0].is_online

    simulate(play)


def test_validating_one_batch_blocks_no_other_append() -> None:
    """Whatever came after it to the same log directory did, if the writer had nothing else to do by then."""

    async def play(universe: Universe) -> None:
        async with broker(universe, sets=LARGE) as made:
            made.topic("t", compression_type="lz4")
            made.topic("u")
            writer, now_ms = made.replicas.writer, made.world.clock.wall_ms()
            for _ in range(DECODED_AT_ONCE_MAX):
                await writer._decoding.acquire()
            large = memoryview(batch(*[b"v"] * 2000, timestamp_ms=now_ms))
            slow = writer.append(made.partition("t"), large, 1, now_ms, 0)
            assert isinstance(slow, QueuedAppend)
            await universe.sleep(1)
            assert not slow.is_ready
            with made.world.clock.move_on_after(1) as scope:
                await queue(made, b"a", "u")
            assert not scope.cancelled_caught
            writer._decoding.release()
            await slow

    simulate(play)


def test_appends_that_wait_for_another_directorys_writer_do_not_spin_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A replica does not change its directory while appends of it wait (`is_busy`); were it to, they would wait for
    the other directory's writer at rest."""

    async def play(universe: Universe) -> None:
        async with broker(universe, ("/one", "/two"), sets=LARGE) as made:
            made.topic("t", 2)
            first, second = made.partition("t", 0), made.partition("t", 1)
            assert first.log.directory.rpartition("/")[0] != second.log.directory.rpartition("/")[0]
            looks: list[int] = []
            begin = LogWriter._begin

            def counted(self: LogWriter, waiting: Any) -> Any:
                looks.append(1)
                return begin(self, waiting)

            monkeypatch.setattr(LogWriter, "_begin", counted)
            other = queue(made, b"a", index=1)
            await until_written(made)
            waiting = queue(made, b"b", index=0)
            assert made.replicas.writer.is_busy(first.log)
            first.log = second.log
            await waiting.done.wait()
            assert other.done.is_set()
            assert len(looks) <= 4

    simulate(play)
