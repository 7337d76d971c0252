"""A log with transactions in it, as recovery tests write it."""

from __future__ import annotations

from kraft.protocol.records.control_record import ControlRecordType
from kraft.storage.producers.verification import NOT_REQUIRED
from kraft.storage.unified_log import UnifiedLog
from tests.unit.storage.producers.producer_batches import end
from tests.unit.storage.support import NOW_MS, batch_of


def produce(log: UnifiedLog, sequence: int, *, producer_id: int = 1) -> None:
    """A record of a transaction, always of the same key."""
    options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
    produced = batch_of(b"%d" % sequence, keys=(b"k",), **options)
    log.append_as_leader(produced, 0, now_ms=NOW_MS, verification=NOT_REQUIRED)
    log.update_high_watermark(log.log_end_offset)


def write(log: UnifiedLog) -> None:
    """Abort, commit, abort: offsets 0, 2 and 4, with a marker behind each."""
    for index, outcome in enumerate((ControlRecordType.ABORT, ControlRecordType.COMMIT, ControlRecordType.ABORT)):
        produce(log, index)
        end(log, outcome)
    log.update_high_watermark(log.log_end_offset)


def aborted(log: UnifiedLog) -> list[tuple[int, int, int]]:
    found = log.aborted_transactions(0, log.log_end_offset)
    return [(each.producer_id, each.first_offset, each.last_offset) for each in found]
