"""Reading a segment back in steps (kraft/storage/recovery/segment_recovery.py)."""

from __future__ import annotations

import pytest

from kraft.storage.log_config import LogConfig
from kraft.storage.recovery import segment_recovery
from kraft.storage.recovery.segment_recovery import BATCHES_PER_STEP
from kraft.storage.unified_log import UnifiedLog
from kraft.world.steps import Job, Steps
from tests.unit.storage.support import DIRECTORY, NOW_MS, T0, Machine, batch_of, content


def opening(machine: Machine) -> Steps[UnifiedLog]:
    return UnifiedLog.open(machine.files, DIRECTORY, T0, LogConfig(), now_ms=NOW_MS)


def jobs_and_pauses(steps: Steps[UnifiedLog]) -> tuple[UnifiedLog, list[Job], int]:
    jobs, pauses = [], 0
    while True:
        try:
            job = next(steps)
        except StopIteration as end:
            return end.value, jobs, pauses
        if job is None:
            pauses += 1
        else:
            jobs.append(job)
            job()


def written(machine: Machine, batches: int, size: int = 10) -> list[tuple[int, bytes | None, bytes | None]]:
    log = machine.log()
    for _ in range(batches):
        log.append_as_leader(batch_of(b"v" * size), 0, now_ms=NOW_MS)
    found = content(log)
    machine.kill()
    return found


def test_a_segment_is_recovered_in_steps() -> None:
    machine = Machine()
    before = written(machine, 10 * BATCHES_PER_STEP)
    log, jobs, pauses = jobs_and_pauses(opening(machine))
    assert content(log) == before
    assert pauses >= 10
    assert len(jobs) == 1, "the sync of the names"


def test_recovery_of_large_batches_takes_short_steps_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_recovery, "BYTES_PER_STEP", 1000)
    machine = Machine()
    written(machine, 20, size=600)
    _, _, pauses = jobs_and_pauses(opening(machine))
    assert pauses == 10


def test_recovery_reads_uncached_pages_ahead_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_recovery, "AHEAD_BYTES", 4000)
    monkeypatch.setattr(segment_recovery, "READ_BYTES", 1000)
    machine = Machine()
    before = written(machine, 30, size=600)
    machine.disk.cold_rate = 1.0
    log, jobs, _ = jobs_and_pauses(opening(machine))
    assert content(log) == before
    assert len(jobs) == 1 + 30 * 670 // 4000


def test_recovery_truncates_a_torn_tail_in_a_worker() -> None:
    machine = Machine()
    before = written(machine, 3)
    file = machine.files.open(f"{DIRECTORY}/{0:020d}.log")
    file.truncate(file.size() - 5)
    file.close()
    log, jobs, _ = jobs_and_pauses(opening(machine))
    assert content(log) == before[:2]
    assert len(jobs) == 2, "the sync of the cut, and that of the names"
