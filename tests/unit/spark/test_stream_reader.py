"""How far a micro-batch reads, with the cluster's offsets told by the test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from kraft.common.ids import TopicPartition
from kraft.spark.errors import SourceError
from kraft.spark.option_values import offsets_of_json
from kraft.spark.source.options import stream_options
from kraft.spark.source.ranges import OffsetRange

datasource = pytest.importorskip("pyspark.sql.streaming.datasource")

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class ToldOffsets:
    """Answers what the test sets, in place of a cluster."""

    def __init__(self, latest: Mapping[TopicPartition, int]) -> None:
        self.now = dict(latest)
        self.recreated: set[str] = set()

    def latest(self, known: object = None) -> dict[TopicPartition, int]:
        return dict(self.now)

    def adopt_recreated_topics(self) -> frozenset[str]:
        found, self.recreated = frozenset(self.recreated), set()
        return found

    def resolved_ranges(self, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Any:
        return [OffsetRange("t", each.partition, begin[each], end[each]) for each in sorted(end)]

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)


def reader(latest: Mapping[TopicPartition, int], **options: str) -> Any:
    from kraft.spark.source.stream_reader import KafkaStreamReader

    made = KafkaStreamReader(stream_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **options}))
    made._offsets = ToldOffsets(latest)  # type: ignore[assignment]
    return made


def offset(first: int, second: int) -> dict[str, dict[str, int]]:
    return {"t": {"0": first, "1": second}}


def test_the_read_limit_is_chosen_from_the_options() -> None:
    assert isinstance(reader({}).getDefaultReadLimit(), datasource.ReadAllAvailable)
    assert reader({}, maxOffsetsPerTrigger="7").getDefaultReadLimit() == datasource.ReadMaxRows(7)
    assert reader({}, minOffsetsPerTrigger="3").getDefaultReadLimit() == datasource.ReadMinRows(3)
    assert reader(
        {}, minOffsetsPerTrigger="3", maxOffsetsPerTrigger="7"
    ).getDefaultReadLimit() == datasource.ReadMaxRows(7)


def test_a_trigger_reads_at_most_max_offsets_per_trigger() -> None:
    assert reader({T0: 80, T1: 20}, maxOffsetsPerTrigger="10").latestOffset(
        offset(0, 0), datasource.ReadMaxRows(10)
    ) == offset(8, 2)


def test_available_now_overrides_the_limit_options() -> None:
    made = reader({T0: 80, T1: 20}, maxOffsetsPerTrigger="10", minOffsetsPerTrigger="5")
    assert made.latestOffset(offset(0, 0), datasource.ReadAllAvailable()) == offset(80, 20)


def planned(made: Any, start: Any, end: Any) -> list[tuple[int, int, int]]:
    return [
        (each.partition, each.start, each.end)
        for task in made.partitions(start, end)
        for each in task.value
        if each.size > 0
    ]


def test_a_recreated_topic_is_read_from_its_start() -> None:
    made = reader({T0: 80, T1: 20}, failOnDataLoss="false")
    limit = made.getDefaultReadLimit()
    assert made.latestOffset(offset(0, 0), limit) == offset(80, 20)
    made._offsets.now, made._offsets.recreated = {T0: 200, T1: 5}, {"t"}
    end = {"t": {"00": 0, "01": 0, "0": 200, "1": 5}}
    for _ in range(2):  # Spark asks again while there is nothing new.
        assert made.latestOffset(offset(80, 20), limit) == end
    for each in (made, made, reader({})):  # It plans a batch as often as it is scanned, and again after a restart.
        assert planned(each, offset(80, 20), end) == [(0, 0, 200), (1, 0, 5)]
    assert made.latestOffset(end, limit) == end, "nothing is new"
    assert planned(made, end, end) == []
    made._offsets.now = {T0: 300, T1: 6}
    assert made.latestOffset(end, limit) == offset(300, 6)
    assert planned(made, end, offset(300, 6)) == [(0, 200, 300), (1, 5, 6)]


def test_a_recreated_topic_as_long_as_the_earlier_one_is_read() -> None:
    """Spark reads a batch only if its end differs from its start. So do two recreations in a row."""
    made = reader({T0: 8, T1: 3}, failOnDataLoss="false")
    start = offset(8, 3)
    for _ in range(3):
        made._offsets.recreated = {"t"}
        end = made.latestOffset(start, made.getDefaultReadLimit())
        assert end != start
        assert planned(made, start, end) == [(0, 0, 8), (1, 0, 3)]
        assert offsets_of_json(json.loads(json.dumps(end))) == {T0: 8, T1: 3}
        start = end
    assert made.latestOffset(start, made.getDefaultReadLimit()) == start


def test_waiting_for_min_offsets_keeps_the_start_of_a_recreated_topic() -> None:
    made = reader({T0: 8, T1: 3}, failOnDataLoss="false", minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    limit = made.getDefaultReadLimit()
    assert made.latestOffset(offset(0, 0), limit) == offset(8, 3)
    made._offsets.now, made._offsets.recreated = {T0: 2, T1: 1}, {"t"}
    end = made.latestOffset(offset(8, 3), limit)
    assert planned(made, offset(8, 3), end) == []
    made._offsets.now = {T0: 4, T1: 1}
    assert planned(made, end, made.latestOffset(end, limit)) == [(0, 0, 4), (1, 0, 1)]


def test_a_limit_counts_from_the_start_of_a_recreated_topic() -> None:
    made = reader({T0: 80, T1: 20}, failOnDataLoss="false", maxOffsetsPerTrigger="10")
    limit = datasource.ReadMaxRows(10)
    made._offsets.now, made._offsets.recreated = {T0: 50, T1: 50}, {"t"}
    end = made.latestOffset(offset(80, 20), limit)
    assert offsets_of_json(end) == {T0: 5, T1: 5}
    assert planned(made, offset(80, 20), end) == [(0, 0, 5), (1, 0, 5)]


def test_a_trigger_after_the_first_waits_for_min_offsets_per_trigger() -> None:
    made = reader({T0: 1, T1: 0}, minOffsetsPerTrigger="5")
    limit = made.getDefaultReadLimit()
    assert made.latestOffset(offset(0, 0), limit) == offset(1, 0)
    made._offsets.now = {T0: 4, T1: 0}
    assert made.latestOffset(offset(1, 0), limit) == offset(1, 0)
    made._offsets.now = {T0: 4, T1: 2}
    assert made.latestOffset(offset(1, 0), limit) == offset(4, 2)


def test_no_trigger_waits_longer_than_max_trigger_delay() -> None:
    made = reader({T0: 1, T1: 0}, minOffsetsPerTrigger="5", maxTriggerDelay="0ms")
    assert made.latestOffset(offset(0, 0), made.getDefaultReadLimit()) == offset(1, 0)
    made._offsets.now = {T0: 2, T1: 0}
    assert made.latestOffset(offset(1, 0), made.getDefaultReadLimit()) == offset(2, 0)


def test_available_now_ends_at_the_topic_end_when_the_query_started() -> None:
    made = reader({T0: 5, T1: 5}, minOffsetsPerTrigger="100")
    made.prepareForTriggerAvailableNow()
    made._offsets.now = {T0: 9, T1: 9}
    assert made.latestOffset(offset(0, 0), made.getDefaultReadLimit()) == offset(5, 5)
    assert made.latestOffset(offset(5, 5), made.getDefaultReadLimit()) == offset(5, 5)


@pytest.mark.parametrize(
    ("now", "until", "condition"),
    [
        ({T0: 5, T1: 5}, {"t": {"0": 5, "1": 5, "2": 1}}, "MISMATCHED_TOPIC_PARTITIONS"),
        ({T0: 5, T1: 5}, offset(6, 5), "THAN_PREFETCHED"),
        ({T0: 5}, offset(5, 5), "LOST_TOPIC_PARTITIONS"),
        ({T0: 5, T1: 3}, offset(5, 5), "THAN_LATEST"),
    ],
)
def test_under_available_now_missing_or_shorter_partitions_fail_unless_data_loss_is_allowed(
    now: dict[TopicPartition, int], until: dict[str, Any], condition: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = reader({T0: 5, T1: 5})
    made.prepareForTriggerAvailableNow()
    made._offsets.now = now
    with pytest.raises(SourceError, match=rf"{condition}.* set the source option failOnDataLoss to false"):
        made.partitions(offset(0, 0), until)
    going_on = reader({T0: 5, T1: 5}, failOnDataLoss="false")
    going_on.prepareForTriggerAvailableNow()
    going_on._offsets.now = now
    going_on._offsets.resolved_ranges = lambda begin, until: []
    assert going_on.partitions(offset(0, 0), until) == []
    assert condition in caplog.text


def test_a_batch_planned_before_partitions_were_added_resumes_under_available_now() -> None:
    made = reader({T0: 5, T1: 5})
    made.prepareForTriggerAvailableNow()
    made._offsets.resolved_ranges = lambda begin, until: []
    assert made.partitions({"t": {"0": 0}}, {"t": {"0": 5}}) == []
    assert made.latestOffset({"t": {"0": 5}}, made.getDefaultReadLimit()) == offset(5, 5)


def test_partitions_missing_when_the_end_was_fixed_are_looked_up_again() -> None:
    made = reader({T0: 5})
    made.prepareForTriggerAvailableNow()
    made._offsets.now = {T0: 9, T1: 9}
    assert made.latestOffset(offset(3, 5), made.getDefaultReadLimit()) == offset(9, 9)


def test_the_start_of_a_query_stays_fixed_while_records_are_produced() -> None:
    """Spark asks again until the first batch is done: a start beyond the end that was planned would be a loss, or
    lose what is between."""
    made = reader({})
    ends = [{T0: 5, T1: 5}, {T0: 9, T1: 9}]
    made._offsets.resolve = lambda limit, starting: ends.pop(0)
    assert [made.initialOffset(), made.initialOffset()] == [offset(5, 5)] * 2


def test_a_query_whose_first_batch_failed_resumes_from_its_first_start() -> None:
    """Spark keeps the end of a micro-batch and asks a restarted query for its start anew."""
    first = reader({T0: 9, T1: 5})
    first._offsets.resolve = lambda limit, starting: {T0: 5, T1: 5}
    start = first.initialOffset()
    kept = json.loads(json.dumps(first.latestOffset(start, first.getDefaultReadLimit())))
    assert offsets_of_json(kept) == {T0: 9, T1: 5}
    later = reader({T0: 20, T1: 20})
    later._offsets.resolve = lambda limit, starting: {T0: 20, T1: 20}
    read: list[Any] = []
    later._offsets.resolved_ranges = lambda begin, until: read.append((begin, until)) or []
    later.partitions(later.initialOffset(), kept)
    assert read == [({T0: 5, T1: 5}, {T0: 9, T1: 5})]
    assert later.latestOffset(kept, later.getDefaultReadLimit()) == offset(20, 20)


def test_a_first_batch_without_later_records_is_not_followed_by_an_empty_batch() -> None:
    made = reader({T0: 9, T1: 5})
    made._offsets.resolve = lambda limit, starting: {T0: 9, T1: 5}
    kept = made.latestOffset(made.initialOffset(), made.getDefaultReadLimit())
    assert made.latestOffset(kept, made.getDefaultReadLimit()) == kept
    made._offsets.now = {T0: 10, T1: 5}
    assert made.latestOffset(kept, made.getDefaultReadLimit()) == offset(10, 5)


def test_a_fixed_end_below_the_read_position_is_looked_up_again() -> None:
    made = reader({T0: 5, T1: 5})
    made.prepareForTriggerAvailableNow()
    made._offsets.now = {T0: 9, T1: 9}
    assert made.latestOffset(offset(5, 5), made.getDefaultReadLimit()) == offset(5, 5)
    assert made.latestOffset(offset(7, 5), made.getDefaultReadLimit()) == offset(9, 9)


@pytest.mark.parametrize(
    ("options", "tasks"),
    [({}, 1), ({"minPartitions": "1"}, 3), ({"maxRecordsPerPartition": "100"}, 3), ({"minPartitions": "6"}, 6)],
)
def test_small_ranges_share_a_task_unless_options_set_the_split(options: dict[str, str], tasks: int) -> None:
    from kraft.spark.source.ranges import OffsetRange

    ranges = [OffsetRange("t", partition, 0, 100) for partition in range(3)]
    planned = reader({}, **options).tasks([*ranges, OffsetRange("t", 3, 5, 5)])
    assert len(planned) == tasks
    assert sum(each.size for task in planned for each in task) == 300


def test_reported_offsets_are_plain_json() -> None:
    made = reader({T0: 80, T1: 20})
    made.latestOffset(offset(0, 0), datasource.ReadAllAvailable())
    assert json.loads(json.dumps(made.reportLatestOffset())) == offset(80, 20)


def test_the_group_gets_the_start_of_each_batch_once() -> None:
    made = reader({T0: 10}, commitGroup="dashboard")
    told: list[tuple[str, dict[TopicPartition, int]]] = []
    made._offsets.commit_to_group = lambda group, offsets: told.append((group, offsets))
    for start in (0, 0, 10, 10):
        made.latestOffset({"t": {"0": start}}, made.getDefaultReadLimit())
    assert told == [("dashboard", {T0: 0}), ("dashboard", {T0: 10})]
