"""What a power loss may undo is settled before anything depends on it: the order of renames, syncs of files and
syncs of directories.

A simulated disk loses such things only sometimes; the order of calls is the promise itself.
"""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kraft.common.errors import OutOfResources, StorageError
from kraft.storage.cleaner.log_to_clean import log_to_clean
from kraft.storage.log_config import LogConfig
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated.disk import Fault
from kraft.world.simulated.trace import Trace
from tests.unit.storage.cleaner.cleaning import CONFIG, clean, put
from tests.unit.storage.support import DIRECTORY, NOW_MS, Machine, batch_of

Call = tuple[str, str]


class Made(list[Any]):
    """Keeps of every port call that is appended what was done, and to which path."""

    def append(self, call: Any) -> None:
        _, _, operation, facts = call
        super().append((operation, " ".join(fact for fact in facts if isinstance(fact, str))))


class Calls(Trace):
    """Hashes nothing: the calls are to be looked at."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.waiting = Made()

    def fold(self) -> None:
        pass


@pytest.fixture
def machine() -> Machine:
    return Machine(make_trace=Calls)


def calls_from_now(machine: Machine) -> list[Call]:
    calls = machine.node.trace
    assert isinstance(calls, Calls)
    calls.waiting.clear()
    return calls.waiting  # type: ignore[return-value]  # As `Made` takes them.


def names_changed(calls: list[Call]) -> list[str]:
    """Renames by the suffixes that they give, syncs of the log's directory, and that something was done to a file;
    one word for a run of equal ones."""
    told = list[str]()
    for operation, path in calls:
        word = ""
        if operation == "rename":
            target = path.split(" ")[-1]
            word = next((suffix for suffix in (".swap", ".deleted", ".cleaned") if target.endswith(suffix)), "named")
        elif operation == "sync_directory" and path == DIRECTORY:
            word = "synced"
        elif operation in ("sync", "open", "remove"):
            word = "file"
        if word and told[-1:] != [word]:
            told.append(word)
    return told


def several_segments(machine: Machine, config: LogConfig) -> UnifiedLog:
    log = machine.log(config)
    for index in range(30):
        put(log, b"k%d" % (index % 3), b"v%d" % index)
    return log


def test_each_step_of_a_segment_swap_is_durable_before_the_next_step(machine: Machine) -> None:
    log = several_segments(machine, CONFIG)
    log.roll(NOW_MS)
    log.flush()
    calls = calls_from_now(machine)
    clean(log)
    steps = names_changed(calls)
    first = steps.index(".swap")
    assert steps[first - 1 : first + 6] == ["synced", ".swap", "synced", ".deleted", "synced", "named", "synced"]


def test_a_cleaned_copy_is_durable_before_its_rename(machine: Machine) -> None:
    log = several_segments(machine, CONFIG)
    log.roll(NOW_MS)
    log.flush()
    assert log_to_clean(log, None, NOW_MS).cleanable_bytes
    calls = calls_from_now(machine)
    clean(log)
    first = next(
        index for index, (operation, path) in enumerate(calls) if operation == "rename" and path.endswith(".swap")
    )
    synced = {path for operation, path in calls[:first] if operation == "sync" and path.endswith(".cleaned")}
    assert {path.removesuffix(".cleaned").rpartition(".")[2] for path in synced} >= {"log", "index", "timeindex"}


def test_remaining_segment_names_are_durable_before_the_oldest_segments_are_deleted(machine: Machine) -> None:
    """Else a power loss could take both, and the log would start again at an offset that clients have seen."""
    log = several_segments(machine, LogConfig(segment_bytes=300))
    assert len(log.segments) > 3
    calls = calls_from_now(machine)
    log.local.delete_first(2)
    assert [word for word in names_changed(calls) if word != "file"][:2] == ["synced", ".deleted"]


def test_a_directory_sync_that_fails_on_a_full_disk_is_a_storage_error_and_not_retried(machine: Machine) -> None:
    log = several_segments(machine, LogConfig(segment_bytes=300))
    count = len(log.segments)
    machine.disk.faults = [Fault("sync_directory", errno.ENOSPC, DIRECTORY)]
    with pytest.raises(StorageError) as caught:
        log.local.delete_first(2)
    assert not isinstance(caught.value, OutOfResources), "it would be tried again, and believed"
    assert len(log.segments) == count


def test_a_closed_segments_index_is_durable_before_the_recovery_point_advances(
    machine: Machine,
) -> None:
    log = machine.log(LogConfig(segment_bytes=100_000, index_interval_bytes=1))
    for index in range(20):
        log.append_as_leader(batch_of(b"%d" % index), 0, now_ms=NOW_MS)
    log.flush()
    closed = f"{DIRECTORY}/{log.active_segment.base_offset:020d}"
    log.roll(NOW_MS)
    log.append_as_leader(batch_of(b"after"), 0, now_ms=NOW_MS)
    calls = calls_from_now(machine)
    log.flush()
    assert {("sync", f"{closed}.index"), ("sync", f"{closed}.timeindex")} <= set(calls)
