"""What was aborted stays aborted, whatever way the process ended and whatever became of index and producers."""

from __future__ import annotations

import random

import pytest

from kraft.common.errors import CorruptData
from kraft.protocol.records.control_record import ControlRecordType
from kraft.protocol.records.record_batch import batches
from kraft.storage.cleaner.cleaner_manager import LogCleanerManager
from kraft.storage.cleaner.log_cleaner import Uncleanable
from kraft.storage.log_config import LogConfig
from kraft.storage.log_files import TRANSACTION_INDEX_SUFFIX, TRANSACTION_INDEXES_WHOLE
from kraft.storage.log_manager import LogManager
from kraft.world.steps import at_once
from tests.unit.storage.cleaner.cleaning import cleaning_of
from tests.unit.storage.producers.producer_batches import end
from tests.unit.storage.recovery.transactional_log import aborted, produce, write
from tests.unit.storage.support import DIRECTORY, NOW_MS, T0, TOPIC_ID, Machine, content, found_by_time

DAY_MS = 86_400_000
ABORTED = [(1, 0, 1), (1, 4, 5)]
SNAPSHOT = ".snapshot"


@pytest.fixture
def machine() -> Machine:
    return Machine()


def remove(machine: Machine, *suffixes: str) -> None:
    """Of the partition's files, those that end so."""
    for name in machine.files.list_directory(DIRECTORY):
        if name.endswith(suffixes):
            machine.files.remove(f"{DIRECTORY}/{name}")


def test_a_small_closed_log_keeps_its_aborted_transactions(machine: Machine) -> None:
    log = machine.log()
    write(log)
    log.close()
    machine.power_off()
    assert aborted(machine.log(clean=True)) == ABORTED


def test_aborted_transactions_that_are_truncated_are_not_reported_for_later_records(machine: Machine) -> None:
    log = machine.log()
    write(log)
    log.truncate_to(4, NOW_MS)
    assert aborted(log) == ABORTED[:1]
    produce(log, 2)
    end(log, ControlRecordType.COMMIT)
    assert aborted(log) == ABORTED[:1]
    log.close()
    assert aborted(machine.log(clean=True)) == ABORTED[:1]


@pytest.mark.parametrize(("end_offset", "told"), [(1, 0), (2, 1), (5, 1), (6, 2)])
def test_an_aborted_transaction_is_truncated_together_with_its_marker(
    machine: Machine, end_offset: int, told: int
) -> None:
    log = machine.log()
    write(log)
    log.truncate_to(end_offset, NOW_MS)
    assert [each.last_offset for each in log.aborted_transactions(0, 6)] == [1, 5][:told]


def test_aborted_transactions_are_reported_after_all_producers_expired(machine: Machine) -> None:
    log = machine.log(LogConfig(index_interval_bytes=1))
    write(log)
    log.maybe_expire_producers(NOW_MS + DAY_MS)
    assert not log.has_producers
    log.close()
    remove(machine, SNAPSHOT)
    log = machine.log(LogConfig(index_interval_bytes=1), clean=True, now_ms=NOW_MS + DAY_MS)
    assert aborted(log) == ABORTED


@pytest.mark.parametrize("config", [LogConfig(), LogConfig(index_interval_bytes=1), LogConfig(segment_bytes=250)])
@pytest.mark.parametrize("lost", [(TRANSACTION_INDEX_SUFFIX,), (TRANSACTION_INDEX_SUFFIX, SNAPSHOT)])
def test_a_missing_transaction_index_is_rebuilt_from_the_log(
    machine: Machine, config: LogConfig, lost: tuple[str, ...]
) -> None:
    log = machine.log(config)
    write(log)
    log.close()
    remove(machine, *lost)
    log = machine.log(config, clean=True)
    assert aborted(log) == ABORTED
    assert log.load_report is not None
    assert any("read back 2 aborted transactions" in event for event in log.load_report.events)
    log.close()
    machine.power_off()
    log = machine.log(config, clean=True)
    assert aborted(log) == ABORTED
    assert log.load_report is not None
    assert log.load_report.events == [], "it is mended once"


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_rebuilding_another_index_keeps_the_transaction_index(machine: Machine, suffix: str) -> None:
    log = machine.log(LogConfig(segment_bytes=250))
    write(log)
    log.close()
    remove(machine, suffix)
    assert aborted(machine.log(LogConfig(segment_bytes=250), clean=True)) == ABORTED


def test_aborted_transactions_behind_an_open_transaction_are_still_reported(machine: Machine) -> None:
    log = machine.log()
    produce(log, 0, producer_id=2)
    write(log)
    before = log.aborted_transactions(0, log.log_end_offset)
    log.close()
    remove(machine, TRANSACTION_INDEX_SUFFIX)
    after = machine.log(clean=True).aborted_transactions(0, log.log_end_offset)
    assert list(map(repr, after)) == list(map(repr, before))


def manager_of(machine: Machine, config: LogConfig) -> tuple[LogManager, list[str]]:
    """Loaded, and what it told."""
    manager = machine.manager(lambda: config, random.Random(1))
    told: list[str] = []
    manager._on_event = lambda _, sentence: told.append(sentence)
    manager.open(None)
    manager.load(NOW_MS)
    return manager, told


def stop(manager: LogManager) -> None:
    for _ in manager.close_logs():
        pass
    manager.finish_shutdown()


def test_a_transaction_index_left_incomplete_by_an_earlier_release_is_completed_once(machine: Machine) -> None:
    """It lost the first entry when the log was small, and went on with a file that has the second alone."""
    config = LogConfig(index_interval_bytes=1)
    manager, _ = manager_of(machine, config)
    write(manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS))
    stop(manager)
    path = f"{DIRECTORY}/00000000000000000000{TRANSACTION_INDEX_SUFFIX}"
    file = machine.files.open(path)
    last = file.pread(34, 34)
    file.truncate(0)
    file.append((last,))
    machine.files.remove(f"/data/{TRANSACTION_INDEXES_WHOLE}")
    manager, told = manager_of(machine, config)
    log = manager.get(T0)
    assert log is not None
    assert aborted(log) == ABORTED
    assert sum("read back 1 aborted transactions" in sentence for sentence in told) == 1
    stop(manager)
    machine.power_off()
    manager, told = manager_of(machine, config)
    log = manager.get(T0)
    assert log is not None
    assert (aborted(log), told) == (ABORTED, [])


def test_records_behind_damage_that_may_hide_an_abort_are_not_reported_as_committed(machine: Machine) -> None:
    config = LogConfig(cleanup_policy=("compact",), index_interval_bytes=1, min_cleanable_dirty_ratio=0.0)
    manager, _ = manager_of(machine, config)
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    write(log)
    log.roll(NOW_MS)
    stop(manager)
    remove(machine, f"00{TRANSACTION_INDEX_SUFFIX}")
    file = machine.files.open(f"{DIRECTORY}/00000000000000000000.log")
    first = next(iter(batches(file.pread(file.size(), 0))))
    file.pwrite(b"\x7f", first.size + 8)
    machine.files.remove(f"/data/{TRANSACTION_INDEXES_WHOLE}")
    manager, told = manager_of(machine, config)
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    assert any("aborted transactions from segment" in sentence for sentence in told)
    assert not machine.files.exists(f"/data/{TRANSACTION_INDEXES_WHOLE}")
    with pytest.raises(CorruptData, match="may lack aborted transactions"):
        log.aborted_transactions(0, log.log_end_offset)
    log.update_high_watermark(log.log_end_offset)
    with pytest.raises(Uncleanable, match="transaction index"):
        at_once(cleaning_of(LogCleanerManager(manager))[1])


def test_compaction_refuses_a_log_that_has_lost_a_transaction_index(machine: Machine) -> None:
    manager, _ = manager_of(machine, LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0))
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    write(log)
    log.roll(NOW_MS)
    log.flush()
    remove(machine, TRANSACTION_INDEX_SUFFIX)
    with pytest.raises(Uncleanable, match=r"the transaction index of .* is missing"):
        at_once(cleaning_of(LogCleanerManager(manager))[1])


def test_compaction_keeps_committed_records_and_drops_aborted_ones(machine: Machine) -> None:
    config = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    manager, _ = manager_of(machine, config)
    write(manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS))
    stop(manager)
    manager, _ = manager_of(machine, config)
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    log.roll(NOW_MS)
    log.flush()
    at_once(cleaning_of(LogCleanerManager(manager))[1])
    assert [offset for offset, _, _ in content(log)] == [2]


@pytest.mark.parametrize("config", [LogConfig(), LogConfig(index_interval_bytes=1), LogConfig(segment_bytes=250)])
def test_producer_state_without_a_snapshot_is_rebuilt_from_the_log(machine: Machine, config: LogConfig) -> None:
    log = machine.log(config)
    write(log)
    produce(log, 3)
    log.close()
    remove(machine, SNAPSHOT)
    log = machine.log(config, clean=True)
    entry = log.producers.producers[1]
    assert (entry.last_sequence, entry.current_transaction_first_offset) == (3, 6)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 6


@pytest.mark.parametrize("seed", range(8))
def test_a_log_that_only_rolled_since_startup_is_closed_completely(seed: int) -> None:
    machine = Machine(seed)
    log = machine.log()
    produce(log, 0)
    log.close()
    log = machine.log(clean=True)
    log.roll(NOW_MS)
    log.close()
    machine.files.sync_directory(DIRECTORY)  # The kernel may write names at any time.
    machine.power_off()
    assert found_by_time(machine.log(clean=True), NOW_MS) == (NOW_MS, 0, 0)


@pytest.mark.parametrize("seed", range(8))
def test_a_segment_closed_after_its_flush_is_readable_after_a_power_loss(seed: int) -> None:
    """Its indexes are not durable, though all of its records are."""
    machine = Machine(seed)
    manager, _ = manager_of(machine, LogConfig(index_interval_bytes=1))
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    write(log)
    log.flush()
    log.roll(NOW_MS)
    manager.checkpoint_all()
    manager.release()
    machine.files.sync_directory(DIRECTORY)  # The kernel may write names at any time.
    machine.power_off()
    manager, _ = manager_of(machine, LogConfig(index_interval_bytes=1))
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    assert aborted(log) == ABORTED
    assert found_by_time(log, NOW_MS) == (NOW_MS, 0, 0)
