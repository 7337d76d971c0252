"""What the tests of cleaning share: a log of small segments, and ways to clean it."""

from __future__ import annotations

from kraft.storage.cleaner.cleaner_manager import LogCleanerManager
from kraft.storage.cleaner.cleaning_order import CleanerLimits
from kraft.storage.cleaner.log_cleaner import CleanerStats, Cleaning
from kraft.storage.cleaner.log_to_clean import LogToClean, log_to_clean
from kraft.storage.log_config import LogConfig
from kraft.storage.log_manager import LogManager
from kraft.storage.log_validator import AppendOrigin
from kraft.storage.producers.verification import NOT_REQUIRED
from kraft.storage.unified_log import UnifiedLog
from kraft.world.steps import Steps, at_once
from tests.unit.storage.support import NOW_MS, T0, TOPIC_ID, Machine, batch_of

CONFIG = LogConfig(cleanup_policy=("compact",), segment_bytes=300, delete_retention_ms=1000, index_interval_bytes=50)


def put(log: UnifiedLog, key: bytes | None, value: bytes | None, **options: int | bool) -> int:
    offset = log.append_as_leader(
        batch_of(value, keys=(key,), **options),
        0,
        now_ms=NOW_MS,
        origin=AppendOrigin.COORDINATOR,
        verification=NOT_REQUIRED,
    ).first_offset
    log.update_high_watermark(log.log_end_offset)
    return offset


def clean(log: UnifiedLog, *, now_ms: int = NOW_MS, checkpoint: int | None = None, map_bytes_max: int = 1 << 20) -> int:
    """Close the active segment, clean, and add a record so that the high watermark lies beyond; the offset up to
    which the log is clean."""
    log.roll(NOW_MS)
    log.flush()
    candidate = log_to_clean(log, checkpoint, now_ms)
    assert candidate.cleanable_bytes > 0
    cleaning = Cleaning(candidate, now_ms=now_ms, limits=CleanerLimits(map_bytes=map_bytes_max))
    at_once(cleaning.run())
    return cleaning.stats.end_offset


def manager_of(machine: Machine) -> LogManager:
    manager = LogManager(machine.files, ["/data"], node_id=1, new_uuid=lambda: bytes(16), config_of=lambda _: CONFIG)
    manager.open(None)
    return manager


def dirty_manager(machine: Machine) -> tuple[LogManager, UnifiedLog]:
    """Of a log of many small segments, all durable."""
    manager = manager_of(machine)
    manager.load(NOW_MS)
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    for index in range(40):
        put(log, b"k%d" % (index % 3), b"%d" % index)
    log.flush()
    return manager, log


def cleaning_of(cleaner: LogCleanerManager) -> tuple[LogToClean, Steps[CleanerStats]]:
    """What it would clean next, and that."""
    candidate = cleaner.next_log(NOW_MS)
    assert candidate is not None
    return candidate, cleaner.clean(candidate, NOW_MS)


def about_to_clean(machine: Machine) -> tuple[LogManager, UnifiedLog, Steps[CleanerStats]]:
    """`dirty_manager`, and a cleaning that has not begun."""
    manager, log = dirty_manager(machine)
    return manager, log, cleaning_of(LogCleanerManager(manager))[1]


def run_some(steps: Steps[CleanerStats], count: int) -> bool:
    """Whether there were so many."""
    for _ in range(count):
        job = next(steps, END)
        if job is END:
            return False
        if job is not None:
            job()
    return True


END = object()


def pauses(machine: Machine) -> int:
    manager, _, steps = about_to_clean(machine)
    count = 0
    while run_some(steps, 1):
        count += 1
    manager.release()
    return count
