"""One bit that turned over in a file that was whole: nobody passes over what is behind it, and nobody gives it a CRC
that holds."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kraft.common.errors import CorruptData
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.storage.batch_walk import find_batch
from kraft.storage.cleaner.cleaner_manager import LogCleanerManager
from kraft.storage.cleaner.log_cleaner import UNCLEANABLE_RETRY_MS, Uncleanable
from kraft.storage.log_files import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, PRODUCER_SNAPSHOT_SUFFIX, offset_file_name
from kraft.storage.log_segment import LARGE_BATCH_BYTES, LogSegment
from kraft.storage.unified_log import UnifiedLog
from kraft.world.steps import at_once
from tests.unit.storage.cleaner.cleaning import cleaning_of, dirty_manager
from tests.unit.storage.support import DIRECTORY, NOW_MS, Machine, batch_of, content, found_by_time

LENGTH = 10
"""Of the batch header: the byte that counts 256s."""
VALUE = -2
"""From a batch's end: the last byte of its last record's value."""


@pytest.fixture
def machine() -> Machine:
    return Machine()


def turn_over(machine: Machine, segment: LogSegment, byte: int, bit: int) -> int:
    """One bit of the second batch of `segment`; the batch's offset."""
    file = machine.files.open(segment.path(LOG_SUFFIX))
    first, second = list(batches(file.pread(segment.size, 0)))[:2]
    position = first.size + byte % second.size
    file.pwrite(bytes((file.pread(1, position)[0] ^ bit,)), position)
    return second.base_offset


def written(machine: Machine, producer_id: int = -1) -> UnifiedLog:
    log = machine.log()
    for index in range(9):
        produced = batch_of(
            b"%d" % index * 10,
            timestamp=NOW_MS + index,
            producer_id=producer_id,
            producer_epoch=min(producer_id, 0),
            base_sequence=index,
        )
        log.append_as_leader(produced, 0, now_ms=NOW_MS)
        if index % 3 == 2:
            log.roll(NOW_MS)
    log.update_high_watermark(9)
    return log


def copied(log: UnifiedLog) -> UnifiedLog:
    """What a new replica makes of what it is sent."""
    copy = Machine().log()
    while copy.append_as_follower(log.read(copy.log_end_offset, 1 << 20).read(), now_ms=NOW_MS) is not None:
        pass
    return copy


@pytest.mark.parametrize("bit", [0x40, 0x80])
@pytest.mark.parametrize(
    "look",
    [
        content,
        copied,
        lambda log: found_by_time(log, NOW_MS + 5),
        lambda log: log.read(5, 1 << 20),
        lambda log: log.truncate_to(5, NOW_MS),
    ],
)
def test_a_read_does_not_skip_records_hidden_by_a_damaged_length(
    machine: Machine, look: Callable[[UnifiedLog], object], bit: int
) -> None:
    log = written(machine)
    assert turn_over(machine, log.segments[1], LENGTH, bit) == 4
    segments = list(log.segments)
    with pytest.raises(CorruptData, match=r"0000003\.log"):
        look(log)
    assert (log.segments, log.log_end_offset) == (segments, 9)
    assert [offset for offset, _, _ in content(log, 0, 3)] == [0, 1, 2]
    assert [offset for offset, _, _ in content(log, 6)] == [6, 7, 8]


def test_a_read_does_not_skip_records_hidden_by_a_damaged_length_near_the_end(machine: Machine) -> None:
    segment = written(machine).segments[0]
    file = segment.open_log().file
    whole = RecordBatch(file.pread(segment.size, 0)).size
    with pytest.raises(CorruptData):
        find_batch(file, 0, whole + 5, 1)
    with pytest.raises(CorruptData):
        find_batch(file, 0, segment.size + 100, 3)
    assert find_batch(file, 0, whole, 1) is None
    assert find_batch(file, 0, segment.size, 3) is None


def test_a_damaged_record_is_not_returned_by_a_lookup_by_time(machine: Machine) -> None:
    log = written(machine)
    turn_over(machine, log.segments[1], 65, 0x10)
    with pytest.raises(CorruptData, match="CRC"):
        found_by_time(log, NOW_MS + 4)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_damaged_below_its_recovery_point_is_loaded_and_the_damage_logged(machine: Machine, clean: bool) -> None:
    log = written(machine, producer_id=7)
    log.flush()
    log.close()
    turn_over(machine, log.segments[1], LENGTH, 0x40)
    for offset in (6, 9):
        machine.files.remove(f"{DIRECTORY}/{offset_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX)}")
    machine.kill()
    log = machine.log(clean=clean, recovery_point=9)
    assert log.log_end_offset == 9
    assert log.load_report is not None
    assert [event for event in log.load_report.events if "no whole batch" in event]
    assert log.producers.producers[7].last_sequence == 8


@pytest.mark.parametrize(("byte", "bit"), [(LENGTH, 0x40), (VALUE, 0x01)])
def test_cleaning_neither_reseals_a_damaged_batch_nor_removes_the_records_it_hides(
    machine: Machine, byte: int, bit: int
) -> None:
    manager, log = dirty_manager(machine)
    damaged = log.segments[1]
    turn_over(machine, damaged, byte, bit)
    before = damaged.open_log().file.pread(damaged.size, 0)
    cleaner = LogCleanerManager(manager)
    stats = at_once(cleaning_of(cleaner)[1])
    assert stats.kept >= 1
    assert all(re.search(r"no whole batch|CRC", note) for note in stats.kept_notes)
    assert damaged in log.segments
    assert damaged.open_log().file.pread(damaged.size, 0) == before
    # The rest is cleaned, and nothing is left to do.
    assert stats.records_kept < stats.records_read
    last = {key: value for _, key, value in content(log, damaged_end(log, damaged))}
    assert last == {b"k%d" % (index % 3): b"%d" % index for index in range(37, 40)}
    assert cleaner.next_log(NOW_MS) is None


def damaged_end(log: UnifiedLog, damaged: LogSegment) -> int:
    return log.segments[log.segments.index(damaged) + 1].base_offset


def test_a_damaged_index_delays_a_cleaning_but_does_not_prevent_it_permanently(machine: Machine) -> None:
    manager, log = dirty_manager(machine)
    log.close()
    path = log.segments[1].path(OFFSET_INDEX_SUFFIX)
    machine.files.open(path).append((b"?",))
    log.segments[1]._offset_index = None
    cleaner = LogCleanerManager(manager)
    with pytest.raises(Uncleanable):
        at_once(cleaning_of(cleaner)[1])
    assert cleaner.next_log(NOW_MS + UNCLEANABLE_RETRY_MS - 1) is None
    assert cleaner.next_log(NOW_MS + UNCLEANABLE_RETRY_MS) is not None


def large_batches(machine: Machine) -> LogSegment:
    """A segment of five batches of two records, of which all but the first are in the index. The last one is found
    without it."""
    log = machine.log()
    for _ in range(5):
        log.append_as_leader(batch_of(bytes(LARGE_BATCH_BYTES), bytes(LARGE_BATCH_BYTES)), 0, now_ms=NOW_MS)
    [segment] = log.segments
    assert [segment.offset_index.lookup(offset)[0] for offset in (3, 5, 7, 9)] == [3, 5, 7, 9]
    return segment


def found(segment: LogSegment, offset: int) -> tuple[int, int]:
    span = segment.find(offset)
    assert span is not None
    return span.base_offset, span.last_offset


def test_a_large_batch_whose_end_is_lost_is_not_accepted_as_whole(machine: Machine) -> None:
    segment = large_batches(machine)
    segment.size -= 1
    assert found(segment, 6) == (6, 7)
    with pytest.raises(CorruptData):
        segment.find(8)


def test_an_index_entry_for_an_earlier_batch_hides_no_records(machine: Machine) -> None:
    segment = large_batches(machine)
    index = segment.offset_index
    positions = [index.lookup(offset)[1] for offset in (3, 5)]
    index.truncate_to_entries(0)
    index.append(3, positions[0])
    index.append(7, positions[1])
    assert found(segment, 6) == (6, 7)
