"""What Produce answers to batches that may not be appended: codes, texts, record errors and offsets as Apache Kafka
4.3.1 gives them."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import PartitionProduceResponse
from kraft.protocol.records.builder import Record, build_batch
from kraft.protocol.records.compression import ZSTD
from kraft.world.simulated import Universe
from tests.unit.server.brokers import batch, broker, simulate

FAR_FUTURE = 9_000_000_000_000


def answers(*batches: bytes, version: int = 12, topic: str = "t", **configs: str) -> list[PartitionProduceResponse]:
    """The answers to these batches, one after the other, of a fresh topic."""
    found: list[Any] = []

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", **configs)
            for data in batches:
                request = ProduceRequest(
                    acks=-1,
                    timeout_ms=1000,
                    topic_data=[
                        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=data)])
                    ],
                )
                found.append((await made.ask(request, version)).responses[0].partition_responses[0])

    simulate(play)
    return found


def sequenced(sequence: int, **fields: Any) -> bytes:
    return batch(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence, **fields)


def test_transactional_batches_are_refused_without_a_transactional_id() -> None:
    (answer,) = answers(sequenced(0, is_transactional=True))
    assert (answer.error_code, answer.base_offset, answer.error_message) == (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        -1,
        None,
    )


def test_one_invalid_transactional_batch_refuses_the_whole_request() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 2)
            data = [
                PartitionProduceData(index=0, records=batch(b"a")),
                PartitionProduceData(index=1, records=sequenced(0, is_transactional=True)),
            ]
            request = ProduceRequest(
                acks=-1,
                timeout_ms=1000,
                topic_data=[TopicProduceData(name="t", partition_data=data)],
            )
            response = await made.ask(request, 12)
            assert [each.error_code for each in response.responses[0].partition_responses] == [
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            ] * 2
            assert made.partition("t").log.log_end_offset == 0

    simulate(play)


@pytest.mark.parametrize(
    ("data", "code", "log_start_offset"),
    [
        (batch(b"a")[:-3], ErrorCode.INVALID_RECORD, -1),
        (batch(b"a") * 2, ErrorCode.INVALID_RECORD, -1),
        (batch(b"a")[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE, -1),
        (batch(b"a" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE, -1),
        (batch(b"a", is_control=True), ErrorCode.INVALID_RECORD, 0),
        (sequenced(-1), ErrorCode.INVALID_RECORD, 0),
    ],
)
def test_only_log_errors_return_the_log_start_offset(data: bytes, code: int, log_start_offset: int) -> None:
    (answer,) = answers(data)
    assert (answer.error_code, answer.log_start_offset, answer.error_message) == (code, log_start_offset, None)


def test_sequence_errors_return_the_log_start_offset() -> None:
    _, gap = answers(sequenced(0), sequenced(5))
    assert (gap.error_code, gap.base_offset, gap.log_start_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, 0)


def test_a_duplicate_batch_is_answered_with_the_timestamp_of_the_stored_batch() -> None:
    first, again = answers(sequenced(0), sequenced(0))
    assert (first.base_offset, first.log_append_time_ms) == (0, -1)
    assert (again.error_code, again.base_offset, again.log_append_time_ms) == (0, 0, 1_700_000_000_000)


def test_timestamps_out_of_bounds_are_reported_per_record() -> None:
    records = [
        Record(0, 1_700_000_000_000, None, b"good"),
        Record(1, FAR_FUTURE, None, b"late"),
        Record(2, FAR_FUTURE, None, b"late"),
    ]
    (answer,) = answers(build_batch(records))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert answer.error_message
    assert [error.batch_index for error in answer.record_errors] == [1, 2]


def test_records_without_keys_are_reported_per_record() -> None:
    (answer,) = answers(batch(b"a", b"b"), cleanup_policy="compact")
    assert (answer.error_code, [error.batch_index for error in answer.record_errors]) == (
        ErrorCode.INVALID_RECORD,
        [0, 1],
    )
    assert answer.error_message


def test_zstd_needs_a_fetch_version_that_supports_it() -> None:
    data = batch(b"a" * 100, codec=ZSTD)
    assert [answers(data, version=version)[0].error_code for version in (6, 7)] == [
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.NONE,
    ]


def test_an_unknown_topic_is_answered_without_a_log_start_offset() -> None:
    (answer,) = answers(batch(b"a"), topic="missing")
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
