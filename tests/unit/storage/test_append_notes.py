"""What an append has to note once its bytes are in the file - ends, index entries - must not fail; where it does,
the log is not used any more."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from kraft.common.errors import StorageError
from kraft.storage.file_cache import FileCache
from kraft.storage.indexes.time_index import TimeIndex
from kraft.storage.log_config import LogConfig
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated.disk import Fault
from tests.unit.storage.support import DIRECTORY, NOW_MS, Machine, batch_of, content

EVERY_BATCH = replace(LogConfig(), index_interval_bytes=0)
SPILLED_AFTER = 600


def append(log: UnifiedLog, value: bytes) -> int:
    return log.append_as_leader(batch_of(value), 0, now_ms=NOW_MS).first_offset


def test_an_index_without_a_descriptor_is_kept_in_memory() -> None:
    machine = Machine()
    log = machine.log(EVERY_BATCH)
    fault = Fault("open", errno.EMFILE, ".index", times=1)
    machine.disk.faults.append(fault)
    expected = [(append(log, b"%d" % number), None, b"%d" % number) for number in range(SPILLED_AFTER)]
    assert fault.times == 0, "it did not come to the file"
    assert content(log) == expected
    machine.kill()
    assert content(machine.log(EVERY_BATCH)) == expected


def test_a_log_goes_offline_when_the_disk_of_its_index_fails() -> None:
    machine = Machine()
    log = machine.log(EVERY_BATCH)
    machine.disk.faults.append(Fault("append", errno.EIO, ".index"))
    with pytest.raises(StorageError, match="could not be recorded"):
        for number in range(SPILLED_AFTER):
            append(log, b"%d" % number)


def test_the_end_of_an_index_is_cached_after_its_first_read() -> None:
    machine = Machine()
    index = TimeIndex(FileCache(machine.files, 10), f"{DIRECTORY}.timeindex", 0)
    for number in range(5):
        index.maybe_append(number, number)
    index.spill()
    again = TimeIndex(FileCache(machine.files, 10), f"{DIRECTORY}.timeindex", 0)
    assert not again.knows_last
    assert again.last_entry() == (4, 4)
    assert again.knows_last
    machine.disk.faults.append(Fault("open", errno.EMFILE, ".timeindex", times=9))
    again.maybe_append(7, 7)
    assert again.last_entry() == (7, 7)
    machine.disk.faults.clear()
    again.truncate_to(6)
    assert (again.knows_last, again.last_entry()) == (False, (4, 4))


def test_no_record_is_appended_behind_unknown_bytes() -> None:
    machine = Machine()
    log = machine.log()
    append(log, b"a")
    log.active_segment.open_log().file.append((b"somebody else's",))
    with pytest.raises(StorageError, match="but its log ends at"):
        append(log, b"b")
