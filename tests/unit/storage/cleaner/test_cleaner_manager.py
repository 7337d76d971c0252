"""Which log is cleaned next, and how far each is clean, over restarts, truncations and logs that are recreated."""

from __future__ import annotations

import contextlib
import errno

import pytest

from kraft.common.errors import OutOfResources
from kraft.common.ids import Uuid
from kraft.storage.checkpoints import read_offset_checkpoint, write_file
from kraft.storage.cleaner.cleaner_manager import LogCleanerManager
from kraft.storage.cleaner.cleaning_order import CleanerLimits
from kraft.storage.cleaner.log_cleaner import CleaningAborted, Uncleanable
from kraft.storage.cleaner.offset_slots import SLOT_BYTES
from kraft.storage.log_files import CLEANER_CHECKPOINT, OFFSET_INDEX_SUFFIX
from kraft.storage.log_manager import LogManager
from kraft.world.simulated.disk import Fault
from kraft.world.steps import at_once
from tests.unit.storage.cleaner.cleaning import (
    CONFIG,
    about_to_clean,
    cleaning_of,
    dirty_manager,
    manager_of,
    pauses,
    put,
    run_some,
)
from tests.unit.storage.support import DIRECTORY, NOW_MS, T0, TOPIC_ID, Machine, batch_of, content


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_the_manager_cleans_the_dirtiest_log_first_and_checkpoints_the_cleaned_offset(machine: Machine) -> None:
    manager, _ = dirty_manager(machine)
    cleaner = LogCleanerManager(manager)
    candidate, steps = cleaning_of(cleaner)
    at_once(steps)
    assert cleaner.next_log(NOW_MS) is None
    assert (
        machine.files.open("/data/cleaner-offset-checkpoint").pread(100, 0)
        == b"0\n1\nt 0 %d\n" % candidate.first_uncleanable_offset
    )
    assert LogCleanerManager(manager).next_log(NOW_MS) is None
    job = manager.due_deletions(NOW_MS + CONFIG.file_delete_delay_ms)
    assert job is not None
    job.run()
    assert not [name for name in machine.files.list_directory(DIRECTORY) if name.endswith(".deleted")]


def test_a_segment_emptied_by_cleaning_does_not_count_as_lost_after_a_crash(machine: Machine) -> None:
    manager, log = dirty_manager(machine)
    at_once(cleaning_of(LogCleanerManager(manager))[1])
    before = content(log)
    machine.kill()
    again = manager_of(machine)
    assert [content(found) for found in again.load(NOW_MS)] == [before]


def clean_offset(machine: Machine) -> int | None:
    """As a start would read it."""
    return read_offset_checkpoint(machine.files, f"/data/{CLEANER_CHECKPOINT}").get(T0)


@pytest.mark.parametrize("restart", ["none", "before it is recreated", "after it is recreated"])
def test_a_recreated_log_does_not_inherit_the_cleaner_checkpoint(machine: Machine, restart: str) -> None:
    manager, log = dirty_manager(machine)
    at_once(cleaning_of(LogCleanerManager(manager))[1])
    done = clean_offset(machine)
    assert done is not None
    manager.delete(log.topic_partition, now_ms=NOW_MS)
    if restart == "before it is recreated":
        machine.kill()
        manager = manager_of(machine)
        manager.load(NOW_MS)
    log = manager.get_or_create(T0, Uuid(bytes(15) + b"\x09"), now_ms=NOW_MS)
    put(log, b"gone", b"value")
    put(log, b"gone", None)
    for index in range(done + 20):
        put(log, b"k%d" % (index % 3), b"v")
    log.flush()
    if restart == "after it is recreated":
        machine.power_off()
        manager = manager_of(machine)
        (log,) = manager.load(NOW_MS)
        log.flush()
        log.update_high_watermark(log.log_end_offset)
    candidate, _ = cleaning_of(LogCleanerManager(manager))
    assert candidate.first_dirty_offset == 0


def test_records_appended_after_a_truncation_do_not_count_as_clean(machine: Machine) -> None:
    manager, log = dirty_manager(machine)
    cleaner = LogCleanerManager(manager)
    at_once(cleaning_of(cleaner)[1])
    assert manager.truncate_to(log, 20, now_ms=NOW_MS)
    assert clean_offset(machine) == 20
    for index in range(40):
        put(log, b"k%d" % (index % 3), b"v")
    log.flush()
    assert cleaning_of(cleaner)[0].first_dirty_offset == 20
    machine.power_off()
    assert clean_offset(machine) == 20


def test_a_log_loaded_shorter_than_its_cleaner_checkpoint_is_dirty_from_its_end(machine: Machine) -> None:
    manager, _ = dirty_manager(machine)
    manager.checkpoint_all()
    manager.release()
    write_file(machine.files, f"/data/{CLEANER_CHECKPOINT}", b"0\n2\nt 0 50\nunknown 0 7\n", durable=True)
    machine.kill()
    manager = manager_of(machine)
    manager.load(NOW_MS)
    assert manager.directories[0].clean_offsets == {T0: 40}
    assert read_offset_checkpoint(machine.files, f"/data/{CLEANER_CHECKPOINT}") == {T0: 40}


def test_a_damaged_cleaner_checkpoint_causes_a_cleaning_from_the_log_start(machine: Machine) -> None:
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
    at_once(steps)
    assert clean_offset(machine) == candidate.first_uncleanable_offset


@pytest.mark.parametrize("remake", [False, True])
def test_a_truncation_during_the_last_step_of_a_cleaning_keeps_its_lower_cleaner_checkpoint(
    machine: Machine, remake: bool
) -> None:
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
            at_once(steps)
        assert (manager.directories[0].clean_offsets.get(T0) or 0) <= (0 if remake else 20), pause
        assert (clean_offset(machine) or 0) <= (0 if remake else 20), pause
        manager.release()


def test_a_log_that_cannot_be_cleaned_is_skipped_until_it_is_recreated(machine: Machine) -> None:
    manager, log = dirty_manager(machine)
    cleaner = LogCleanerManager(manager)
    _, steps = cleaning_of(cleaner)
    log.close()
    machine.files.open(log.segments[0].path(OFFSET_INDEX_SUFFIX)).append((b"?",))
    log.segments[0]._offset_index = None
    with pytest.raises(Uncleanable):
        at_once(steps)
    assert cleaner.next_log(NOW_MS) is None
    manager.delete(T0, now_ms=NOW_MS)
    log = manager.get_or_create(T0, Uuid(bytes(15) + b"\x09"), now_ms=NOW_MS)
    for index in range(40):
        put(log, b"k%d" % (index % 3), b"%d" % index)
    log.flush()
    at_once(cleaning_of(cleaner)[1])
    assert len(content(log)) < 10


def test_a_batch_with_more_keys_than_the_map_fits_is_cleaned_in_parts(machine: Machine) -> None:
    manager = manager_of(machine)
    manager.load(NOW_MS)
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    for keys in ((b"a",), (b"d",), (b"a", b"b", b"c", b"d", b"d"), (b"e",)):
        log.append_as_leader(batch_of(*[b"v"] * len(keys), keys=keys), 0, now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    log.roll(NOW_MS)
    log.flush()
    cleaner = LogCleanerManager(manager, lambda: CleanerLimits(map_bytes=2 * SLOT_BYTES))
    left = []
    while (candidate := cleaner.next_log(NOW_MS)) is not None:
        assert len(left) < 9, "no end of it"
        at_once(cleaner.clean(candidate, NOW_MS))
        left.append([offset for offset, _, _ in content(log)])
    assert (left[0], left[-1]) == ([1, 2, 3, 4, 5, 6, 7], [2, 3, 4, 6, 7])


@pytest.mark.parametrize("error", [errno.EIO, errno.EMFILE])
def test_a_directory_with_unreadable_logs_does_not_stop_cleaning_in_other_directories(
    machine: Machine, error: int
) -> None:
    manager = LogManager(
        machine.files, ["/data", "/more"], node_id=1, new_uuid=lambda: bytes(16), config_of=lambda _: CONFIG
    )
    manager.open(None)
    manager.load(NOW_MS)
    for index in (0, 1):
        log = manager.get_or_create(T0._replace(partition=index), TOPIC_ID, now_ms=NOW_MS)
        for count in range(40):
            put(log, b"k%d" % (count % 3), b"%d" % count)
        log.flush()
    list(manager.close_logs())
    manager.finish_shutdown()
    manager = LogManager(
        machine.files, ["/data", "/more"], node_id=1, new_uuid=lambda: bytes(16), config_of=lambda _: CONFIG
    )
    manager.open(None)
    for log in manager.load(NOW_MS):
        log.update_high_watermark(log.log_end_offset)
        log.local.forget_files()
    machine.disk.faults = [Fault("open", error, "/data/t-0/00000000000000000000.log")]
    failed: list[tuple[str, bool]] = []
    cleaner = LogCleanerManager(manager)
    candidate = cleaner.next_log(
        NOW_MS, lambda directory, problem: failed.append((directory.path, isinstance(problem, OutOfResources)))
    )
    assert failed == [("/data", error == errno.EMFILE)]
    assert candidate is not None
    assert candidate.log.directory == "/more/t-1"
