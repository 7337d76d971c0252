"""Log managers over simulated disks."""

from __future__ import annotations

from collections.abc import Callable

from kraft.storage.log_config import LogConfig
from kraft.storage.log_manager import LogManager
from kraft.storage.unified_log import UnifiedLog
from tests.unit.storage.support import NOW_MS, T0, TOPIC_ID, Machine, batch_of


def uuids() -> Callable[[], bytes]:
    count = 0

    def next_uuid() -> bytes:
        nonlocal count
        count += 1
        return count.to_bytes(16, "big")

    return next_uuid


def manager_on(
    machine: Machine, *paths: str, cluster_id: str | None = None, events: list[str] | None = None
) -> LogManager:
    heard = [] if events is None else events
    manager = LogManager(
        machine.files,
        paths or ("/data",),
        node_id=1,
        new_uuid=uuids(),
        config_of=lambda _: LogConfig(),
        on_event=lambda place, sentence: heard.append(f"{place}: {sentence}"),
    )
    manager.open(cluster_id)
    manager.load(NOW_MS)
    return manager


def log_from_35_to_40(manager: LogManager) -> UnifiedLog:
    """Everything is synced, and what was before 35 deleted."""
    log = manager.get_or_create(T0, TOPIC_ID, now_ms=NOW_MS)
    for _ in range(40):
        log.append_as_leader(batch_of(b"old"), 0, now_ms=NOW_MS)
    log.flush()
    log.update_high_watermark(40)
    log.delete_records_before(35)
    return log
