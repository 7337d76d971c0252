"""Options of a read: names, precedence and refusals of Spark's own Kafka connector."""

from __future__ import annotations

import pytest

from kraft.common.ids import TopicPartition
from kraft.spark.option_values import offsets_of_json, offsets_to_json
from kraft.spark.source.options import (
    EARLIEST,
    LATEST,
    Assign,
    Everywhere,
    GlobalTimestamp,
    SpecificOffsets,
    SpecificTimestamps,
    Subscribe,
    SubscribePattern,
    batch_options,
    parse_duration_ms,
    stream_options,
)

BASE = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


def test_by_default_a_batch_query_reads_the_whole_topic_and_a_stream_starts_at_the_end() -> None:
    batch, stream = batch_options(BASE), stream_options(BASE)
    assert (batch.starting, batch.ending) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert (stream.starting, stream.ending) == (Everywhere(LATEST), None)
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert (
        batch.trigger_delay_ms_max,
        batch.poll_timeout_ms,
        batch.offset_fetch_attempts_max,
        batch.offset_fetch_retry_ms,
    ) == (900_000, 120_000, 3, 1000)
    assert (batch.group_id_prefix, stream.group_id_prefix) == ("spark-kafka-relation", "spark-kafka-source")


def test_option_names_are_case_insensitive() -> None:
    options = batch_options(
        {"KAFKA.Bootstrap.Servers": "h:1", "SubScribe": "a, b,,a", "MINPARTITIONS": "3", "includeheaders": "TRUE"}
    )
    assert options.selection == Subscribe(("a", "b"))
    assert options.partitions_min == 3
    assert options.include_headers


@pytest.mark.parametrize(
    ("given", "selection"),
    [
        ({"subscribePattern": " t.* "}, SubscribePattern("t.*")),
        (
            {"assign": '{"a":[0,2],"b":[1]}'},
            Assign(frozenset({TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)})),
        ),
    ],
)
def test_topics_are_selected_by_exactly_one_of_three_options(given: dict[str, str], selection: object) -> None:
    assert batch_options({"kafka.bootstrap.servers": "h:1", **given}).selection == selection


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        (
            {"startingTimestamp": " 5 ", "startingOffsetsByTimestamp": "{}", "startingOffsets": "earliest"},
            GlobalTimestamp(5),
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":7}}', "startingOffsets": "earliest"},
            SpecificTimestamps({TopicPartition("t", 0): 7}),
        ),
        (
            {"startingOffsets": '{"t":{"0":23,"1":-2}}'},
            SpecificOffsets({TopicPartition("t", 0): 23, TopicPartition("t", 1): -2}),
        ),
        ({"startingOffsets": "EARLIEST"}, Everywhere(EARLIEST)),
    ],
)
def test_the_first_starting_option_in_order_of_precedence_applies(given: dict[str, str], limit: object) -> None:
    assert batch_options({**BASE, **given}).starting == limit


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"assign": "{}"}, "Only one of the following options"),
        ({"subscribe": " , "}, "No topics to subscribe"),
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest"),
        (
            {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"1":5}}'},
            "should have the same topic-partitions",
        ),
        (
            {"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"0":5}}'},
            "start offset 9 is greater than the end offset 5",
        ),
        ({"startingOffsets": "{nonsense"}, 'Expected e.g. {"topicA"'),
        ({"startingOffsets": '{"t":{"0":"1"}}'}, 'Expected e.g. {"topicA"'),
        ({"startingOffsets": '{"t":"earliest"}'}, 'Expected e.g. {"topicA"'),
        ({"startingTimestamp": "noon"}, "Expected a single long value, got noon"),
        (
            {"startingTimestamp": "-1"},
            "The target time for startingTimestamp is -1. The target time cannot be negative.",
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":-2}}'},
            "The target time for partition t-0 is -2. The target time cannot be negative.",
        ),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is higher than the maxOffsetsPerTrigger"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "must be one of error, latest"),
        ({"kafka.auto.offset.reset": "earliest"}, "'auto.offset.reset' is not supported"),
        ({"kafka.enable.auto.commit": "true"}, "'enable.auto.commit' is not supported"),
        ({"kafka.key.deserializer": "x"}, "'key.deserializer' is not supported"),
        ({"kafka.value.deserializer": "x"}, "'value.deserializer' is not supported"),
        ({"kafka.interceptor.classes": "x"}, "'interceptor.classes' is not supported"),
    ],
)
def test_invalid_options_are_refused_with_a_reason(given: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        batch_options({**BASE, **given})
    assert text in str(caught.value)


def test_invalid_header_names_are_replaced_as_in_java_unless_an_option_refuses_them() -> None:
    assert not batch_options(BASE).refuse_names
    assert batch_options({**BASE, "headerNames": "refuse"}).refuse_names
    with pytest.raises(ValueError, match="headerNames must be one of replace, refuse"):
        batch_options({**BASE, "headerNames": "keep"})


def test_a_source_needs_bootstrap_servers_and_topics() -> None:
    with pytest.raises(ValueError, match=r"'kafka\.bootstrap\.servers' must be specified"):
        batch_options({"subscribe": "t"})
    with pytest.raises(ValueError, match="One of the following options must be specified"):
        batch_options({"kafka.bootstrap.servers": "h:1"})


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_refuses_ending_offsets(name: str) -> None:
    with pytest.raises(ValueError, match="not valid in streaming queries"):
        stream_options({**BASE, name: "latest"})


def test_offsets_have_the_format_of_the_official_checkpoint_in_a_fixed_order() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 2): 7, TopicPartition("a", 0): 23}
    shaped = offsets_to_json(offsets)
    assert str(shaped) == "{'a': {'0': 23}, 'b': {'2': 7, '10': 1}}"
    assert offsets_of_json(shaped) == offsets


@pytest.mark.parametrize(
    ("text", "expected"),
    [("15m", 900_000), ("100 ms", 100), ("2h", 7_200_000), ("250", 250), ("1d", 86_400_000), ("1500us", 1)],
)
def test_timestamps_are_parsed_as_spark_parses_them(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


def test_an_invalid_timestamp_is_refused() -> None:
    with pytest.raises(ValueError, match="soon"):
        parse_duration_ms("soon")


def test_a_catalog_table_whose_options_spark_keeps_is_refused_with_the_remedy() -> None:
    """What Spark 4.2 does with CREATE TABLE ... USING kraft OPTIONS (...), then SELECT."""
    data_source = pytest.importorskip("kraft.spark.data_source")
    with pytest.raises(ValueError, match="CREATE TEMPORARY VIEW"):
        data_source.KraftDataSource({}).reader(None)
