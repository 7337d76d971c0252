"""The log of one partition: appends, reads, bounds, segments, truncation, retention, flush."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest
from crc32c import crc32c

from kraft.common.errors import ApiError, StorageError
from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.builder import Record, build_batch
from kraft.protocol.records.compression import GZIP, ZSTD
from kraft.protocol.records.record_batch import CRC_START, LOG_APPEND_TIME, InvalidRecord, RecordBatch
from kraft.storage.checkpoints import read_file
from kraft.storage.file_cache import FileCache
from kraft.storage.indexes.offset_index import OffsetIndex
from kraft.storage.log_config import LogConfig
from kraft.storage.log_validator import AppendOrigin
from kraft.world.ports import FileSystem
from kraft.world.simulated.disk import Fault
from tests.unit.storage.support import (
    DIRECTORY,
    NOW_MS,
    TOPIC_ID,
    Machine,
    batch_of,
    batches_in,
    content,
    found_by_time,
)

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=64)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def refused(code: int, action: object, *arguments: object, **options: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        action(*arguments, **options)  # type: ignore[operator]
    assert caught.value.code == code
    return caught.value


def test_creating_a_log_does_not_touch_the_disk(machine: Machine) -> None:
    before = machine.node.trace.calls
    machine.log()
    assert machine.node.trace.calls - before == 1  # one look whether the directory is there
    assert not machine.files.exists(DIRECTORY)


def test_the_first_append_creates_the_directory_and_partition_metadata(machine: Machine) -> None:
    log = machine.log()
    log.append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    assert machine.files.list_directory(DIRECTORY) == ["00000000000000000000.log", "partition.metadata"]
    log.close()
    assert machine.log(clean=True).topic_id == TOPIC_ID


def test_appends_get_consecutive_offsets_and_the_leaders_epoch(machine: Machine) -> None:
    log = machine.log()
    first = log.append_as_leader(batch_of(b"a", b"b"), 3, now_ms=NOW_MS)
    second = log.append_as_leader(memoryview(batch_of(b"c")), 4, now_ms=NOW_MS)
    assert (first.first_offset, first.last_offset, second.first_offset, log.log_end_offset) == (0, 1, 2, 3)
    assert [(batch.base_offset, batch.partition_leader_epoch) for batch in batches_in(log)] == [(0, 3), (2, 4)]
    assert log.leader_epoch_cache.entries == ((3, 0), (4, 2))
    assert content(log) == [(0, None, b"a"), (1, None, b"b"), (2, None, b"c")]


def test_a_read_starts_at_the_batch_containing_the_offset_and_ends_below_the_bound(machine: Machine) -> None:
    log = machine.log(SMALL)
    for value in (b"a", b"b", b"c"):
        log.append_as_leader(batch_of(value, value), 0, now_ms=NOW_MS)
    batch = RecordBatch(log.read(3, 1000).read())
    assert batch.base_offset == 2
    assert log.read(0, 1000, max_offset=4).size == 2 * batch.size
    assert log.read(4, 1000, max_offset=4).size == 0
    assert log.read(6, 1000).size == 0


def test_at_least_one_batch_is_returned_only_on_request(machine: Machine) -> None:
    log = machine.log()
    log.append_as_leader(batch_of(b"x" * 300), 0, now_ms=NOW_MS)
    assert log.read(0, 100).size == 0
    assert log.read(0, 100, min_one_message=True).size == log.size


def test_a_read_crosses_segments(machine: Machine) -> None:
    log = machine.log(SMALL)
    for index in range(20):
        log.append_as_leader(batch_of(b"%d" % index * 20), 0, now_ms=NOW_MS)
    assert len(log.segments) > 3
    data = log.read(0, 1 << 20)
    assert data.size == log.size
    assert len(data.slices) == len(log.segments)
    assert [offset for offset, _, _ in content(log)] == list(range(20))


def test_every_offset_can_be_found_through_the_sparse_index(machine: Machine) -> None:
    log = machine.log(LogConfig(segment_bytes=3000, index_interval_bytes=200))
    for index in range(100):
        log.append_as_leader(batch_of(*[b"v"] * (index % 5 + 1)), 0, now_ms=NOW_MS)
    assert any(segment.offset_index.count > 3 for segment in log.segments)
    for offset in range(log.log_end_offset):
        batch = RecordBatch(log.read(offset, 1, min_one_message=True).read())
        assert batch.base_offset <= offset <= batch.last_offset


@pytest.mark.parametrize("offset", [-1, 11])
def test_reads_outside_the_log_are_refused(machine: Machine, offset: int) -> None:
    log = machine.log()
    log.append_as_leader(batch_of(*[b"v"] * 10), 0, now_ms=NOW_MS)
    refused(ErrorCode.OFFSET_OUT_OF_RANGE, log.read, offset, 100)


def test_a_lookup_by_timestamp_finds_the_first_record_at_or_after_it(machine: Machine) -> None:
    log = machine.log(LogConfig(segment_bytes=800, index_interval_bytes=100))
    for index in range(30):
        log.append_as_leader(
            batch_of(b"a", b"b", b"c", timestamp=NOW_MS + index * 100, codec=GZIP if index % 2 else 0),
            7,
            now_ms=NOW_MS + 3000,
        )
    assert found_by_time(log, NOW_MS) == (NOW_MS, 0, 7)
    assert found_by_time(log, NOW_MS + 1001) == (NOW_MS + 1001, 31, 7)
    assert found_by_time(log, NOW_MS + 1003) == (NOW_MS + 1100, 33, 7)
    assert found_by_time(log, NOW_MS + 99_999) is None
    assert log.local.max_timestamp() == NOW_MS + 2902
    assert found_by_time(log, NOW_MS + 2902) == (NOW_MS + 2902, 89, 7)


def test_a_lookup_by_time_reads_nothing_behind_its_result(machine: Machine) -> None:
    log = machine.log(replace(SMALL, validate_records=False))
    garbage_behind = bytearray(batch_of(b"a", b"b" * 10))
    garbage_behind[-15:] = b"\xff" * 15  # The last record behind its length and attributes.
    garbage_behind[17:21] = crc32c(bytes(garbage_behind[CRC_START:])).to_bytes(4, "big")
    log.append_as_leader(bytes(garbage_behind), 7, now_ms=NOW_MS)
    assert found_by_time(log, NOW_MS) == (NOW_MS, 0, 7)
    with pytest.raises(InvalidRecord):
        found_by_time(log, NOW_MS + 1)


def test_log_append_time_topics_stamp_the_batch(machine: Machine) -> None:
    log = machine.log(LogConfig(message_timestamp_type="LogAppendTime"))
    info = log.append_as_leader(batch_of(b"a", timestamp=5), 0, now_ms=NOW_MS)
    assert (info.log_append_time_ms, info.max_timestamp) == (NOW_MS, NOW_MS)
    (batch,) = batches_in(log)
    batch.verify_crc()
    assert (batch.timestamp_type, batch.records()[0].timestamp) == (LOG_APPEND_TIME, NOW_MS)


def test_compression_type_recompresses_batches(machine: Machine) -> None:
    log = machine.log(LogConfig(compression_type="zstd"))
    log.append_as_leader(batch_of(b"a" * 100, codec=GZIP), 0, now_ms=NOW_MS)
    assert batches_in(log)[0].codec == ZSTD
    assert content(log) == [(0, None, b"a" * 100)]


def test_a_full_disk_undoes_the_append_and_later_appends_succeed(machine: Machine) -> None:
    log = machine.log()
    log.append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    machine.disk.capacity = machine.disk.used + 30
    refused(ErrorCode.KAFKA_STORAGE_ERROR, log.append_as_leader, batch_of(b"lost" * 50), 0, now_ms=NOW_MS)
    assert content(log) == [(0, None, b"a")]
    assert machine.files.status(f"{DIRECTORY}/00000000000000000000.log").size == log.size
    machine.disk.capacity = 1 << 30
    assert log.append_as_leader(batch_of(b"b"), 0, now_ms=NOW_MS).first_offset == 1
    assert content(log) == [(0, None, b"a"), (1, None, b"b")]


def test_a_full_disk_at_a_segment_roll_refuses_the_append_and_changes_nothing(machine: Machine) -> None:
    log = machine.log(SMALL)
    while log.active_segment.size < 400:
        log.append_as_leader(batch_of(b"v" * 30), 0, now_ms=NOW_MS)
    end = log.log_end_offset
    machine.disk.capacity = machine.disk.used
    refused(ErrorCode.KAFKA_STORAGE_ERROR, log.append_as_leader, batch_of(b"v" * 100), 0, now_ms=NOW_MS)
    machine.disk.capacity = 1 << 30
    assert log.append_as_leader(batch_of(b"v" * 100), 0, now_ms=NOW_MS).first_offset == end


def test_a_broken_disk_is_a_storage_error(machine: Machine) -> None:
    log = machine.log()
    machine.disk.faults.append(Fault("append", errno.EIO, ".log"))
    with pytest.raises(StorageError):
        log.append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    assert log.log_end_offset == 0


def test_a_failed_sync_is_a_storage_error(machine: Machine) -> None:
    log = machine.log()
    log.append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    machine.disk.faults.append(Fault("sync", errno.EIO))
    with pytest.raises(StorageError):
        log.flush()
    assert log.recovery_point == 0


def test_followers_keep_the_leaders_offsets_and_drop_an_incomplete_last_batch(machine: Machine) -> None:
    leader, follower = machine.log(), Machine().log()
    for value in (b"a", b"b", b"c"):
        leader.append_as_leader(batch_of(value, value), 2, now_ms=NOW_MS)
    fetched = leader.read(0, leader.size - 5).read()
    info = follower.append_as_follower(fetched, now_ms=NOW_MS)
    assert info is not None
    assert (info.first_offset, info.last_offset, follower.log_end_offset) == (0, 3, 4)
    assert follower.append_as_follower(b"", now_ms=NOW_MS) is None
    assert follower.leader_epoch_cache.entries == ((2, 0),)
    assert follower.append_as_follower(leader.read(4, 1 << 20).read(), now_ms=NOW_MS, leader_epoch=1) is None
    refused(ErrorCode.INVALID_RECORD, follower.append_as_follower, fetched, now_ms=NOW_MS)


def test_a_follower_refuses_a_batch_whose_last_offset_precedes_its_base_offset(machine: Machine) -> None:
    log = machine.log()
    log.append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    backwards = build_batch([Record(5, NOW_MS, None, b"b")], last_offset=3)
    refused(ErrorCode.CORRUPT_MESSAGE, log.append_as_follower, backwards, now_ms=NOW_MS)
    assert log.log_end_offset == 1


def test_a_follower_appends_a_gap_beyond_the_range_of_relative_offsets_in_two_steps(machine: Machine) -> None:
    compacted = LogConfig(cleanup_policy=("compact",))
    leader, follower = machine.log(compacted), Machine().log(compacted)
    for offset in (0, 1, 3_000_000_000, 3_000_000_001):
        leader.append_as_follower(build_batch([Record(offset, NOW_MS, b"k", b"v" * 3000)]), now_ms=NOW_MS)
    ends = []
    while follower.log_end_offset < leader.log_end_offset:
        assert (
            follower.append_as_follower(leader.read(follower.log_end_offset, 1 << 20).read(), now_ms=NOW_MS) is not None
        )
        ends.append(follower.log_end_offset)
    assert ends == [2, 3_000_000_002]
    assert content(follower) == content(leader)
    assert [segment.base_offset for segment in follower.segments] == [0, 3_000_000_000]


def test_the_high_watermark_stays_within_the_log(machine: Machine) -> None:
    log = machine.log()
    log.append_as_leader(batch_of(b"a", b"b"), 0, now_ms=NOW_MS)
    assert log.update_high_watermark(99) == 2
    assert log.update_high_watermark(-5) == 0


def test_the_end_offset_of_an_epoch_is_the_start_of_the_next_epoch(machine: Machine) -> None:
    log = machine.log()
    for epoch in (1, 1, 4, 6):
        log.append_as_leader(batch_of(b"a"), epoch, now_ms=NOW_MS)
    assert log.end_offset_for_epoch(1) == OffsetAndEpoch(2, 1)
    assert log.end_offset_for_epoch(5) == OffsetAndEpoch(3, 4)
    assert log.end_offset_for_epoch(6) == OffsetAndEpoch(4, 6)
    assert log.end_offset_for_epoch(7) == OffsetAndEpoch(-1, -1)
    assert log.end_offset_for_epoch(0) == OffsetAndEpoch(0, 0)


@pytest.mark.parametrize("target", [0, 1, 7, 10, 19, 20])
def test_truncation_drops_batches_reaching_the_offset_and_appends_continue_there(machine: Machine, target: int) -> None:
    log = machine.log(SMALL)
    for index in range(20):
        log.append_as_leader(batch_of(b"%d" % index * 20), index // 5, now_ms=NOW_MS + index)
    kept = content(log)[:target]
    assert log.truncate_to(target, NOW_MS) == (target < 20)
    assert (log.log_end_offset, content(log)) == (target, kept)
    assert log.leader_epoch_cache.latest_epoch == ((target - 1) // 5 if target else -1)
    assert log.append_as_leader(batch_of(b"new"), 9, now_ms=NOW_MS).first_offset == target
    log.close()
    assert content(machine.log(SMALL, clean=True)) == [*kept, (target, None, b"new")]


def test_restarting_a_log_at_an_offset_empties_it(machine: Machine) -> None:
    log = machine.log(SMALL)
    for _ in range(20):
        log.append_as_leader(batch_of(b"v" * 20), 0, now_ms=NOW_MS)
    log.truncate_fully_and_start_at(1000, NOW_MS)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.size) == (1000, 1000, 1000, 0)
    assert log.append_as_leader(batch_of(b"a"), 1, now_ms=NOW_MS).first_offset == 1000
    machine.kill()
    assert content(machine.log(SMALL)) == [(1000, None, b"a")]


def fill(machine: Machine, config: LogConfig, count: int = 20) -> object:
    log = machine.log(config)
    for index in range(count):
        log.append_as_leader(batch_of(b"v" * 40, timestamp=NOW_MS + index * 1000), 0, now_ms=NOW_MS + index * 1000)
    return log


def test_retention_by_size_deletes_the_oldest_segments_below_the_high_watermark(machine: Machine) -> None:
    log = fill(machine, LogConfig(segment_bytes=500, retention_bytes=1000))
    assert not log.delete_old_segments(NOW_MS).count
    log.update_high_watermark(log.log_end_offset)
    deleted = log.delete_old_segments(NOW_MS)
    assert deleted.count
    assert deleted.reason == "retention size breach"
    assert 1000 <= log.size < 1500
    assert log.log_start_offset == log.segments[0].base_offset > 0
    assert all(path.endswith(".deleted") for path in deleted.paths)
    assert {path.rpartition("/")[2] for path in deleted.paths} <= set(machine.files.list_directory(DIRECTORY))
    refused(ErrorCode.OFFSET_OUT_OF_RANGE, log.read, 0, 100)


def test_retention_by_time_may_empty_the_log_and_appends_continue(machine: Machine) -> None:
    log = fill(machine, LogConfig(segment_bytes=500, retention_ms=5000))
    log.update_high_watermark(log.log_end_offset)
    assert log.delete_old_segments(NOW_MS + 10_000).count == 0 or log.log_start_offset < 10
    log.delete_old_segments(NOW_MS + 100_000)
    assert (log.log_start_offset, log.size, len(log.segments)) == (20, 0, 1)
    assert (
        log.append_as_leader(batch_of(b"a", timestamp=NOW_MS + 100_000), 0, now_ms=NOW_MS + 100_000).first_offset == 20
    )


def test_a_future_timestamp_keeps_its_segment_from_retention(machine: Machine) -> None:
    log = machine.log(LogConfig(segment_bytes=500, retention_ms=1000, message_timestamp_after_max_ms=1 << 60))
    for index in range(20):
        log.append_as_leader(batch_of(b"v" * 40, timestamp=NOW_MS + (10**9 if index == 6 else 0)), 0, now_ms=NOW_MS)
    log.update_high_watermark(20)
    log.delete_old_segments(NOW_MS + 5000)
    assert log.segments[0].base_offset <= 6 < log.segments[1].base_offset


def test_deleting_records_moves_the_log_start_and_then_deletes_segments(machine: Machine) -> None:
    log = fill(machine, LogConfig(segment_bytes=500))
    refused(ErrorCode.OFFSET_OUT_OF_RANGE, log.delete_records_before, 1)
    log.update_high_watermark(20)
    assert log.delete_records_before(11) == 11
    assert content(log)[0][0] == 11
    assert log.delete_old_segments(NOW_MS).count
    assert log.segments[0].base_offset <= 11
    assert log.log_start_offset == 11


def test_only_the_log_start_offset_deletes_segments_of_a_compacted_topic(machine: Machine) -> None:
    log = machine.log(LogConfig(segment_bytes=500, retention_bytes=0, retention_ms=0, cleanup_policy=("compact",)))
    for _ in range(20):
        log.append_as_leader(batch_of(b"v" * 40, keys=(b"k",)), 0, now_ms=NOW_MS)
    log.update_high_watermark(20)
    assert not log.delete_old_segments(NOW_MS + 10**9).count


def test_segments_roll_by_the_age_of_their_records(machine: Machine) -> None:
    log = machine.log(LogConfig(segment_ms=1000))
    log.append_as_leader(batch_of(b"a", timestamp=NOW_MS), 0, now_ms=NOW_MS)
    assert not log.append_as_leader(batch_of(b"b", timestamp=NOW_MS + 999), 0, now_ms=NOW_MS + 999).rolled
    assert log.append_as_leader(batch_of(b"c", timestamp=NOW_MS + 1001), 0, now_ms=NOW_MS + 1001).rolled
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert log.roll_if_old(NOW_MS + 99_000)
    assert not log.roll_if_old(NOW_MS + 99_000)


@pytest.mark.parametrize(("policy", "bases"), [("compact", [0, 2, 3]), ("delete", [0])])
@pytest.mark.parametrize("jitter_ms", [0, 3_600_000])
def test_segments_of_a_compacted_topic_roll_within_max_compaction_lag(
    machine: Machine, policy: str, bases: list[int], jitter_ms: int
) -> None:
    log = machine.log(LogConfig(cleanup_policy=(policy,), max_compaction_lag_ms=60_000, segment_jitter_ms=jitter_ms))
    for after_ms in (0, 0, 60_001, 3 * 60_001):
        log.append_as_leader(batch_of(b"v", keys=(b"k",), timestamp=NOW_MS + after_ms), 0, now_ms=NOW_MS + after_ms)
    assert [segment.base_offset for segment in log.segments] == bases


def test_a_full_index_rolls_the_segment(machine: Machine) -> None:
    log = machine.log(LogConfig(index_interval_bytes=10, segment_index_bytes=40))
    for _ in range(30):
        log.append_as_leader(batch_of(b"v"), 0, now_ms=NOW_MS)
    assert all(segment.offset_index.size <= 40 for segment in log.segments)
    assert len(log.segments) > 3


def test_control_records_from_clients_are_refused(machine: Machine) -> None:
    log = machine.log()
    refused(ErrorCode.INVALID_RECORD, log.append_as_leader, batch_of(b"a", is_control=True), 0, now_ms=NOW_MS)
    log.append_as_leader(batch_of(b"a", is_control=True), 0, now_ms=NOW_MS, origin=AppendOrigin.RAFT_LEADER)


def test_flush_makes_the_log_survive_a_power_loss(machine: Machine) -> None:
    log = machine.log(SMALL)
    for index in range(20):
        log.append_as_leader(batch_of(b"%d" % index * 10), index // 7, now_ms=NOW_MS)
    epochs = log.leader_epoch_cache.entries
    log.flush()
    assert log.prepare_flush() is None
    machine.power_off()
    again = machine.log(SMALL, recovery_point=20)
    assert again.log_end_offset == 20
    assert again.leader_epoch_cache.entries == epochs
    assert again.topic_id == TOPIC_ID


def test_flush_is_due_by_messages_and_by_time(machine: Machine) -> None:
    log = machine.log(LogConfig(flush_messages=2, flush_ms=1000))
    assert not log.flush_is_due(NOW_MS + 5000)
    log.append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    assert not log.flush_is_due(NOW_MS + 999)
    assert log.flush_is_due(NOW_MS + 1000)
    log.append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    assert log.flush_is_due(NOW_MS)


def test_an_append_in_steps_takes_effect_when_finished(machine: Machine) -> None:
    log = machine.log()
    pending = log.decide_as_leader(batch_of(b"a"), 0, NOW_MS)
    log.begin_append(pending)
    pending.write()
    assert (log.log_end_offset, log.size) == (0, 0)
    with pytest.raises(AssertionError):
        log.decide_as_leader(batch_of(b"b"), 0, NOW_MS)
    log.finish_append(pending)
    assert content(log) == [(0, None, b"a")]


def test_open_files_stay_within_the_limit_and_a_slice_stays_readable_after_eviction(machine: Machine) -> None:
    log = machine.log(SMALL)
    cache = log.local.cache
    cache.open_files_max = 2
    for _ in range(40):
        log.append_as_leader(batch_of(b"v" * 20), 0, now_ms=NOW_MS)
    data = log.read(0, 1 << 20)
    assert len(data.slices) > 4
    assert len(cache) <= 2
    assert len(data.read()) == log.size


def test_a_flush_overtaken_by_a_truncation_does_not_advance_the_recovery_point(machine: Machine) -> None:
    log = machine.log()
    for value in (b"a", b"b", b"c"):
        log.append_as_leader(batch_of(value), 0, now_ms=NOW_MS)
    job = log.prepare_flush()
    assert job is not None
    job.run()
    log.truncate_to(1, NOW_MS)
    log.append_as_leader(batch_of(b"new"), 1, now_ms=NOW_MS)
    log.append_as_leader(batch_of(b"new"), 1, now_ms=NOW_MS)
    log.finish_flush(job)
    assert log.recovery_point <= 1


class Interrupted:
    """The files of a flush, in the middle of whose renaming something else happens."""

    def __init__(self, files: FileSystem, meanwhile: Callable[[], object]) -> None:
        self._files = files
        self._meanwhile = meanwhile

    def rename(self, source: str, target: str) -> None:
        self._meanwhile()
        self._files.rename(source, target)

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)


def test_a_truncation_during_a_flush_neither_fails_the_flush_nor_is_undone_by_it(machine: Machine) -> None:
    """Both replace the leader-epoch checkpoint, the flush in a thread."""
    log = machine.log()
    for epoch in (1, 2, 3):
        log.append_as_leader(batch_of(b"a"), epoch, now_ms=NOW_MS)
    job = log.prepare_flush()
    assert job is not None
    job.files = Interrupted(machine.files, lambda: log.truncate_to(1, NOW_MS))  # type: ignore[assignment]
    job.run()
    log.finish_flush(job)
    log.close()
    assert read_file(machine.files, f"{log.directory}/leader-epoch-checkpoint") == b"0\n1\n1 0\n"


def test_an_index_waits_in_memory_while_the_disk_is_full(machine: Machine) -> None:
    machine.files.make_directories(DIRECTORY)
    index = OffsetIndex(FileCache(machine.files), f"{DIRECTORY}/i.index", 0)
    machine.disk.capacity = machine.disk.used + 1003
    for entry in range(1, 1000):
        index.append(entry, entry * 10)
    machine.disk.capacity = 1 << 30
    index.append(1000, 10_000)
    index.spill()
    again = OffsetIndex(FileCache(machine.files), f"{DIRECTORY}/i.index", 0)
    assert [again.entry(n) for n in range(again.count)] == [(n, n * 10) for n in range(1, 1001)]
    assert again.lookup(500) == (500, 5000)


def test_an_append_of_an_older_leader_epoch_fails_an_assertion(machine: Machine) -> None:
    log = machine.log()
    log.append_as_leader(batch_of(b"a"), 2, now_ms=NOW_MS)
    with pytest.raises(AssertionError, match="a batch of epoch 1 at 1, behind epoch 2"):
        log.append_as_leader(batch_of(b"b"), 1, now_ms=NOW_MS)
    assert (log.log_end_offset, log.is_appending) == (1, False)


def test_finishing_an_append_fails_when_the_log_end_moved_meanwhile(machine: Machine) -> None:
    log = machine.log()
    pending = log.decide_as_leader(batch_of(b"a", b"b"), 0, NOW_MS)
    log.begin_append(pending)
    pending.write()
    log.log_end_offset = 1
    with pytest.raises(AssertionError):
        log.finish_append(pending)


def test_the_newest_batch_is_found_without_reading_the_file(machine: Machine) -> None:
    log = machine.log()
    for index in range(3):
        log.append_as_leader(batch_of(b"a%d" % index, b"b%d" % index), 0, now_ms=NOW_MS)
    log.active_segment.open_log()
    before = machine.node.trace.calls
    newest = [log.active_segment.find(offset) for offset in (4, 5)]
    assert machine.node.trace.calls == before
    assert [(span.base_offset, span.last_offset) for span in newest if span is not None] == [(4, 5), (4, 5)]
    assert log.active_segment.find(3) is not None
    assert machine.node.trace.calls > before


def test_the_cached_newest_batch_is_dropped_when_the_log_end_changes(machine: Machine) -> None:
    log = machine.log()
    for index in range(3):
        log.append_as_leader(batch_of(b"%d" % index), 0, now_ms=NOW_MS)
    log.truncate_to(2, NOW_MS)
    assert log.active_segment.find(2) is None
    log.append_as_leader(batch_of(b"other", b"more"), 1, now_ms=NOW_MS)
    assert [offset for offset, _, _ in content(log, 2)] == [2, 3]
