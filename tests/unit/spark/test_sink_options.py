"""Which producer a sink that writes at least once has, and what a sink does in a mode that hands it no rows."""

from __future__ import annotations

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from kraft.spark.errors import SourceError
from kraft.spark.sink.sink_options import SinkOptions, sink_options
from kraft.spark.sink.writer import KafkaStreamWriter

SCHEMA = StructType([StructField("value", BinaryType())])


def checked(streaming: bool = False, **kafka: str) -> SinkOptions:
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in kafka.items()}
    return sink_options({"kafka.bootstrap.servers": "h:1", "topic": "t", **given}, SCHEMA, streaming=streaming)


@pytest.mark.parametrize(
    "kafka",
    [
        {},
        {"acks": " -1", "linger_ms": "50", "batch_size": "9", "enable_idempotence": "True"},
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "p"},
    ],
)
def test_the_built_in_producer_is_used_when_it_supports_all_options(kafka: dict[str, str]) -> None:
    assert checked(**kafka).is_built_in


@pytest.mark.parametrize(
    "kafka",
    [
        {"acks": "1"},
        {"enable_idempotence": "false", "acks": "all"},
        {"partitioner": "consistent"},
        {"delivery_timeout_ms": "1000"},
        {"max_request_size": "100"},
        {"compression_type": "inherit"},
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"},
    ],
)
def test_librdkafka_is_used_when_an_option_needs_it(kafka: dict[str, str]) -> None:
    assert not checked(**kafka).is_built_in


def test_codec_and_client_id_follow_the_kafka_properties() -> None:
    found = checked(compression_type="lz4", client_id="mine")
    assert (found.is_built_in, found.codec, found.client_id) == (True, 3, "mine")
    assert not checked(streaming=True).is_built_in


def test_tasks_may_write_for_themselves_unless_an_option_keeps_their_order() -> None:
    given = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
    for more, may in (({}, True), ({"taskTransactions": "auto"}, True), ({"taskTransactions": "never"}, False)):
        assert sink_options({**given, **more}, SCHEMA, streaming=True).task_transactions is may
    with pytest.raises(ValueError, match="taskTransactions"):
        sink_options({**given, "taskTransactions": "always"}, SCHEMA, streaming=True)


def test_a_sink_without_rows_from_spark_does_not_report_them_as_written() -> None:
    """In continuous mode: Spark would count the epoch as committed."""
    with pytest.raises(SourceError, match=r"KAFKA_SINK_NOT_CONTINUOUS.* format\(\"kafka\"\)"):
        object.__new__(KafkaStreamWriter).commit([None], 0)


@pytest.mark.parametrize("name", ["key_serializer", "value_serializer"])
def test_rows_must_be_binary_or_text_whatever_the_serializer_option(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not supported as (keys|values) are serialized with ByteArraySerializer"):
        checked(**{name: "foo"})
