"""What four of Spark's own suites check of its Kafka connector, and what becomes of it here.

A row has the name that Spark's suite gives the check, the tests of ours that show the same, and, where our answer is
another one, what it is and why. KafkaRelationSuite and the others are in Spark's `connector/kafka-0-10-sql`.
"""

from __future__ import annotations

from typing import NamedTuple

SPARK = "tests/integration/test_spark.py::test_"
SUITES = "tests/integration/test_spark_suites.py::test_"
REFUSALS = "tests/integration/test_spark_refusals.py::test_"
ONCE = "tests/integration/test_spark_exactly_once.py::test_"
RECIPES = "tests/integration/test_spark_recipes.py::test_"
STREAM = "tests/unit/spark/test_stream_reader.py::test_"
OFFSETS = "tests/unit/spark/test_offset_reader.py::test_"
OPTIONS = "tests/unit/spark/test_options.py::test_"
RANGES = "tests/unit/spark/test_ranges.py::test_"
CLIENT = "tests/unit/spark/test_client_config.py::test_"
SINKS = "tests/unit/spark/test_sink_options.py::test_"
ROWS = "tests/unit/spark/test_record_rows.py::test_"


class Check(NamedTuple):
    """One check of Spark's. `otherwise` is empty where ours is the same."""

    name: str
    tests: tuple[str, ...]
    otherwise: str = ""


STARTS = f"{SUITES}a_stream_starts_like_the_official_one_and_resumes"
ADDED = f"{SPARK}an_added_partition_is_read_from_its_start"
STRATEGIES = f"{OPTIONS}topics_are_selected_by_exactly_one_of_three_options"
LOSSES = f"{SUITES}a_topic_that_loses_partitions_or_records_fails_an_available_now_query"
LATE = f"{SPARK}a_frame_or_view_with_a_pushed_filter_is_planned_again_at_each_action"
TRANSACTIONS = f"{SUITES}a_read_committed_stream_has_the_batches_of_the_official_one"
SENTINELS = f"{SPARK}ranges_given_by_options_equal_those_of_the_official_connector"
FROZEN = "a frame is planned once, at its first action, unless a filter is handed over: Spark plans Python sources so"
ONE_WAY = "Spark has one way to read a Python source"
NO_METRICS = "Spark asks no Python source for metrics; docs/spark.md tells how to see the lag"

MICRO_BATCH = (
    Check(
        "async progress tracking",
        (f"{REFUSALS}a_trigger_that_python_sources_do_not_support_is_rejected_by_name",),
        "Spark refuses it for our sink: Sink kraft does not support async progress tracking",
    ),
    Check("Trigger.AvailableNow", (f"{SPARK}a_stream_resumes_where_its_checkpoint_ends",)),
    Check("Trigger.AvailableNow: topic partitions got unavailable", (LOSSES,)),
    Check("Trigger.AvailableNow: offsets in planned topic partitions got unavailable", (LOSSES,)),
    Check(
        "SPARK-53560: uncommitted batch retry in AvailableNow trigger",
        (f"{STREAM}a_batch_planned_before_partitions_were_added_resumes_under_available_now",),
    ),
    Check(
        "(de)serialization of initial offsets",
        (f"{SPARK}a_stream_from_latest_keeps_its_start_although_its_first_batch_fails",),
        "the start is in the first batch's offsets, not in a file of its own",
    ),
    Check("SPARK-26718: rate limit of Long.MaxValue", (f"{SUITES}the_largest_limit_reads_everything",)),
    Check(
        "maxOffsetsPerTrigger",
        (
            f"{SUITES}a_limit_is_shared_among_partitions_as_by_the_official_connector",
            f"{SUITES}a_trigger_that_runs_once_ignores_limits",
            f"{RANGES}an_offset_limit_starves_no_partition_and_never_exceeds_the_end",
        ),
    ),
    Check(
        "minOffsetsPerTrigger",
        (
            f"{STREAM}a_trigger_after_the_first_waits_for_min_offsets_per_trigger",
            f"{STREAM}no_trigger_waits_longer_than_max_trigger_delay",
            f"{SUITES}a_trigger_that_runs_once_ignores_limits",
        ),
    ),
    Check("compositeReadLimit", (f"{SUITES}a_trigger_waits_for_min_offsets_or_its_max_delay",)),
    Check("input row metrics", (f"{RECIPES}a_query_moves_between_the_connectors_and_back_with_its_checkpoint",)),
    Check(
        "subscribing topic by pattern with topic deletions",
        (f"{SUITES}a_pattern_stream_follows_created_and_deleted_topics",),
    ),
    Check("SPARK-41375: empty partitions", (f"{SUITES}a_pattern_stream_follows_created_and_deleted_topics",)),
    Check("topic recreation between batches", (f"{SPARK}a_topic_recreated_under_a_stream_is_data_loss",)),
    Check(
        "topic-level offsets (two checks)",
        (f"{OPTIONS}invalid_options_are_refused_with_a_reason",),
        "refused: a word for a topic is in no released connector; they, too, take offsets of partitions alone",
    ),
    Check(
        "initial offsets of other versions (SPARK-19517, three checks)",
        (f"{SPARK}a_stream_from_latest_keeps_its_start_although_its_first_batch_fails",),
        "sources/0/0 is neither written nor read: the offsets of batches are, by either connector",
    ),
    Check("KafkaSource with watermark", (f"{SUITES}record_timestamps_define_windows_and_watermarks",)),
    Check(
        "delete a topic when a Spark job is running",
        (
            f"{SPARK}a_running_stream_detects_a_recreated_topic_that_grew_beyond_its_position",
            f"{OFFSETS}with_fail_on_data_loss_false_a_query_continues_without_a_deleted_topic",
        ),
    ),
    Check("SPARK-22956: a union of two topics", (f"{SUITES}the_limit_applies_to_each_stream_of_a_union_separately",)),
    Check(
        "allow group.id prefix, and override",
        (f"{OPTIONS}by_default_a_batch_query_reads_the_whole_topic_and_a_stream_starts_at_the_end",),
        "no group is joined, so brokers list none; commitGroup commits offsets to one",
    ),
    Check(
        "stream-stream self-join generates only one offset in log",
        (f"{SUITES}a_stream_joined_with_itself_has_the_rows_of_the_official_one",),
    ),
    Check("transactional messages: read_committed", (TRANSACTIONS,)),
    Check(
        "transactional messages: read_uncommitted",
        (f"{SPARK}a_read_ends_although_its_range_ends_in_aborted_records",),
    ),
    Check("SPARK-25495: FetchedData.reset", (TRANSACTIONS,)),
    Check(
        "SPARK-27494: null key/values",
        (f"{SPARK}every_read_method_returns_the_rows_of_the_official_connector_for_every_codec",),
    ),
    Check(
        "minPartitions (SPARK-30656, and is supported)",
        (
            f"{SPARK}a_read_is_split_into_as_many_tasks_as_by_the_official_connector",
            f"{STREAM}small_ranges_share_a_task_unless_options_set_the_split",
            f"{OPTIONS}invalid_options_are_refused_with_a_reason",
        ),
    ),
    Check("SPARK-56243: malformed record timestamp", (f"{ROWS}a_timestamp_out_of_sparks_range_is_refused",)),
    Check("V1 and V2 source (two checks)", (f"{SPARK}sql_reads_a_topic_through_a_view",), ONE_WAY),
    Check(
        "default config of includeHeader doesn't break existing query",
        (f"{RECIPES}a_query_moves_between_the_connectors_and_back_with_its_checkpoint",),
    ),
    Check("custom metrics (four checks)", (f"{STREAM}reported_offsets_are_plain_json",), NO_METRICS),
    Check("cannot stop Kafka stream", (f"{SUITES}the_limit_applies_to_each_stream_of_a_union_separately",)),
    Check(
        "assign, subscribe, pattern: from latest",
        (f"{STREAM}the_start_of_a_query_stays_fixed_while_records_are_produced", ADDED),
    ),
    Check(
        "assign, subscribe, pattern: from earliest",
        (f"{SPARK}a_stream_resumes_where_its_checkpoint_ends", STRATEGIES, ADDED),
    ),
    Check("assign, subscribe, pattern: from specific offsets", (STARTS,)),
    Check("assign, subscribe, pattern: from specific timestamps", (STARTS,)),
    Check("assign, subscribe, pattern: from global timestamp", (STARTS,)),
    Check(
        "non-matching starting offset (four checks)",
        (STARTS, f"{OFFSETS}a_timestamp_beyond_all_records_is_not_treated_as_a_lost_connection"),
    ),
    Check(
        "bad source options",
        (f"{OPTIONS}invalid_options_are_refused_with_a_reason", f"{OPTIONS}a_stream_refuses_ending_offsets"),
        "what only a stream refuses is told when the query starts, not at load(): Spark says only then that it is one",
    ),
    Check("unsupported kafka configs", (f"{OPTIONS}invalid_options_are_refused_with_a_reason",)),
    Check("get offsets from case insensitive parameters", (f"{OPTIONS}option_names_are_case_insensitive",)),
    Check(
        "Kafka column types", (f"{SPARK}every_read_method_returns_the_rows_of_the_official_connector_for_every_codec",)
    ),
    Check(
        "stress test with multiple topics and partitions",
        ("tests/integration/test_spark_harness.py::test_spark_delivers_each_record_once_while_everything_is_killed",),
    ),
)
RELATION = (
    Check("explicit earliest to latest offsets", (SENTINELS, LATE), FROZEN),
    Check(
        "default starting and ending offsets",
        (f"{OPTIONS}by_default_a_batch_query_reads_the_whole_topic_and_a_stream_starts_at_the_end",),
    ),
    Check("explicit offsets", (SENTINELS, LATE), FROZEN),
    Check(
        "default starting and ending offsets with headers",
        (f"{SPARK}every_read_method_returns_the_rows_of_the_official_connector_for_every_codec",),
    ),
    Check("timestamps for starting and ending (six checks)", (SENTINELS,)),
    Check(
        "no matched offset for timestamp - startingOffsets",
        (f"{OFFSETS}a_timestamp_beyond_all_records_is_not_treated_as_a_lost_connection", SENTINELS),
    ),
    Check("no matched offset for timestamp - endingOffsets", (SENTINELS,)),
    Check(
        "preferences on offset related options",
        (f"{OPTIONS}the_first_starting_option_in_order_of_precedence_applies", SENTINELS),
    ),
    Check("reuse same dataframe in query", (f"{SUITES}a_frame_used_twice_in_a_query_is_read_twice",)),
    Check("test late binding start offsets", (LATE,), FROZEN),
    Check(
        "bad batch query options",
        (
            f"{OPTIONS}invalid_options_are_refused_with_a_reason",
            f"{SPARK}invalid_options_are_rejected_before_anything_runs",
        ),
    ),
    Check(
        "transactional messages (two checks)",
        (f"{SPARK}a_read_ends_although_its_range_ends_in_aborted_records",),
    ),
    Check(
        "SPARK-30656: minPartitions",
        (f"{SPARK}a_read_is_split_into_as_many_tasks_as_by_the_official_connector", LATE),
        FROZEN,
    ),
    Check("start offset and end offset must match", (f"{OPTIONS}invalid_options_are_refused_with_a_reason",)),
    Check("unresolved start offset greater than end offset", (f"{OPTIONS}invalid_options_are_refused_with_a_reason",)),
    Check(
        "resolved start offset greater than end offset (two checks)",
        (f"{SUITES}a_start_offset_beyond_the_end_is_rejected_as_by_the_official_connector",),
    ),
    Check("V1 and V2 source (two checks)", (f"{SPARK}sql_reads_a_topic_through_a_view",), ONE_WAY),
)
SINK = (
    Check("streaming - write to kafka with topic field", (f"{ONCE}one_batch_writes_rows_to_several_topics",)),
    Check("streaming - write w/o topic field, with topic option", (f"{SPARK}a_stream_writes_into_a_topic",)),
    Check("streaming - topic field and topic option", (f"{SUITES}the_topic_option_overrides_the_topic_column",)),
    Check("streaming - bad schema, wrong types (two checks)", (f"{SPARK}a_sink_rejects_rows_that_it_cannot_write",)),
    Check(
        "streaming - write to non-existing topic",
        (f"{REFUSALS}a_user_error_is_shown_as_one_sentence_without_a_traceback",),
    ),
    Check(
        "streaming - exception on config serializer",
        (f"{SINKS}rows_must_be_binary_or_text_whatever_the_serializer_option",),
    ),
    Check(
        "streaming - sink progress is produced",
        (f"{RECIPES}a_query_moves_between_the_connectors_and_back_with_its_checkpoint",),
        "sink.numOutputRows is -1: Spark has no figure of Python sinks",
    ),
    Check(
        "continuous mode (all checks)",
        (f"{SINKS}a_sink_without_rows_from_spark_does_not_report_them_as_written",),
        "refused: KAFKA_SINK_NOT_CONTINUOUS",
    ),
    Check(
        "write big data with small producer buffer", (f"{SUITES}records_larger_than_the_producers_memory_are_written",)
    ),
    Check("batch - write to kafka", (f"{SUITES}headers_of_a_written_frame_are_read_back_by_either_source",)),
    Check(
        "batch - partition column and partitioner priorities",
        (
            f"{SPARK}keys_are_written_to_the_same_partitions_as_by_the_official_sink",
            f"{SPARK}a_frame_is_written_with_keys_headers_and_partitions",
            f"{CLIENT}a_java_partitioner_is_refused",
        ),
        "a partitioner of Java is refused; kafka.partitioner names one of librdkafka's",
    ),
    Check("batch - null topic field value, and no topic option", (f"{SPARK}a_sink_rejects_rows_that_it_cannot_write",)),
    Check("batch - unsupported save modes (two checks)", (f"{SUITES}only_the_append_mode_writes_to_a_topic",)),
    Check("SPARK-20496: batch - enforce analyzed plans", (f"{SUITES}rows_made_by_functions_are_written",)),
)
OFFSET_READER = (
    Check("isolationLevel (four checks)", (f"{SUITES}an_unknown_isolation_level_is_rejected", TRANSACTIONS)),
    Check("SPARK-30656: using specific offsets", (f"{RANGES}tasks_cover_every_range_without_gap_or_overlap",)),
    Check(
        "SPARK-30656: using special offsets",
        (SENTINELS, f"{RANGES}tasks_cover_every_range_without_gap_or_overlap"),
        "earliest and latest are resolved before the work is split, not by the tasks",
    ),
    Check(
        "SPARK-48383: START_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        (f"{OFFSETS}offset_limits_that_name_unknown_partitions_are_refused",),
    ),
    Check("SPARK-30656: multiple topic partitions", (f"{RANGES}tasks_cover_every_range_without_gap_or_overlap",)),
    Check(
        "SPARK-30656: getOffsetRangesFromResolvedOffsets",
        (f"{RANGES}tasks_cover_every_range_without_gap_or_overlap",),
    ),
    Check(
        "TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED (two checks)",
        (f"{OFFSETS}offset_limits_that_name_unknown_partitions_are_refused",),
    ),
)
TABLE = {
    "KafkaMicroBatchSourceSuite": MICRO_BATCH,
    "KafkaRelationSuite": RELATION,
    "KafkaSinkSuite": SINK,
    "KafkaOffsetReaderSuite": OFFSET_READER,
}
