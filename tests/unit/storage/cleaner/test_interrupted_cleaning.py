"""A log changes, or its disk fails, in the middle of a cleaning: nothing is lost, nothing comes back, and the right
one is blamed."""

from __future__ import annotations

import contextlib
import errno

import pytest

from kraft.common.errors import OutOfResources, StorageError
from kraft.storage.checkpoints import read_offset_checkpoint
from kraft.storage.cleaner.cleaner_manager import LogCleanerManager
from kraft.storage.cleaner.log_cleaner import Cleaning, CleaningAborted, CleaningWork
from kraft.storage.cleaner.log_to_clean import log_to_clean
from kraft.storage.log_files import RECOVERY_POINT_CHECKPOINT
from kraft.world.steps import Job, Steps, at_once
from tests.unit.storage.cleaner.cleaning import CONFIG, about_to_clean, cleaning_of, manager_of, pauses, put, run_some
from tests.unit.storage.support import DIRECTORY, NOW_MS, T0, TOPIC_ID, Machine, content


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.mark.parametrize("steps_before", [10, 38])
def test_a_truncation_aborts_the_cleaning_and_leaves_no_files_behind(machine: Machine, steps_before: int) -> None:
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
        at_once(steps)
    assert {key: value for _, key, value in content(log)} == before
    assert not [name for name in machine.files.list_directory(DIRECTORY) if "cleaned" in name or "swap" in name]


@pytest.mark.parametrize("power_lost", [False, True])
def test_records_truncated_at_any_pause_of_a_cleaning_do_not_reappear(power_lost: bool) -> None:
    for pause in range(1, pauses(Machine())):
        machine = Machine(seed=pause)
        manager, log, steps = about_to_clean(machine)
        assert run_some(steps, pause)
        manager.truncate_to(log, 20, now_ms=NOW_MS)
        left = content(log)
        with contextlib.suppress(CleaningAborted):
            at_once(steps)
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


def test_deleting_a_log_at_any_pause_of_its_cleaning_does_not_fail_the_disk() -> None:
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
            at_once(rest())
        except CleaningAborted:
            aborted += 1
        manager.release()
    assert aborted > 10
    assert jobs > 4


def test_recovery_points_are_durable_before_a_cleaning_replaces_segments_despite_a_pending_checkpoint(
    machine: Machine,
) -> None:
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
    assert read_offset_checkpoint(machine.files, f"/data/{RECOVERY_POINT_CHECKPOINT}") == {
        T0: log.flush_state.recovery_point_to_keep(log.log_end_offset)
    }


class FailsOnce:
    """The `count`-th call of `operation` in `within` raises; those before and after do what they always do."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, machine: Machine, operation: str, within: str, count: int, error: int
    ) -> None:
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
def test_a_failure_after_a_cleaning_started_its_swap_fails_the_disk_and_loses_no_records(
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
        at_once(steps)
    assert not failing.left
    assert not isinstance(raised.value, OutOfResources), "another cleaning would be tried"
    if any(segment.suffix for segment in log.segments):
        with pytest.raises(StorageError, match="has not finished"):  # Should somebody try all the same.
            at_once(Cleaning(candidate, now_ms=NOW_MS).run())
    manager.directory_failed("/data", str(raised.value))
    manager.release()
    machine.power_off() if power_lost else machine.kill()
    again = manager_of(machine)
    (loaded,) = again.load(NOW_MS)
    assert {key: value for _, key, value in content(loaded)} == before
    assert (loaded.log_start_offset, loaded.log_end_offset) == (0, 40)
    again.release()


def test_a_failed_sync_of_a_cleaned_copy_is_a_storage_error_even_after_a_truncation(machine: Machine) -> None:
    manager, log, steps = about_to_clean(machine)
    while not isinstance(job := next(steps), CleaningWork):
        if job is not None:
            job()
    manager.truncate_to(log, 39, now_ms=NOW_MS)
    with pytest.raises(StorageError):
        steps.throw(OSError(errno.EIO, "the sync failed"))
