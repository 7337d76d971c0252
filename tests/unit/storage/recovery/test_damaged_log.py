"""A log that was damaged in the middle: what lies behind the damage is kept aside, and it is told what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraft.storage.checkpoints import replace_file
from kraft.storage.log_config import LogConfig
from kraft.storage.recovery.damaged_log import (
    ACCEPTED,
    DAMAGED_FOLDER,
    END_UNKNOWN,
    FETCHED,
    DamageReport,
    read_damage,
    write_damage,
)
from kraft.storage.unified_log import UnifiedLog
from kraft.world.steps import Steps
from tests.unit.storage.support import DIRECTORY, NOW_MS, Machine, batch_of, content

CONFIG = LogConfig(segment_bytes=500)
COUNT = 20


@pytest.fixture
def machine() -> Machine:
    return Machine()


def written(machine: Machine) -> UnifiedLog:
    log = machine.log(CONFIG)
    for index in range(COUNT):
        log.append_as_leader(batch_of(b"%02d" % index * 20), 0, now_ms=NOW_MS)
    return log


def flip(machine: Machine, log: UnifiedLog, offset: int, byte: int = 70) -> bytes:
    """One bit of the batch at `offset`, and the bytes from there on in its file before that."""
    segment = next(each for each in reversed(log.segments) if each.base_offset <= offset)
    span = segment.find(offset)
    assert span is not None
    file = machine.files.open(segment.path(".log"))
    behind = file.pread(segment.size, span.position)
    file.pwrite(bytes((file.pread(1, span.position + byte)[0] ^ 4,)), span.position + byte)
    file.sync()
    return behind


def kept(machine: Machine) -> dict[str, bytes]:
    folder = f"{DIRECTORY}/damaged"
    if not machine.files.exists(folder):
        return {}
    names = [name for name in machine.files.list_directory(folder) if ".log" in name]
    return {name: machine.files.open(f"{folder}/{name}").pread(1 << 20, 0) for name in names}


@pytest.mark.parametrize("offset", range(COUNT - 1))
@pytest.mark.parametrize("byte", [3, 9, 16, 20, 30, 70])
def test_records_behind_a_flipped_bit_are_kept_aside(machine: Machine, offset: int, byte: int) -> None:
    """The last batch of a segment can only be told from a torn one where its length is right."""
    log = written(machine)
    segments = list(log.segments)
    is_last_of_segment = any(segment.base_offset == offset + 1 for segment in segments)
    flip(machine, log, offset, byte)
    machine.kill()
    log = machine.log(CONFIG)
    if byte == 3 and log.log_end_offset > offset:
        return  # The base offset has no checksum; nobody but the next batch could tell.
    assert content(log) == [(index, None, b"%02d" % index * 20) for index in range(offset)]
    if is_last_of_segment and byte == 9:
        assert log.damage is None
        return
    assert log.damage is not None
    assert (log.damage.start_offset, log.damage.known_end_offset, log.damage.known_epoch) == (offset, COUNT, 0)
    assert log.damage.kept_bytes == sum(map(len, kept(machine).values()))
    assert log.append_as_leader(batch_of(b"x"), 1, now_ms=NOW_MS).first_offset == offset


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("has_index", [False, True])
def test_damage_in_a_flushed_batch_is_not_treated_as_a_torn_write(
    machine: Machine, clean: bool, has_index: bool
) -> None:
    """The last one of a closed segment is looked at where that has lost an index, and the last one of the log where
    nobody closed it."""
    log = written(machine)
    log.flush()
    closed = log.segments[1]
    offset = COUNT - 1 if has_index else log.segments[2].base_offset - 1
    flip(machine, log, offset, 9)
    if not has_index:
        machine.files.remove(closed.path(".index"))
    machine.kill()
    log = machine.log(CONFIG, recovery_point=COUNT, clean=clean)
    assert content(log) == [(index, None, b"%02d" % index * 20) for index in range(offset)]
    assert log.damage is not None
    assert (log.damage.start_offset, log.damage.known_end_offset) == (offset, COUNT)
    assert log.damage.kept_bytes == sum(map(len, kept(machine).values())) > 0


def test_a_new_damage_report_keeps_the_facts_of_an_earlier_report_when_an_index_is_lost(machine: Machine) -> None:
    log = written(machine)
    flip(machine, log, 9)
    machine.kill()
    log = machine.log(CONFIG)
    log.flush()
    flip(machine, log, 1)
    machine.files.remove(log.segments[0].path(".index"))
    machine.kill()
    log = machine.log(CONFIG, recovery_point=9, now_ms=NOW_MS + 1000)
    assert log.damage is not None
    assert (log.damage.since_ms, log.damage.start_offset, log.damage.known_end_offset) == (NOW_MS, 1, COUNT)
    assert log.damage.reason.count("position ") == 2
    assert log.damage.kept_bytes == sum(map(len, kept(machine).values()))


@pytest.mark.parametrize("text", ["{", '{"state": "waiting"}', None])
def test_an_unreadable_damage_report_counts_as_unsettled(machine: Machine, text: str | None) -> None:
    log = written(machine)
    flip(machine, log, 9)
    machine.kill()
    log = machine.log(CONFIG)
    assert log.damage is not None
    if text is None:
        write_damage(machine.files, log.directory, replace(log.damage, state="of another version"))
    else:
        replace_file(machine.files, f"{log.directory}/{DAMAGED_FOLDER}/report.json", text.encode())
    machine.kill()
    log = machine.log(CONFIG)
    assert log.damage is not None
    assert log.damage.known_end_offset == (COUNT if text is None else END_UNKNOWN)


def test_every_byte_behind_the_damage_is_kept(machine: Machine) -> None:
    log = written(machine)
    later = [segment.base_offset for segment in log.segments if segment.base_offset > 4]
    whole = {segment.base_offset: segment.open_log().file.pread(segment.size, 0) for segment in log.segments}
    behind = flip(machine, log, 4)
    machine.kill()
    log = machine.log(CONFIG)
    files = kept(machine)
    assert sorted(files)[1:] == [f"{base:020d}.log" for base in later]
    assert all(files[f"{base:020d}.log"] == whole[base] for base in later)
    (tail,) = [data for name, data in files.items() if ".from-" in name]
    assert len(tail) == len(behind)
    assert sum(a != b for a, b in zip(tail, behind, strict=True)) == 1
    assert log.load_report is not None
    assert "Whole batches follow, up to offset 20" in log.load_report.events[-1]


def test_a_torn_tail_is_not_reported_as_damage(machine: Machine) -> None:
    """Neither one that ends early nor one whose sectors never reached the disk."""
    for zeroes in (False, True):
        log = written(machine)
        segment = log.active_segment
        file = machine.files.open(segment.path(".log"))
        span = segment.find(COUNT - 1)
        assert span is not None
        file.truncate(span.position + 30)
        if zeroes:
            file.append((bytes(span.size - 30),))
        machine.kill()
        log = machine.log(CONFIG)
        assert (log.log_end_offset, log.damage, kept(machine)) == (COUNT - 1, None, {})
        log.truncate_fully_and_start_at(0, NOW_MS)


@pytest.mark.parametrize("state", [FETCHED, ACCEPTED])
def test_damage_is_reported_at_each_startup_until_it_is_settled(machine: Machine, state: str) -> None:
    flip(machine, written(machine), 4)
    for _ in range(2):
        machine.kill()
        log = machine.log(CONFIG)
        assert isinstance(log.damage, DamageReport)
        assert (log.damage.start_offset, log.log_end_offset) == (4, 4)
    log.settle_damage(state)
    assert log.damage is None
    machine.power_off()
    assert machine.log(CONFIG).damage is None
    report = read_damage(machine.files, DIRECTORY)
    assert report is not None
    assert report.state == state
    assert kept(machine)


def test_a_crash_during_startup_loses_no_damage_report() -> None:
    """Whatever moment it stops at, also where the power fails then."""
    for steps in range(40):
        machine = Machine(steps)
        log = written(machine)
        log.flush()
        machine.files.sync_directory("/data")
        behind = flip(machine, log, 4)
        machine.kill()
        run_some(machine.opening(CONFIG), steps)
        machine.power_off()
        log = machine.log(CONFIG)
        assert log.damage is not None, steps
        assert (log.damage.start_offset, log.damage.known_end_offset, log.log_end_offset) == (4, COUNT, 4), steps
        assert [len(data) for name, data in kept(machine).items() if ".from-" in name] == [len(behind)], steps


def run_some(steps: Steps[UnifiedLog], count: int) -> None:
    for _, job in zip(range(count), steps, strict=False):
        if job is not None:
            job()
