"""Compaction: what is kept, what goes when, and that offsets never change."""

from __future__ import annotations

import contextlib
import errno

import pytest

from kraft.common.errors import OutOfResources, StorageError
from kraft.common.ids import Uuid
from kraft.protocol.records.control_record import ControlRecordType, TransactionMarker, build_marker_batch
from kraft.storage.checkpoints import read_offset_checkpoint, write_file
from kraft.storage.cleaner_manager import LogCleanerManager
from kraft.storage.log_cleaner import Cleaning, CleaningAborted, Uncleanable
from kraft.storage.log_config import LogConfig
from kraft.storage.log_files import CLEANER_CHECKPOINT, LOG_SUFFIX, RECOVERY_POINT_CHECKPOINT
from kraft.storage.log_manager import LogManager
from kraft.storage.log_to_clean import LogToClean, log_to_clean
from kraft.storage.log_validator import AppendOrigin
from kraft.storage.steps import Job, Steps, run_here
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated.disk import Fault
from tests.unit.storage.support import DIRECTORY, NOW_MS, T0, TOPIC_ID, Machine, batch_of, batches_in, content

CONFIG = LogConfig(cleanup_policy=("compact",), segment_bytes=300, delete_retention_ms=1000, index_interval_bytes=50)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def put(log: UnifiedLog, key: bytes | None, value: bytes | None, **options: int | bool) -> int:
    offset = log.append_as_leader(batch_of(value, keys=(key,), **options), 0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR).first_offset
    log.update_high_watermark(log.log_end_offset)
    return offset


def clean(log: UnifiedLog, *, now_ms: int = NOW_MS, checkpoint: int | None = None, map_bytes_max: int = 1 << 20) -> int:
    """Close the active segment, clean, and add a record so that the high watermark lies beyond; the offset up to which the log is clean."""
    log.roll(NOW_MS)
    log.flush()
    candidate = log_to_clean(log, checkpoint, now_ms)
    assert candidate.cleanable_bytes > 0
    cleaning = Cleaning(candidate, now_ms=now_ms, map_bytes_max=map_bytes_max)
    run_here(cleaning.run())
    return cleaning.stats.end_offset


def test_only_the_last_record_of_a_key_stays_at_its_offset(machine: Machine) -> None:
    log = machine.log(CONFIG)
    last = {}
    for index in range(60):
        key = b"k%d" % (index * 7 % 5)
        last[key] = (put(log, key, b"v%d" % index), key, b"v%d" % index)
    clean(log)
    assert content(log) == sorted(last.values())
    assert log.log_end_offset == 60
    assert sum(1 for segment in log.segments if segment.size) <= 3  # emptied ones are merged by the next cleaning


def test_long_keys_are_told_apart(machine: Machine) -> None:
    log = machine.log(CONFIG)
    for index in range(20):
        put(log, b"k" * 40 + b"%d" % (index % 3), b"%d" % index)
    clean(log)
    assert [value for _, _, value in content(log)] == [b"17", b"18", b"19"]


def test_batches_are_thinned_out_and_keep_their_span_and_codec(machine: Machine) -> None:
    log = machine.log(CONFIG)
    for codec in range(5):
        log.append_as_leader(batch_of(b"a", b"b", b"c", keys=(b"x", b"only%d" % codec, b"x"), codec=codec), 0, now_ms=NOW_MS)
    put(log, b"z", b"end")
    clean(log)
    for codec, batch in enumerate(batches_in(log)[:5]):
        batch.verify_crc()
        assert (batch.base_offset, batch.last_offset, batch.codec) == (codec * 3, codec * 3 + 2, codec)
    assert [key for _, key, _ in content(log)] == [b"only0", b"only1", b"only2", b"only3", b"only4", b"x", b"z"]


def test_a_tombstone_stays_until_its_horizon_has_passed(machine: Machine) -> None:
    log = machine.log(CONFIG)
    put(log, b"k", b"v")
    put(log, b"k", None)
    put(log, b"other", b"v")
    done = clean(log)
    assert content(log) == [(1, b"k", None), (2, b"other", b"v")]
    assert batches_in(log)[0].delete_horizon_ms == NOW_MS + 1000
    assert batches_in(log)[0].records()[0].timestamp == NOW_MS
    put(log, b"x", b"v")
    done = clean(log, now_ms=NOW_MS + 999, checkpoint=done)
    assert (1, b"k", None) in content(log)
    put(log, b"y", b"v")
    clean(log, now_ms=NOW_MS + 1000, checkpoint=done)
    assert [key for _, key, _ in content(log)] == [b"other", b"x", b"y"]


def test_records_behind_the_map_stay_as_they_are(machine: Machine) -> None:
    log = machine.log(CONFIG)
    for index in range(30):
        put(log, b"k%d" % (index % 15), b"%d" % index)
    end = clean(log, map_bytes_max=160 * 5)
    assert 0 < end < 30
    kept = content(log)
    assert [offset for offset, _, _ in kept if offset >= end] == list(range(end, 30))
    assert {key: value for _, key, value in kept} == {b"k%d" % n: b"%d" % (n + 15) for n in range(15)}


def test_the_batch_at_the_high_watermark_and_the_last_of_a_producer_stay_as_empty_ones(machine: Machine) -> None:
    log = machine.log(CONFIG)
    put(log, b"k", b"1", producer_id=5, producer_epoch=2, base_sequence=0)
    put(log, b"k", b"2", producer_id=5, producer_epoch=2, base_sequence=1)
    put(log, b"k", b"3")
    clean(log)
    found = [(batch.base_offset, batch.count, batch.producer_id, batch.base_sequence) for batch in batches_in(log)]
    assert found == [(1, 0, 5, 1), (2, 1, -1, -1)]
    log.close()
    assert machine.log(CONFIG, clean=True).producers.producers[5].last_sequence == 1


def test_records_without_a_key_go_and_the_one_at_the_high_watermark_leaves_its_batch(machine: Machine) -> None:
    log = machine.log(CONFIG)
    for _ in range(3):
        put(log, None, b"no key")
    clean(log)
    assert [(batch.base_offset, batch.count) for batch in batches_in(log)] == [(2, 0)]
    assert log.log_end_offset == 3


def test_the_active_segment_and_what_is_not_durable_are_left_alone(machine: Machine) -> None:
    log = machine.log(CONFIG)
    for index in range(30):
        put(log, b"k", b"%d" % index)
    assert log_to_clean(log, None, NOW_MS).cleanable_bytes == 0
    log.flush()
    assert log_to_clean(log, None, NOW_MS).first_uncleanable_offset == log.active_segment.base_offset


def test_young_records_wait_for_the_lag(machine: Machine) -> None:
    log = machine.log(LogConfig(cleanup_policy=("compact",), segment_bytes=300, min_compaction_lag_ms=1000))
    for index in range(30):
        put(log, b"k", b"%d" % index, timestamp=NOW_MS + index * 100)
    log.flush()
    assert log_to_clean(log, None, NOW_MS).first_uncleanable_offset == 0
    bound = log_to_clean(log, None, NOW_MS + 2500).first_uncleanable_offset
    assert 0 < bound <= 16


def test_a_log_is_due_by_its_ratio_or_by_its_age(machine: Machine) -> None:
    log = machine.log(LogConfig(cleanup_policy=("compact",), segment_bytes=300, max_compaction_lag_ms=10_000, min_cleanable_dirty_ratio=0.9))
    for index in range(30):
        put(log, b"k%d" % index, b"v")
    log.flush()
    middle = log.segments[len(log.segments) // 2].base_offset
    assert not log_to_clean(log, middle, NOW_MS).is_due
    assert log_to_clean(log, None, NOW_MS).is_due
    assert log_to_clean(log, middle, NOW_MS + 10_001).is_due


def marker(log: UnifiedLog, producer_id: int, control_type: int) -> None:
    batch = build_marker_batch(TransactionMarker(control_type, 0), offset=0, timestamp_ms=NOW_MS, leader_epoch=0, producer_id=producer_id, producer_epoch=0)
    log.append_as_leader(batch, 0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)


def test_aborted_records_go_at_once_and_markers_after_their_horizon(machine: Machine) -> None:
    log = machine.log(CONFIG)
    put(log, b"k", b"kept")
    put(log, b"k", b"aborted", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker(log, 1, ControlRecordType.ABORT)
    put(log, b"c", b"committed", producer_id=2, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker(log, 2, ControlRecordType.COMMIT)
    put(log, b"end", b"v")
    done = clean(log)
    assert content(log) == [(0, b"k", b"kept"), (3, b"c", b"committed"), (5, b"end", b"v")]
    assert [(one.producer_id, one.last_offset) for one in log.aborted_transactions(0, 6)] == [(1, 2)]
    assert [batch.base_offset for batch in batches_in(log) if batch.is_control] == [2, 4]
    log.producers.producers.clear()
    put(log, b"x", b"v")
    done = clean(log, now_ms=NOW_MS + 1, checkpoint=done)
    assert 1 not in [batch.base_offset for batch in batches_in(log)]  # the last trace of the aborted data, which kept its marker
    put(log, b"y", b"v")
    done = clean(log, now_ms=NOW_MS + 2000, checkpoint=done)
    assert [batch.delete_horizon_ms for batch in batches_in(log) if batch.is_control] == [NOW_MS + 3000, None]
    put(log, b"z", b"v")
    clean(log, now_ms=NOW_MS + 3000, checkpoint=done)
    assert [batch.base_offset for batch in batches_in(log) if batch.is_control] == [4]  # the commit's data is still there
    assert not log.aborted_transactions(0, 6)


@pytest.mark.parametrize("steps_before", [10, 38])
def test_a_truncation_aborts_the_cleaning_and_leaves_nothing_behind(machine: Machine, steps_before: int) -> None:
    log = machine.log(CONFIG)
    for index in range(40):
        put(log, b"k%d" % (index % 3), b"%d" % index)
    log.flush()
    before = {key: value for _, key, value in content(log)[:39]}
    steps = Cleaning(log_to_clean(log, None, NOW_MS), now_ms=NOW_MS).run()
    for _ in range(steps_before):
        next(steps)
    log.truncate_to(39, NOW_MS)
    with pytest.raises(CleaningAborted):
        run_here(steps)
    assert {key: value for _, key, value in content(log)} == before
    assert not [name for name in machine.files.list_directory(DIRECTORY) if "cleaned" in name or "swap" in name]


def manager_of(machine: Machine) -> LogManager:
    manager = LogManager(machine.files, ["/data"], node_id=1, new_uuid=lambda: bytes(16), config_of=lambda _: CONFIG)
    manager.open(None)
    return manager


def dirty_manager(machine: Machine) -> tuple[LogManager, UnifiedLog]:
    """Of a log of many small segments, all durable."""
    manager = manager_of(machine)
    manager.load(NOW_MS)
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    for index in range(40):
        put(log, b"k%d" % (index % 3), b"%d" % index)
    log.flush()
    return manager, log


def cleaning_of(cleaner: LogCleanerManager) -> tuple[LogToClean, Steps[None]]:
    """What it would clean next, and that."""
    candidate = cleaner.next_log(NOW_MS)
    assert candidate is not None
    return candidate, cleaner.clean(candidate, NOW_MS)


def test_the_manager_takes_the_dirtiest_log_and_remembers_how_far_it_got(machine: Machine) -> None:
    manager, _ = dirty_manager(machine)
    cleaner = LogCleanerManager(manager)
    candidate, steps = cleaning_of(cleaner)
    run_here(steps)
    assert cleaner.next_log(NOW_MS) is None
    assert machine.files.open("/data/cleaner-offset-checkpoint").pread(100, 0) == b"0\n1\nt 0 %d\n" % candidate.first_uncleanable_offset
    assert LogCleanerManager(manager).next_log(NOW_MS) is None
    job = manager.due_deletions(NOW_MS + CONFIG.file_delete_delay_ms)
    assert job is not None
    job.run()
    assert not [name for name in machine.files.list_directory(DIRECTORY) if name.endswith(".deleted")]


def test_what_cleaning_emptied_is_no_lost_segment_after_a_crash(machine: Machine) -> None:
    manager, log = dirty_manager(machine)
    run_here(cleaning_of(LogCleanerManager(manager))[1])
    before = content(log)
    machine.kill()
    again = manager_of(machine)
    assert [content(found) for found in again.load(NOW_MS)] == [before]


def about_to_clean(machine: Machine) -> tuple[LogManager, UnifiedLog, Steps[None]]:
    """`dirty_manager`, and a cleaning that has not begun."""
    manager, log = dirty_manager(machine)
    return manager, log, cleaning_of(LogCleanerManager(manager))[1]


def run_some(steps: Steps[None], count: int) -> bool:
    """Whether there were so many."""
    for _ in range(count):
        job = next(steps, END)
        if job is END:
            return False
        if job is not None:
            job()
    return True


END = object()


def pauses(machine: Machine) -> int:
    manager, _, steps = about_to_clean(machine)
    count = 0
    while run_some(steps, 1):
        count += 1
    manager.release()
    return count


@pytest.mark.parametrize("power_lost", [False, True])
def test_what_is_truncated_at_any_pause_of_a_cleaning_does_not_come_back(power_lost: bool) -> None:
    for pause in range(1, pauses(Machine())):
        machine = Machine(seed=pause)
        manager, log, steps = about_to_clean(machine)
        assert run_some(steps, pause)
        manager.truncate_to(log, 20, now_ms=NOW_MS)
        left = content(log)
        with contextlib.suppress(CleaningAborted):
            run_here(steps)
        found = content(log)
        manager.release()
        machine.power_off() if power_lost else machine.kill()
        again = manager_of(machine)
        (loaded,) = again.load(NOW_MS)
        assert content(loaded) == found, pause
        assert set(found) <= set(left), pause
        assert {key: value for _, key, value in found} == {key: value for _, key, value in left}, pause
        assert all(offset < 20 for offset, _, _ in found)
        again.release()


def test_a_log_that_is_deleted_at_any_pause_of_a_cleaning_even_before_its_job_is_done_is_not_the_disks_fault() -> None:
    aborted, jobs = 0, 0
    for pause in range(pauses(Machine())):
        machine = Machine()
        manager, log, steps = about_to_clean(machine)
        assert run_some(steps, pause)
        job = next(steps)
        jobs += job is not None
        manager.delete(log.topic_partition, now_ms=NOW_MS)

        def rest(job: Job | None = job, steps: Steps[None] = steps) -> Steps[None]:
            try:
                if job is not None:
                    job()
            except OSError as problem:
                steps.throw(problem)
            yield from steps

        try:
            run_here(rest())
        except CleaningAborted:
            aborted += 1
        manager.release()
    assert aborted > 10
    assert jobs > 4


def test_recovery_points_are_durable_before_a_cleaning_replaces_anything_whatever_checkpoint_is_about_to_clean(machine: Machine) -> None:
    manager, log, steps = about_to_clean(machine)
    prepared = next(steps)
    assert prepared is not None
    prepared()
    manager.directories[0].checkpoint_missed()
    slow = manager.directories[0].recovery_checkpoints()  # It is made, and gets no further.
    assert slow.contents
    while next(steps) is None:
        pass
    manager.release()
    machine.power_off()
    assert read_offset_checkpoint(machine.files, f"/data/{RECOVERY_POINT_CHECKPOINT}") == {T0: log.recovery_point_to_keep}


class FailsOnce:
    """The `count`-th call of `operation` in `within` raises; those before and after do what they always do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, machine: Machine, operation: str, within: str, count: int, error: int) -> None:
        self.left = count
        check = machine.disk.check_faults

        def checked(called: str, path: str) -> None:
            check(called, path)
            if called == operation and within in path:
                self.left -= 1
                if not self.left:
                    raise OSError(error, "as the test wants it", path)

        monkeypatch.setattr(machine.disk, "check_faults", checked)


DECIDED = [*(("sync_directory", count) for count in (2, 3, 4)), *(("rename", count) for count in range(1, 16))]
"""Of one group: the first sync of names is that of the copy, before anything is renamed."""


@pytest.mark.parametrize("power_lost", [False, True])
@pytest.mark.parametrize("error", [errno.EIO, errno.EMFILE, errno.ENOSPC])
@pytest.mark.parametrize(("operation", "count"), DECIDED)
def test_what_fails_once_a_cleaning_is_decided_is_the_disks_fault_and_loses_nothing(
    operation: str, count: int, error: int, power_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(seed=count)
    manager = manager_of(machine)
    manager.load(NOW_MS)
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    for index in range(40):
        put(log, b"u%d" % index if index < 10 else b"k%d" % (index % 3), b"%d" % index)
    log.flush()
    before = {key: value for _, key, value in content(log)}
    candidate, steps = cleaning_of(LogCleanerManager(manager))
    failing = FailsOnce(monkeypatch, machine, operation, DIRECTORY, count, error)
    with pytest.raises(StorageError) as raised:
        run_here(steps)
    assert not failing.left
    assert not isinstance(raised.value, OutOfResources), "another cleaning would be tried"
    if any(segment.suffix for segment in log.segments):
        with pytest.raises(StorageError, match="did not finish"):  # Should somebody try all the same.
            run_here(Cleaning(candidate, now_ms=NOW_MS, map_bytes_max=1 << 20).run())
    manager.directory_failed("/data", str(raised.value))
    manager.release()
    machine.power_off() if power_lost else machine.kill()
    again = manager_of(machine)
    (loaded,) = again.load(NOW_MS)
    assert {key: value for _, key, value in content(loaded)} == before
    assert (loaded.log_start_offset, loaded.log_end_offset) == (0, 40)
    again.release()


def test_a_failed_sync_of_a_copy_is_no_abortion_even_if_the_log_was_truncated_meanwhile(machine: Machine) -> None:
    manager, log, steps = about_to_clean(machine)
    while (job := next(steps)) is None or ".cleaned" not in str(machine.files.list_directory(DIRECTORY)):
        if job is not None:
            job()
    manager.truncate_to(log, 39, now_ms=NOW_MS)
    with pytest.raises(StorageError):
        steps.throw(OSError(errno.EIO, "the sync failed"))


def clean_offset(machine: Machine) -> int | None:
    """As a start would read it."""
    return read_offset_checkpoint(machine.files, f"/data/{CLEANER_CHECKPOINT}").get(T0)


@pytest.mark.parametrize("restart", ["none", "before it is made anew", "after it is made anew"])
def test_a_log_made_anew_is_not_clean_where_the_one_before_it_was(machine: Machine, restart: str) -> None:
    manager, log = dirty_manager(machine)
    run_here(cleaning_of(LogCleanerManager(manager))[1])
    done = clean_offset(machine)
    assert done is not None
    manager.delete(log.topic_partition, now_ms=NOW_MS)
    if restart == "before it is made anew":
        machine.kill()
        manager = manager_of(machine)
        manager.load(NOW_MS)
    log = manager.get_or_create(T0, Uuid(bytes(15) + b"\x09"), now_ms=NOW_MS)
    put(log, b"gone", b"value")
    put(log, b"gone", None)
    for index in range(done + 20):
        put(log, b"k%d" % (index % 3), b"v")
    log.flush()
    if restart == "after it is made anew":
        machine.power_off()
        manager = manager_of(machine)
        (log,) = manager.load(NOW_MS)
        log.flush()
        log.update_high_watermark(log.log_end_offset)
    candidate, _ = cleaning_of(LogCleanerManager(manager))
    assert candidate.first_dirty_offset == 0


def test_what_was_truncated_does_not_count_as_clean_when_it_has_grown_again(machine: Machine) -> None:
    manager, log = dirty_manager(machine)
    cleaner = LogCleanerManager(manager)
    run_here(cleaning_of(cleaner)[1])
    assert manager.truncate_to(log, 20, now_ms=NOW_MS)
    assert clean_offset(machine) == 20
    for index in range(40):
        put(log, b"k%d" % (index % 3), b"v")
    log.flush()
    assert cleaning_of(cleaner)[0].first_dirty_offset == 20
    machine.power_off()
    assert clean_offset(machine) == 20


def test_a_log_that_was_loaded_shorter_than_it_was_clean_is_dirty_from_its_end(machine: Machine) -> None:
    manager, _ = dirty_manager(machine)
    manager.checkpoint_all()
    manager.release()
    write_file(machine.files, f"/data/{CLEANER_CHECKPOINT}", b"0\n2\nt 0 50\nunknown 0 7\n", durable=True)
    machine.kill()
    manager = manager_of(machine)
    manager.load(NOW_MS)
    assert manager.directories[0].clean_offsets == {T0: 40}
    assert read_offset_checkpoint(machine.files, f"/data/{CLEANER_CHECKPOINT}") == {T0: 40}


def test_a_damaged_checkpoint_only_costs_a_cleaning_from_the_start(machine: Machine) -> None:
    manager, _ = dirty_manager(machine)
    manager.release()
    write_file(machine.files, f"/data/{CLEANER_CHECKPOINT}", b"rubbish", durable=True)
    machine.kill()
    manager = manager_of(machine)
    (log,) = manager.load(NOW_MS)
    log.flush()
    log.update_high_watermark(log.log_end_offset)
    candidate, steps = cleaning_of(LogCleanerManager(manager))
    assert candidate.first_dirty_offset == 0
    run_here(steps)
    assert clean_offset(machine) == candidate.first_uncleanable_offset


@pytest.mark.parametrize("remake", [False, True])
def test_a_truncation_during_the_last_job_of_a_cleaning_is_not_overwritten_by_what_that_remembers(machine: Machine, remake: bool) -> None:
    for pause in range(1, pauses(Machine()) + 1):
        machine = Machine(seed=pause)
        manager, log, steps = about_to_clean(machine)
        assert run_some(steps, pause - 1)
        job = next(steps, None)
        if remake:
            manager.delete(T0, now_ms=NOW_MS)
            manager.get_or_create(T0, Uuid(bytes(15) + b"\x09"), now_ms=NOW_MS)
        else:
            manager.truncate_to(log, 20, now_ms=NOW_MS)
        with contextlib.suppress(CleaningAborted, FileNotFoundError):
            if job is not None:
                job()
            run_here(steps)
        assert (manager.directories[0].clean_offsets.get(T0) or 0) <= (0 if remake else 20), pause
        assert (clean_offset(machine) or 0) <= (0 if remake else 20), pause
        manager.release()


def test_a_log_that_cannot_be_cleaned_is_left_alone_until_it_is_another(machine: Machine) -> None:
    manager, log = dirty_manager(machine)
    cleaner = LogCleanerManager(manager)
    _, steps = cleaning_of(cleaner)
    machine.files.open(log.segments[0].path(LOG_SUFFIX)).pwrite(b"\x00", 16)
    with pytest.raises(Uncleanable):
        run_here(steps)
    assert cleaner.next_log(NOW_MS) is None
    manager.delete(T0, now_ms=NOW_MS)
    log = manager.get_or_create(T0, Uuid(bytes(15) + b"\x09"), now_ms=NOW_MS)
    for index in range(40):
        put(log, b"k%d" % (index % 3), b"%d" % index)
    log.flush()
    run_here(cleaning_of(cleaner)[1])
    assert len(content(log)) < 10


@pytest.mark.parametrize("error", [errno.EIO, errno.EMFILE])
def test_a_directory_whose_logs_cannot_be_looked_at_does_not_keep_the_others(machine: Machine, error: int) -> None:
    manager = LogManager(machine.files, ["/data", "/more"], node_id=1, new_uuid=lambda: bytes(16), config_of=lambda _: CONFIG)
    manager.open(None)
    manager.load(NOW_MS)
    for index in (0, 1):
        log = manager.get_or_create(T0._replace(partition=index), TOPIC_ID, now_ms=NOW_MS)
        for count in range(40):
            put(log, b"k%d" % (count % 3), b"%d" % count)
        log.flush()
    list(manager.close_logs())
    manager.finish_shutdown()
    manager = LogManager(machine.files, ["/data", "/more"], node_id=1, new_uuid=lambda: bytes(16), config_of=lambda _: CONFIG)
    manager.open(None)
    for log in manager.load(NOW_MS):
        log.update_high_watermark(log.log_end_offset)
        log.local.forget_files()
    machine.disk.faults = [Fault("open", error, "/data/t-0/00000000000000000000.log")]
    failed: list[tuple[str, bool]] = []
    cleaner = LogCleanerManager(manager)
    candidate = cleaner.next_log(NOW_MS, lambda directory, problem: failed.append((directory.path, isinstance(problem, OutOfResources))))
    assert failed == [("/data", error == errno.EMFILE)]
    assert candidate is not None
    assert candidate.log.directory == "/more/t-1"
