"""Loading a log from whatever a crash left: what is kept, what is cut, and what is said about it."""

from __future__ import annotations

import pytest

from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.storage.checkpoints import read_file, write_file
from kraft.storage.log_config import LogConfig
from kraft.storage.unified_log import UnifiedLog
from tests.unit.storage.cleaner.cleaning import clean
from tests.unit.storage.support import DIRECTORY, NOW_MS, Machine, batch_of, content, found_by_time

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=80)


def written(machine: Machine, count: int = 20) -> UnifiedLog:
    log = machine.log(CONFIG)
    for index in range(count):
        log.append_as_leader(
            batch_of(b"%02d" % index * 20, timestamp=NOW_MS + index), index // 8, now_ms=NOW_MS + index
        )
    return log


def names(machine: Machine, suffix: str = "") -> list[str]:
    return [name for name in machine.files.list_directory(DIRECTORY) if name.endswith(suffix)]


def events(log: UnifiedLog) -> str:
    assert log.load_report is not None
    return "\n".join(log.load_report.events)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_killed_process_loses_none_of_its_written_records(machine: Machine) -> None:
    before = content(written(machine))
    machine.kill()
    log = machine.log(CONFIG)
    assert content(log) == before
    assert log.leader_epoch_cache.entries == ((0, 0), (1, 8), (2, 16))
    assert found_by_time(log, NOW_MS + 13) == (NOW_MS + 13, 13, 1)


@pytest.mark.parametrize("cut", range(1, 100, 7))
def test_a_torn_tail_is_truncated_to_the_last_whole_batch(machine: Machine, cut: int) -> None:
    log = written(machine)
    path, size = log.active_segment.path(".log"), log.active_segment.size
    whole = [entry for entry in content(log) if entry[0] < 19]
    machine.files.open(path).truncate(size - cut)
    machine.kill()
    log = machine.log(CONFIG)
    assert content(log) == whole
    assert "cut" in events(log)
    assert log.append_as_leader(batch_of(b"x"), 3, now_ms=NOW_MS).first_offset == 19


def test_a_corrupt_batch_truncates_the_log_and_drops_later_segments(machine: Machine) -> None:
    log = written(machine)
    segment = log.segments[1]
    machine.files.open(segment.path(".log")).pwrite(b"?", 70)
    machine.kill()
    log = machine.log(CONFIG)
    assert [offset for offset, _, _ in content(log)] == list(range(segment.base_offset))
    assert "CRC" in events(log)
    assert "damaged at position" in events(log)
    assert log.log_end_offset == segment.base_offset


def test_records_below_the_recovery_point_are_not_read_again(machine: Machine) -> None:
    written(machine).flush()
    machine.kill()
    log = machine.log(CONFIG, recovery_point=20)
    assert log.load_report is not None
    assert log.load_report.segments_recovered == 1  # the active one, which the recovery point lies in


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd", "impossible"])
def test_an_implausible_index_is_rebuilt(machine: Machine, suffix: str, damage: str) -> None:
    log = written(machine)
    log.close()
    good = read_file(machine.files, f"{DIRECTORY}/00000000000000000000{suffix}")
    path = f"{DIRECTORY}/00000000000000000000{suffix}"
    if damage == "missing":
        machine.files.remove(path)
    else:
        write_file(machine.files, path, b"odd" if damage == "odd" else b"\xff" * (8 if suffix == ".index" else 12))
    log = machine.log(CONFIG, clean=True)
    assert "rebuilt the index" in events(log)
    assert [offset for offset, _, _ in content(log)] == list(range(20))
    log.close()
    assert read_file(machine.files, path) == good


def test_leftover_files_of_interrupted_work_are_removed(machine: Machine) -> None:
    before = content(written(machine))
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000004.index.cleaned",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000777.index",
    ):
        write_file(machine.files, f"{DIRECTORY}/{name}", b"rest")
    machine.kill()
    assert content(machine.log(CONFIG)) == before
    assert not [name for name in names(machine) if name.endswith((".deleted", ".cleaned", ".tmp", "777.index"))]


def swap(machine: Machine, log: UnifiedLog, count: int, first: int = 0) -> None:
    """What the cleaner leaves between its two renames: one segment that replaces `count` from the one at `first` on."""
    segments = log.segments[first : first + count]
    merged = b"".join(segment.open_log().file.pread(segment.size, 0) for segment in segments)
    write_file(machine.files, f"{segments[0].path('.log')}.swap", merged)


def test_a_committed_segment_swap_is_finished_at_startup(machine: Machine) -> None:
    log = written(machine)
    before, third = content(log), log.segments[2].base_offset
    log.flush()
    swap(machine, log, 2)
    machine.kill()
    log = machine.log(CONFIG, recovery_point=20)
    assert content(log) == before
    assert [segment.base_offset for segment in log.segments[:2]] == [0, third]
    assert not names(machine, ".swap")


def test_an_uncommitted_segment_swap_is_undone_at_startup(machine: Machine) -> None:
    log = written(machine)
    before, bases = content(log), [segment.base_offset for segment in log.segments]
    swap(machine, log, 2)
    write_file(machine.files, f"{DIRECTORY}/00000000000000000000.index.cleaned", b"")
    machine.kill()
    log = machine.log(CONFIG)
    assert (content(log), [segment.base_offset for segment in log.segments]) == (before, bases)


@pytest.mark.parametrize("gone", [(1,), (1, 2), (2,)])
def test_a_swap_that_already_deletes_its_originals_is_finished_despite_leftovers_of_earlier_cleanings(
    machine: Machine, gone: tuple[int, ...]
) -> None:
    """Names reach the disk in any order. The segment that was being cleaned earlier may be left alone now: damaged."""
    log = written(machine)
    before, bases = content(log), [segment.base_offset for segment in log.segments]
    log.flush()
    swap(machine, log, 2, first=1)
    write_file(machine.files, f"{DIRECTORY}/00000000000000000000.log.cleaned", b"")
    for index in gone:
        path = log.segments[index].path(".log")
        machine.files.rename(path, f"{path}.deleted")
    machine.kill()
    log = machine.log(CONFIG, recovery_point=20)
    assert content(log) == before
    assert [segment.base_offset for segment in log.segments] == [*bases[:2], *bases[3:]]
    assert not names(machine, ".swap")
    assert not names(machine, ".cleaned")


def test_a_log_that_ends_before_its_start_offset_is_restarted_at_the_start_offset(machine: Machine) -> None:
    written(machine, 3)
    machine.kill()
    log = machine.log(CONFIG, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (50, 50, 0)
    machine.kill()
    assert machine.log(CONFIG).log_end_offset == 50


def test_a_lost_segment_ends_the_log_before_the_gap(machine: Machine) -> None:
    log = written(machine)
    gone = log.segments[1]
    machine.kill()
    machine.files.remove(gone.path(".log").replace("//", "/"))
    log = machine.log(CONFIG)
    assert log.log_end_offset == gone.base_offset


def test_a_damaged_epoch_checkpoint_is_rebuilt_from_the_batches(machine: Machine) -> None:
    log = written(machine)
    log.close()
    write_file(machine.files, f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n5\n1 1\n")
    assert machine.log(CONFIG, clean=True).leader_epoch_cache.entries == ((0, 0), (1, 8), (2, 16))


def test_a_clean_shutdown_marker_is_ignored_when_the_log_has_a_torn_tail(machine: Machine) -> None:
    log = written(machine)
    path = log.active_segment.path(".log")
    log.close()
    machine.files.open(path).append([b"torn"])
    log = machine.log(CONFIG, clean=True)
    assert log.log_end_offset == 20
    assert "belies" in events(log) or "does not end" in events(log)


def test_the_epochs_of_the_batches_replace_stale_epochs_of_the_checkpoint(machine: Machine) -> None:
    written(machine)
    write_file(machine.files, f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n2\n0 0\n5 3\n")
    machine.kill()
    assert machine.log(CONFIG).leader_epoch_cache.entries == ((0, 0), (1, 8), (2, 16))


@pytest.mark.parametrize("clean", [False, True])
def test_epochs_that_start_at_or_beyond_the_log_end_are_removed(machine: Machine, clean: bool) -> None:
    """The checkpoint may have outlived the records of its last epochs: whoever compares logs would believe them."""
    log = written(machine)
    log.close()
    write_file(machine.files, f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n5\n0 0\n1 8\n2 16\n3 20\n4 25\n")
    machine.kill()
    loaded = machine.log(CONFIG, clean=clean, recovery_point=20)
    assert loaded.leader_epoch_cache.entries == ((0, 0), (1, 8), (2, 16))


@pytest.mark.parametrize("seed", range(12))
def test_a_segment_missing_at_load_does_not_reappear_after_a_power_loss(seed: int) -> None:
    machine = Machine(seed)
    log = written(machine)
    log.flush()
    last = log.active_segment
    machine.files.remove(last.path(".log"))  # as by a truncation that died before its directory sync
    machine.kill()
    log = machine.log(CONFIG)
    assert log.log_end_offset == last.base_offset
    log.append_as_leader(batch_of(b"new"), 3, now_ms=NOW_MS)
    machine.power_off()
    assert machine.log(CONFIG).log_end_offset in (last.base_offset, last.base_offset + 1)


@pytest.mark.parametrize("seed", range(12))
def test_a_power_loss_after_retention_keeps_the_log_offsets(seed: int) -> None:
    machine = Machine(seed)
    config = LogConfig(segment_bytes=400, retention_bytes=0)
    log = machine.log(config)
    for _ in range(9):
        log.append_as_leader(batch_of(b"v" * 40), 0, now_ms=NOW_MS)
    log.flush()
    log.update_high_watermark(9)
    log.delete_old_segments(NOW_MS)
    assert (log.log_start_offset, log.size) == (9, 0)
    machine.power_off()
    assert machine.log(config).log_end_offset == 9


def test_an_offset_gap_in_the_leaders_records_does_not_count_as_a_lost_segment(machine: Machine) -> None:
    log = machine.log(CONFIG)
    for offset in (0, 1, 7, 8, 40, 41):
        batch = build_batch([Record(offset, NOW_MS, b"k", b"v" * 200)], leader_epoch=0)
        log.append_as_follower(batch, now_ms=NOW_MS)
    assert len(log.segments) > 2
    before = content(log)
    machine.kill()
    log = machine.log(CONFIG)
    assert (content(log), log.log_end_offset) == (before, 42)


def test_an_epoch_keeps_its_start_offset_over_a_restart_though_cleaning_removed_its_first_records(
    machine: Machine,
) -> None:
    config = LogConfig(cleanup_policy=("compact", "delete"), index_interval_bytes=80)
    log = machine.log(config)
    for epoch, key in ((5, b"a"), (5, b"b"), (5, b"c"), (6, b"same"), (6, b"same"), (6, b"other")):
        log.append_as_leader(batch_of(b"v", keys=(key,)), epoch, now_ms=NOW_MS)
    log.update_high_watermark(6)
    assert clean(log) == 6
    log.delete_records_before(1)
    known = log.leader_epoch_cache.entries
    assert (known, content(log)[2][0]) == (((5, 1), (6, 3)), 4)
    log.close()
    log = machine.log(config, clean=True, recovery_point=6, log_start_offset=1)
    assert log.leader_epoch_cache.entries == known
    assert log.end_offset_for_epoch(5) == (3, 5)
