"""A remote store in a directory."""

from __future__ import annotations

from kraft.storage.unified_log import UnifiedLog
from tests.unit.storage.support import NOW_MS


def roll(log: UnifiedLog) -> None:
    log.update_high_watermark(log.log_end_offset)
    log.roll(NOW_MS)
