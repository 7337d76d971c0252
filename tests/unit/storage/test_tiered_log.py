"""A log of which the older part is in the remote tier begins where it did, whatever becomes of its process."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.control_record import ControlRecordType
from kraft.storage.log_config import LogConfig
from kraft.storage.log_manager import LogManager
from kraft.storage.producers.producer_snapshot import encode_snapshot
from kraft.storage.tiered_log import RemoteStart, lacking_snapshots, make_snapshot, sync_snapshot
from kraft.storage.unified_log import UnifiedLog
from kraft.world.steps import at_once
from tests.unit.storage.producers.producer_batches import end
from tests.unit.storage.recovery.transactional_log import aborted, produce
from tests.unit.storage.support import NOW_MS, T0, TOPIC_ID, Machine, batch_of

TIERED = LogConfig(remote_storage_enable=True, retention_ms=-1)


def manager(machine: Machine, config: LogConfig = TIERED) -> LogManager:
    logs = LogManager(
        machine.files, ["/logs"], node_id=1, new_uuid=lambda: bytes(15) + b"\1", config_of=lambda topic: config
    )
    logs.open(None)
    logs.format_missing("MkU3OEVBNTcwNTJENDM2Qk")
    return logs


def fill(logs: LogManager) -> UnifiedLog:
    """Three closed segments of the epochs 0, 1 and 2, and an active one of epoch 3."""
    log = logs.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    for epoch in range(4):
        if epoch:
            log.roll(NOW_MS)
        log.append_as_leader(batch_of(b"a", b"b"), epoch, now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return log


def facts(log: UnifiedLog) -> tuple[int, int, int, list[tuple[int, int]]]:
    return log.log_start_offset, log.local_log_start_offset, log.log_end_offset, list(log.leader_epoch_cache.entries)


EPOCHS = [(0, 0), (1, 2), (2, 4), (3, 6)]


def reloaded(machine: Machine) -> tuple[LogManager, UnifiedLog]:
    logs = manager(machine)
    logs.load(NOW_MS)
    log = logs.get(T0)
    assert log is not None
    return logs, log


@pytest.mark.parametrize("ends", ["clean", "killed", "power"])
def test_segments_removed_from_disk_still_belong_to_the_log(ends: str) -> None:
    machine = Machine()
    logs = manager(machine)
    log = fill(logs)
    log.flush(now_ms=NOW_MS)
    assert logs.delete_local_segments(log, 2, now_ms=NOW_MS).count == 2
    assert facts(log) == (0, 4, 8, EPOCHS)
    with pytest.raises(ApiError) as moved:
        log.read(3, 1000)
    assert moved.value.code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    if ends == "clean":
        list(logs.close_logs())
        logs.finish_shutdown()
    else:
        machine.files.sync_directory(log.directory)
        logs.release()
        if ends == "power":
            machine.power_off()
    _, again = reloaded(machine)
    assert facts(again) == (0, 4, 8, EPOCHS)
    assert again.delete_old_segments(NOW_MS).count == 0


def test_no_segment_is_removed_from_disk_before_the_leader_epochs_are_durable() -> None:
    logs = manager(Machine())
    log = fill(logs)
    assert logs.delete_local_segments(log, 2, now_ms=NOW_MS).count == 0
    log.flush(now_ms=NOW_MS)
    log.assign_epoch(4, 8)
    assert logs.delete_local_segments(log, 2, now_ms=NOW_MS).count == 0


def test_the_log_start_offset_is_checkpointed() -> None:
    machine = Machine()
    logs = manager(machine)
    log = fill(logs)
    log.flush(now_ms=NOW_MS)
    logs.delete_local_segments(log, 2, now_ms=NOW_MS)
    log.delete_records_before(3)
    assert logs.delete_old_segments(log, now_ms=NOW_MS).count == 0
    list(logs.close_logs())
    logs.finish_shutdown()
    _, again = reloaded(machine)
    assert facts(again) == (3, 4, 8, [(1, 3), (2, 4), (3, 6)])


def test_retention_of_a_tiered_log_does_not_delete_local_segments() -> None:
    logs = manager(Machine(), LogConfig(remote_storage_enable=True, retention_ms=1, retention_bytes=1))
    log = fill(logs)
    assert logs.delete_old_segments(log, now_ms=NOW_MS * 2).count == 0
    log.delete_records_before(4)
    assert logs.delete_old_segments(log, now_ms=NOW_MS * 2).count == 2
    assert facts(log)[:2] == (4, 4)


@pytest.mark.parametrize(
    ("retention", "is_closed"),
    [
        ({"retention_ms": 10}, True),
        ({"local_retention_ms": 10}, True),
        ({"local_retention_bytes": 0}, True),
        ({"local_retention_bytes": 1, "local_retention_ms": 1_000_000}, False),
        ({"retention_ms": 10, "local_retention_ms": -1}, False),
    ],
)
def test_the_active_segment_rolls_when_it_is_the_only_one_due_for_removal_from_disk(
    retention: dict[str, int], is_closed: bool
) -> None:
    config = LogConfig(**{"remote_storage_enable": True, "retention_ms": -1} | retention)
    logs = manager(Machine(), config)
    log = logs.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    log.append_as_leader(batch_of(b"a", b"b"), 0, now_ms=NOW_MS)
    later = log.active_segment.largest_timestamp + 11
    assert logs.delete_old_segments(log, now_ms=later).count == 0
    assert len(log.segments) == 1, "its records are not committed"
    log.update_high_watermark(log.log_end_offset)
    for _ in range(2):
        assert logs.delete_old_segments(log, now_ms=later).count == 0
        assert [each.base_offset for each in log.segments] == ([0, 2] if is_closed else [0])
        assert log.log_start_offset == 0


def test_the_active_segment_does_not_roll_while_older_segments_are_on_disk() -> None:
    logs = manager(Machine(), LogConfig(remote_storage_enable=True, retention_ms=1))
    log = fill(logs)
    logs.delete_old_segments(log, now_ms=log.active_segment.largest_timestamp + 1000)
    assert [each.base_offset for each in log.segments] == [0, 2, 4, 6]


def test_a_truncation_into_the_remote_tier_keeps_the_remote_segments() -> None:
    machine = Machine()
    logs = manager(machine)
    log = fill(logs)
    log.flush(now_ms=NOW_MS)
    logs.delete_local_segments(log, 2, now_ms=NOW_MS)
    logs.truncate_to(log, 3, now_ms=NOW_MS)
    assert facts(log) == (0, 3, 3, [(0, 0), (1, 2)])
    machine.files.sync_directory(log.directory)
    logs.release()
    machine.power_off()
    _, again = reloaded(machine)
    assert facts(again) == (0, 3, 3, [(0, 0), (1, 2)])


@pytest.mark.parametrize("had_records", [False, True])
@pytest.mark.parametrize("ends", ["killed", "power"])
def test_a_new_replica_starts_behind_the_remote_tier(had_records: bool, ends: str) -> None:
    machine = Machine()
    logs = manager(machine)
    log = fill(logs) if had_records else logs.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    start = RemoteStart(
        log_start_offset=5,
        offset=20,
        leader_epochs=[(0, 0), (1, 2), (7, 15), (8, 20)],
        producer_snapshot=encode_snapshot(()),
    )
    logs.begin_behind_remote(log, start, now_ms=NOW_MS)
    assert facts(log) == (5, 20, 20, [(1, 5), (7, 15)])
    assert log.high_watermark == 20
    logs.release()
    if ends == "power":
        machine.power_off()
    logs, again = reloaded(machine)
    assert facts(again) == (5, 20, 20, [(1, 5), (7, 15)])
    again.append_as_leader(batch_of(b"x"), 8, now_ms=NOW_MS)
    again.flush(now_ms=NOW_MS)
    logs.release()
    _, again = reloaded(machine)
    assert facts(again) == (5, 20, 21, [(1, 5), (7, 15), (8, 20)])


@pytest.mark.parametrize("is_lost", [False, True], ids=["snapshot kept", "snapshot lost"])
def test_a_transaction_aborted_after_its_first_segment_was_removed_from_disk_stays_aborted(is_lost: bool) -> None:
    """Its transaction began in the segment that left. Only a snapshot tells a recovery of that."""
    machine = Machine()
    logs = manager(machine)
    log = logs.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    produce(log, 0)
    log.roll(NOW_MS)
    log.flush(now_ms=NOW_MS)
    if is_lost:
        log.producers.remove_snapshot(1)
        assert lacking_snapshots(log) == [1]
        assert logs.delete_local_segments(log, 1, now_ms=NOW_MS).count == 0
        at_once(make_snapshot(log, 1, NOW_MS))
    assert lacking_snapshots(log) == []
    sync_snapshot(log, 1)
    assert logs.delete_local_segments(log, 1, now_ms=NOW_MS).count == 1
    machine.files.sync_directory(log.directory)
    end(log, ControlRecordType.ABORT)
    log.local.segments[-1].open_log().file.sync()
    logs.release()
    machine.power_off()
    _, again = reloaded(machine)
    again.update_high_watermark(again.log_end_offset)
    assert (again.local_log_start_offset, again.log_end_offset) == (1, 2)
    assert aborted(again) == [(1, 0, 1)]


def test_a_producer_snapshot_of_a_log_truncated_meanwhile_is_not_written() -> None:
    machine = Machine()
    logs = manager(machine)
    log = logs.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    produce(log, 0)
    log.roll(NOW_MS)
    log.producers.remove_snapshot(1)
    steps = make_snapshot(log, 1, NOW_MS)
    job = next(steps)
    assert job is not None
    logs.truncate_to(log, 0, now_ms=NOW_MS)
    job()
    assert list(steps) == []
    assert log.producers.snapshots == []
