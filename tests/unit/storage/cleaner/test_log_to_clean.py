"""What a cleaning may touch: nothing undecided, nothing that is not durable."""

from __future__ import annotations

from kraft.storage.cleaner.log_to_clean import log_to_clean
from tests.unit.storage.cleaner.cleaning import CONFIG, put
from tests.unit.storage.support import NOW_MS, Machine, content

PRODUCER = 7


def test_records_from_the_first_open_transaction_on_are_not_compacted() -> None:
    log = Machine().log(CONFIG)
    put(log, b"k", b"before")
    log.roll(NOW_MS)
    undecided = put(
        log, b"k", b"undecided", producer_id=PRODUCER, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    put(log, b"k", b"after")
    log.roll(NOW_MS)
    log.flush()
    assert (log.last_stable_offset, log.high_watermark) == (undecided, log.log_end_offset)
    assert log_to_clean(log, None, NOW_MS).first_uncleanable_offset == undecided
    assert len(content(log)) == 3


def test_records_above_the_high_watermark_are_not_compacted() -> None:
    log = Machine().log(CONFIG)
    for value in (b"a", b"b", b"c"):
        put(log, b"k", value)
    log.roll(NOW_MS)
    log.flush()
    assert log_to_clean(log, None, NOW_MS).first_uncleanable_offset == 3
    log.high_watermark = 1
    assert log_to_clean(log, None, NOW_MS).first_uncleanable_offset == 1


def test_unflushed_records_are_not_compacted() -> None:
    log = Machine().log(CONFIG)
    put(log, b"k", b"a")
    log.flush()
    put(log, b"k", b"b")
    log.roll(NOW_MS)
    assert log_to_clean(log, None, NOW_MS).first_uncleanable_offset == 1
