"""How latencies are told: the share of records, not of deliveries. From when on reading is measured."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from kraft.cli.admin.records.perf import FIRST_POLL_SECONDS, SHARES, Latencies, read_records
from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.records.record import Record
from kraft.rpc_client.consumer import ConsumedRecord


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 400)), min_size=1, max_size=30))
def test_a_quantile_is_the_least_time_within_which_that_share_was_acknowledged(
    taken: list[tuple[int, int]],
) -> None:
    latencies = Latencies()
    for ms, count in taken:
        latencies.add(ms / 1000, count)
    each = sorted(ms for ms, count in taken for _ in range(count))
    told = latencies.document()
    assert list(told) == ["mean_ms", *(name for _, name in SHARES), "max_ms"]
    assert told["max_ms"] == each[-1]
    assert math.isclose(told["mean_ms"] or 0, sum(each) / len(each), abs_tol=0.001)
    for share, name in SHARES:
        assert told[name] == each[math.ceil(share * len(each)) - 1]


def test_without_acknowledged_records_there_are_no_latencies() -> None:
    assert set(Latencies().document().values()) == {None}


class Readable:
    """A consumer and its clock: ten records come after `before` seconds, and ten with each second after that."""

    def __init__(self, before: float) -> None:
        self.time, self.due = 0.0, before

    def now(self) -> float:
        return self.time

    async def poll(self, seconds: float) -> list[ConsumedRecord]:
        if self.due > self.time + seconds:
            self.time += seconds
            return []
        self.time, self.due = self.due, self.due + 1
        return [ConsumedRecord(TopicPartition("t", 0), 0, 0, Record(0, 0, b"k", b"value"))] * 10


def reading(source: Any, records: int, timeout: float, *, is_from_end: bool) -> tuple[int, int, float]:
    async def read() -> tuple[int, int, float]:
        count, size, seconds, _ = await read_records(source, source, "t", records, timeout, is_from_end=is_from_end)
        return count, size, seconds

    return trio.run(read)


def test_the_wait_for_future_records_does_not_count_as_reading() -> None:
    count, size, seconds = reading(Readable(before=20.05), 35, 30, is_from_end=True)
    assert (count, size) == (35, 35 * 6)
    assert 3 <= seconds <= 3 + FIRST_POLL_SECONDS


def test_reading_existing_records_is_timed_from_the_first_request() -> None:
    assert reading(Readable(before=0.5), 20, 30, is_from_end=False) == (20, 120, 1.5)


@pytest.mark.parametrize("is_from_end", [False, True])
def test_perf_consume_ends_when_no_record_arrives_in_time(is_from_end: bool) -> None:
    with pytest.raises(KraftError, match="0 records arrived, and no more within 2 s: topic t has fewer than 5"):
        reading(Readable(before=20), 5, 2, is_from_end=is_from_end)
