"""What a task takes of an answer, and how much it asks for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import HEADER_SIZE, CorruptBatch, with_offset_and_epoch
from kraft.spark.client.wire import WireCluster

direct_fetcher = pytest.importorskip("kraft.spark.source.direct_fetcher")
RECORDS = 10


def fetcher(start: int, end: int) -> Any:
    from kraft.spark.source.ranges import OffsetRange

    options = {
        "include_headers": False,
        "fail_on_data_loss": True,
        "poll_timeout_ms": 1000,
        "attempts_max": 3,
        "retry_ms": 1,
    }
    return direct_fetcher.DirectFetcher(OffsetRange("t", 0, start, end), "h:1", **options)


def chunk(base: int, *, broken: bool = False) -> bytes:
    whole = build_batch([Record(delta, 0, None, b"v" * 100) for delta in range(RECORDS)])
    made = with_offset_and_epoch(whole, base, 0) + whole[HEADER_SIZE:]
    if broken:
        made[-1] ^= 1
    return bytes(made)


def answer(*chunks: bytes, high_watermark: int = 1000) -> Any:
    return SimpleNamespace(error_code=0, records=b"".join(chunks), high_watermark=high_watermark)


def size_of(request: Any) -> int:
    return int(request.topics[0].partitions[0].partition_max_bytes)


def test_batches_behind_the_range_are_not_decoded() -> None:
    made = fetcher(0, 15)
    found = made.accept(None, answer(chunk(0), chunk(10), chunk(20, broken=True)))
    assert [batch.base_offset for batch in found] == [0, 10]
    assert made.position == 15


def test_batches_in_the_range_are_validated() -> None:
    with pytest.raises(CorruptBatch):
        fetcher(0, 15).accept(None, answer(chunk(0), chunk(10, broken=True)))


def test_a_range_emptied_by_compaction_ends_at_the_first_batch_behind_it() -> None:
    made = fetcher(3, 8)
    assert made.accept(None, answer(chunk(20))) == []
    assert made.position == 8


def test_the_fetch_size_grows_with_the_length_of_the_range() -> None:
    short, long = (
        size_of(fetcher(0, 10).request(WireCluster("h:1"))),
        size_of(fetcher(0, 10_000_000).request(WireCluster("h:1"))),
    )
    assert short < 100_000
    assert long == direct_fetcher.FETCH_BYTES


def test_the_fetch_size_is_estimated_from_the_batches_read_so_far() -> None:
    made = fetcher(0, 1000)
    before = size_of(made.request(WireCluster("h:1")))
    made.accept(None, answer(chunk(0)))
    assert size_of(made.request(WireCluster("h:1"))) < before - 50_000
