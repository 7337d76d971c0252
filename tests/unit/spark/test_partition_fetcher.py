"""What librdkafka's events mean for a range, with a consumer that the test speaks for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraft.spark.errors import DataLoss, SourceError

module = pytest.importorskip("kraft.spark.source.partition_fetcher")
KafkaError = module.KafkaError


def event(offset: int, code: int | None = None, timestamp: int = 0) -> Any:
    """A message: a record, or an error at an offset."""
    error = None if code is None else KafkaError(code)
    return module.Message(topic="t", partition=0, offset=offset, value=b"v", error=error, timestamp=(1, timestamp))


class ToldConsumer:
    """`watermarks` and `topics` are answers, one a question; the last one stays."""

    def __init__(self, watermarks: list[Any], topics: list[bool]) -> None:
        self.given_watermarks = watermarks
        self.given_topics = topics
        self.assigned: list[int] = []

    def assign(self, partitions: list[Any]) -> None:
        self.assigned.append(partitions[0].offset)

    def get_watermark_offsets(self, *_: Any) -> tuple[int, int]:
        answer = self.given_watermarks.pop(0) if len(self.given_watermarks) > 1 else self.given_watermarks[0]
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    def list_topics(self, topic: str, *_: Any) -> Any:
        known = self.given_topics.pop(0) if len(self.given_topics) > 1 else self.given_topics[0]
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: None} if known else {})})


def consumer(*watermarks: Any, topics: tuple[bool, ...] = (True,)) -> ToldConsumer:
    return ToldConsumer(list(watermarks), list(topics))


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(
        module,
        "time",
        SimpleNamespace(monotonic=lambda: made.now, sleep=lambda seconds: setattr(made, "now", made.now + seconds)),
    )
    return made


def fetcher(start: int, end: int, *, fail_on_data_loss: bool = False) -> Any:
    from kraft.spark.source.ranges import OffsetRange

    return module.PartitionFetcher(
        OffsetRange("t", 0, start, end),
        {},
        include_headers=False,
        fail_on_data_loss=fail_on_data_loss,
        poll_timeout_ms=120_000,
    )


def offsets(records: list[Any]) -> list[int]:
    return [record.offset() for record in records]


def test_records_before_an_error_in_the_same_fetch_are_delivered() -> None:
    made, told = fetcher(5, 200), consumer((100, 300))
    assert offsets(made.records_of(told, [event(5), event(6), event(7, KafkaError._AUTO_OFFSET_RESET)])) == [5, 6]
    assert (made.position, told.assigned) == (100, [100])


def test_the_lost_range_starts_behind_the_delivered_records() -> None:
    with pytest.raises(DataLoss, match=r"\[7, 100\)"):
        fetcher(5, 200, fail_on_data_loss=True).records_of(
            consumer((100, 300)), [event(5), event(6), event(7, KafkaError._AUTO_OFFSET_RESET)]
        )


def test_a_batch_does_not_move_the_position_backwards() -> None:
    made = fetcher(5, 200)
    records = made.records_of(consumer((100, 300)), [event(5), event(6), event(7, KafkaError._AUTO_OFFSET_RESET)])
    assert [batch.num_rows for batch in made.take(records)] == [2]
    assert made.position == 100


def test_a_missing_group_permission_does_not_fail_a_read_that_commits_nothing() -> None:
    made = fetcher(5, 200)
    assert offsets(
        made.records_of(consumer((0, 300)), [event(5, KafkaError.GROUP_AUTHORIZATION_FAILED), event(5)])
    ) == [5]


def test_an_error_behind_the_last_record_of_the_range_is_ignored() -> None:
    made = fetcher(5, 7, fail_on_data_loss=True)
    assert offsets(
        made.records_of(consumer((100, 300)), [event(5), event(6), event(7, KafkaError._AUTO_OFFSET_RESET)])
    ) == [5, 6]
    assert made.position == 7


@pytest.mark.parametrize("code", [KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET])
def test_an_end_offset_unknown_to_the_leader_is_waited_for(code: int, clock: SimpleNamespace) -> None:
    unknown = module.KafkaException(KafkaError(KafkaError._TRANSPORT))
    made = fetcher(90, 100, fail_on_data_loss=True)
    made.records_of(consumer((0, 90), unknown, (0, 100)), [event(90, code)])
    assert not made.ended
    assert clock.now < 1005


@pytest.mark.parametrize("code", [KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET])
def test_an_end_offset_that_is_never_reached_is_data_loss(code: int, clock: SimpleNamespace) -> None:
    with pytest.raises(DataLoss, match=r"\[90, 100\)"):
        fetcher(90, 100, fail_on_data_loss=True).records_of(consumer((0, 90)), [event(90, code)])
    assert 1020 <= clock.now < 1030


def test_a_topic_known_to_another_node_is_not_deleted(clock: SimpleNamespace) -> None:
    made, told = fetcher(90, 100, fail_on_data_loss=True), consumer(topics=(False, False, True))
    made.records_of(told, [event(90, KafkaError.UNKNOWN_TOPIC_OR_PART)])
    assert told.assigned == [90]
    with pytest.raises(DataLoss, match="does not exist any more"):
        made.records_of(consumer(topics=(False,)), [event(90, KafkaError.UNKNOWN_TOPIC_OR_PART)])


@pytest.mark.parametrize("timestamp", [2**62, -(2**62)])
def test_a_timestamp_out_of_sparks_range_is_refused(timestamp: int) -> None:
    with pytest.raises(SourceError, match=f"timestamp value {timestamp} that overflows"):
        list(fetcher(0, 10).take([event(0, timestamp=timestamp)]))


def test_the_partition_end_counts_behind_records_that_are_never_delivered(clock: SimpleNamespace) -> None:
    """Control records end the log: the end is at 95, and nothing is waited for but offsets from there on."""
    made = fetcher(90, 100, fail_on_data_loss=True)
    with pytest.raises(DataLoss, match=r"\[95, 100\)"):
        made.records_of(consumer((0, 95)), [event(92), event(95, KafkaError._PARTITION_EOF)])
    assert clock.now >= 1020


def test_a_header_name_that_librdkafka_cannot_decode_is_refused_with_its_offset() -> None:
    """Its Python binding gives bytes that are not UTF-8 out as a SystemError, whatever record is at fault."""

    def headers() -> Any:
        raise SystemError("returned a result with an exception set") from UnicodeDecodeError(
            "utf-8", b"\xff", 0, 1, "invalid start byte"
        )

    odd: Any = SimpleNamespace(headers=headers, topic=lambda: "t", partition=lambda: 0, offset=lambda: 7)
    with pytest.raises(SourceError, match=r"KAFKA_MALFORMED_HEADER_NAME.*topic t partition 0 offset 7.*fetcher"):
        module.headers_of(odd)


@pytest.mark.parametrize("lost", [(-1001, -1001), (0, -1001), None])
def test_watermarks_over_a_lost_connection_are_requested_again(lost: Any) -> None:
    """Taken as they are, they would say that the log ends below the position: a loss that is none."""
    made = fetcher(5, 9, fail_on_data_loss=True)
    assert made.watermarks(consumer(lost, lost, (0, 9))) == (0, 9)
    with pytest.raises(SourceError, match="is not known"):
        made.watermarks(consumer(lost))
