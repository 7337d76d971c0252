"""The law of a produced batch: whatever its header claims, what is stored says the largest timestamp of its records,
numbers them from its base offset on, and can be read; or nothing is stored and the batch is refused."""

from __future__ import annotations

import struct

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.errors import ApiError
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import CRC_START, NO_TIMESTAMP
from kraft.storage.log_config import LogConfig
from tests.unit.storage.support import NOW_MS, Machine, batches_in, found_by_time

CODECS = range(5)
TIMES = st.sampled_from((NOW_MS, NOW_MS + 1, NOW_MS - 5, NOW_MS - 10**9, NOW_MS + 3_000_000, 0, 5, -1, -700))
FIELDS = {
    0: (">q", (0, 1, -1)),
    12: (">i", (-1, 0, 7)),
    21: (">H", (8, 0x40, 0x80, 0x8000, 0x20, 5)),
    23: (">i", (0, 1, 2, 3, 9, -1)),
    27: (">q", (NOW_MS, NOW_MS - 5000, 0, -1, -5, 1 << 62, (1 << 63) - 1, -(1 << 63))),
    35: (">q", (NOW_MS, NOW_MS + 1, NOW_MS - 10**9, 0, -1, -5, (1 << 63) - 1, -(1 << 63))),
    43: (">q", (5, -7)),
    51: (">h", (0, -7)),
    53: (">i", (0, 3, -7)),
    57: (">i", (0, 1, 2, 3, 9, -1, (1 << 31) - 1)),
}
"""Where each field of the header is, and what it may claim. Bits of the attributes are set beside the codec's."""
CONFIGS = (
    LogConfig(),
    LogConfig(message_timestamp_type="LogAppendTime"),
    LogConfig(compression_type="gzip"),
    LogConfig(message_timestamp_before_max_ms=10_000),
    LogConfig(message_timestamp_after_max_ms=(1 << 63) - 1),
)


@st.composite
def lying_batches(draw: st.DrawFn) -> bytes:
    times = draw(st.lists(TIMES, min_size=1, max_size=5))
    deltas = draw(st.sampled_from((range(len(times)), range(1, len(times) + 1), range(0, 2 * len(times), 2))))
    records = [Record(delta, at, None, b"v" * delta) for delta, at in zip(deltas, times, strict=True)]
    codec = draw(st.sampled_from(CODECS))
    data = bytearray(build_batch(records, base_offset=0, last_offset=len(times) - 1, codec=codec))
    for at in draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=2, unique=True)):
        form, claims = FIELDS[at]
        claim = draw(st.sampled_from(claims))
        if at == 21:
            claim |= codec
        struct.pack_into(form, data, at, claim)
    data[17:21] = crc32c(bytes(data[CRC_START:])).to_bytes(4, "big")
    return bytes(data)


@given(lying_batches(), st.sampled_from(CONFIGS))
def test_a_stored_batch_header_agrees_with_its_records(produced: bytes, config: LogConfig) -> None:
    log = Machine().log(config)
    try:
        log.append_as_leader(produced, 3, now_ms=NOW_MS)
    except ApiError:
        assert log.log_end_offset == 0
        return
    (batch,) = batches_in(log)
    batch.verify_crc()
    records = batch.records()
    latest = max(record.timestamp for record in records)
    assert batch.max_timestamp == max(NO_TIMESTAMP, latest) == log.active_segment.largest_timestamp
    assert [record.offset for record in records] == list(range(log.log_end_offset))
    assert (batch.partition_leader_epoch, batch.is_control) == (3, False)
    for each in records:
        if each.timestamp >= 0:
            found = found_by_time(log, each.timestamp)
            assert found is not None
            assert found[0] >= each.timestamp
