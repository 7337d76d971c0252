"""How much of a log is durable: a flush counts only for the log as it was when the flush began."""

from __future__ import annotations

import pytest

from kraft.storage.flush_state import CLOSED_FLUSH_MS, NOT_CLOSED
from kraft.storage.log_config import LogConfig
from kraft.storage.log_validator import AppendOrigin
from kraft.storage.unified_log import UnifiedLog
from tests.unit.storage.support import DIRECTORY, NOW_MS, Machine, batch_of


@pytest.fixture
def machine() -> Machine:
    return Machine()


def append(log: UnifiedLog, count: int = 1) -> None:
    for _ in range(count):
        log.append_as_leader(batch_of(b"v"), 0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)


def test_a_flush_advances_the_recovery_point_when_it_finishes(machine: Machine) -> None:
    log = machine.log()
    append(log, 3)
    state = log.flush_state
    job = state.prepare(2, log.leader_epoch_cache, 0)
    assert job is not None
    assert state.recovery_point == 0
    job.run()
    state.finish(job, 0, NOW_MS + 5, 3)
    assert (state.recovery_point, state.last_flush_ms) == (2, NOW_MS + 5)
    assert state.prepare(2, log.leader_epoch_cache, 0) is None


def test_records_covered_by_a_finished_flush_survive_a_power_loss(machine: Machine) -> None:
    log = machine.log()
    append(log, 3)
    job = log.flush_state.prepare(3, log.leader_epoch_cache, 0)
    assert job is not None
    job.run()
    machine.power_off()
    assert machine.log().log_end_offset == 3
    assert machine.files.exists(f"{DIRECTORY}/leader-epoch-checkpoint")


def test_a_flush_started_before_a_truncation_does_not_advance_the_recovery_point_after_it(machine: Machine) -> None:
    log = machine.log()
    append(log, 3)
    state = log.flush_state
    job = state.prepare(3, log.leader_epoch_cache, generation=0)
    assert job is not None
    job.run()
    state.truncated_to(1)
    state.finish(job, 1, NOW_MS, 3)
    assert state.recovery_point == 0


def test_a_truncation_lowers_the_recovery_point_and_never_raises_it(machine: Machine) -> None:
    log = machine.log()
    append(log, 4)
    log.flush()
    state = log.flush_state
    state.truncated_to(2)
    assert state.recovery_point == 2
    state.truncated_to(3)
    assert state.recovery_point == 2


def test_the_checkpointed_recovery_point_is_one_less_while_a_growing_segment_is_fully_flushed(machine: Machine) -> None:
    log = machine.log()
    append(log, 3)
    log.flush()
    assert log.flush_state.recovery_point_to_keep(log.log_end_offset) == 2
    append(log)
    assert log.flush_state.recovery_point_to_keep(log.log_end_offset) == 3


def test_a_flush_is_due_by_messages_or_by_time(machine: Machine) -> None:
    log = machine.log()
    state, config = log.flush_state, LogConfig(flush_messages=2, flush_ms=100)
    assert not state.is_due(0, config, NOW_MS + 1000)
    assert not state.is_due(1, config, NOW_MS + 99)
    assert state.is_due(1, config, NOW_MS + 100)
    assert state.is_due(2, config, NOW_MS)


def test_a_closed_segment_whose_roll_was_not_flushed_is_flushed_after_a_delay(machine: Machine) -> None:
    """The killed node's flush never came, the topic is not written to any more, and what is not durable is not
    compacted."""
    log = machine.log()
    append(log, 2)
    log.roll(NOW_MS)
    append(log, 1)
    machine.kill()
    log = machine.log()
    assert not log.flush_is_due(NOW_MS + CLOSED_FLUSH_MS - 1)
    assert log.flush_is_due(NOW_MS + CLOSED_FLUSH_MS)
    log.flush(2)
    assert not log.flush_is_due(NOW_MS + CLOSED_FLUSH_MS), "the active segment waits for its roll"


@pytest.mark.parametrize(("clean", "closed_at"), [(True, 5), (False, NOT_CLOSED)])
def test_after_an_unclean_shutdown_no_file_name_counts_as_durable(
    machine: Machine, clean: bool, closed_at: int
) -> None:
    log = machine.log()
    log.flush_state.loaded(3, 5, clean=clean, epochs_version=1, epochs_on_disk=True)
    assert (log.flush_state.recovery_point, log.flush_state.closed_at) == (3, closed_at)
    assert log.local.unsynced_names is log.local.unsynced_directory is not clean


def test_a_flush_beyond_the_log_end_fails_an_assertion(machine: Machine) -> None:
    """A planted defect: nothing may be called durable that was never written."""
    log = machine.log()
    append(log, 3)
    job = log.prepare_flush()
    assert job is not None
    job.up_to = 4
    job.run()
    with pytest.raises(AssertionError, match="flushed to 4, beyond 3"):
        log.finish_flush(job)


def test_a_log_with_unflushed_records_is_not_marked_as_cleanly_closed(machine: Machine) -> None:
    log = machine.log()
    append(log, 3)
    job = log.prepare_close()
    assert job is not None
    job.run()
    append(log)
    with pytest.raises(AssertionError, match="closed without a flush"):
        log.finish_close(job)
