"""Values that are sent many at a time: the same records as one by one, also where a batch is too large or fails."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.builder import Record, build_batch, build_values_batch
from kraft.protocol.records.compression import CODEC_NAMES
from kraft.protocol.records.record_batch import batches
from kraft.rpc_client.producer import open_producer
from kraft.world.simulated import Universe
from tests.unit.rpc_client.scripted_cluster import ScriptedCluster, sent, stored

T0 = TopicPartition("t", 0)


@given(
    st.lists(st.binary(max_size=200), min_size=1, max_size=200),
    st.sampled_from(range(len(CODEC_NAMES))),
    st.booleans(),
)
def test_a_batch_of_values_equals_the_batch_of_their_records(
    values: list[bytes], codec: int, transactional: bool
) -> None:
    options: dict[str, Any] = {"codec": codec, "producer_id": 5, "producer_epoch": 1, "base_sequence": 7}
    records = [Record(index, 1234, None, value, ()) for index, value in enumerate(values)]
    assert build_values_batch(values, 1234, **options, is_transactional=transactional) == build_batch(
        records, **options, is_transactional=transactional
    )


class Broker:
    """Keeps what comes in order, and says no to batches of more than `largest` records and to those of `refused`."""

    def __init__(self, largest: int = 1 << 30, refused: bytes | None = None) -> None:
        self.largest = largest
        self.refused = refused
        self.values: list[bytes] = []
        self.counts: list[int] = []

    async def answer(self, request: Any, _: int | None) -> Any:
        [batch] = batches(sent(request)[T0])
        values = [bytes(record.value or b"") for record in batch.records()]
        if len(values) > self.largest:
            return stored({T0: (ErrorCode.MESSAGE_TOO_LARGE, -1)})
        if self.refused in values:
            return stored({T0: (ErrorCode.INVALID_RECORD, -1)})
        self.values += values
        self.counts.append(len(values))
        return stored({T0: (ErrorCode.NONE, len(self.values) - len(values))})


LINES = [b"%d" % number for number in range(1000)]


def sent_to(broker: Broker, **options: Any) -> list[tuple[int, int, int] | str]:
    """First offset, last offset and count of each delivery, or the error."""
    found: list[tuple[int, int, int] | str] = []

    async def main(universe: Universe) -> None:
        async with open_producer(ScriptedCluster(universe, {"t": [1]}, broker.answer), **options) as producer:
            deliveries = [*await producer.send_values("t", LINES), await producer.send("t", b"last")]
            assert await producer.send_values("t", []) == []
            for delivery in deliveries:
                await delivery.settled()
                try:
                    delivery.outcome()
                except ApiError as problem:
                    found.append(problem.message or "")
                else:
                    found.append((delivery.offset, delivery.last_offset, delivery.count))

    Universe(1).run(main)
    return found


@pytest.mark.parametrize("batch_bytes", [50, 1000, 1 << 20])
def test_values_arrive_in_order_and_each_delivery_has_its_offset(batch_bytes: int) -> None:
    broker = Broker()
    found = sent_to(broker, batch_bytes=batch_bytes)
    assert broker.values == [*LINES, b"last"]
    assert sum(count for *_, count in found) == 1001
    ends = -1
    for first, last, count in found:
        assert (first, last - first + 1) == (ends + 1, count)
        ends = last


def test_a_batch_of_values_that_is_too_large_is_split_and_reported_as_one() -> None:
    broker = Broker(largest=300)
    assert sent_to(broker) == [(0, 999, 1000), (1000, 1000, 1)]
    assert broker.values == [*LINES, b"last"]
    assert broker.counts == [250, 250, 250, 250, 1]


def test_a_partly_refused_delivery_fails_once_all_of_its_batches_have_completed() -> None:
    broker = Broker(largest=300, refused=b"600")
    [refused, last] = sent_to(broker)
    assert isinstance(refused, str)
    assert "t-0" in refused
    assert broker.values == [*LINES[:500], *LINES[750:], b"last"]
    assert last == (750, 750, 1)
