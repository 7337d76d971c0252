"""`python -m tests.bench.spark`: the source without jars beside Spark's own connector, in one session, on one node,
over the same topics.

Sources take their runs in turn; the first run of each warms up and the others count. The session has Unix domain
sockets between Spark and its Python workers; what depends on them is measured again in a session with Spark's
default, TCP. Writes docs/benchmarks/spark-<date>.md and .json. Exit 0 when every aim is met, 1 when one is missed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from jepsen.spark.spark_sessions import start_session
from tests.integration.clusters import Cluster, running_cluster

SOURCES = ("kraft", "kafka")
PARTITIONS = 4
SIZES = (100, 1024)
TRIGGER_OFFSETS = 20_000
MICRO_RUNS = 5
"""By each source; the first warms up. Spark still gets faster in those after it, so each source is first in every
other one."""
Values = dict[str, dict[str, list[float]]]
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
# figure -> (label, aim, "ratio" of ours to theirs or our "value", whether more is better)
AIMS: dict[str, tuple[str, float | None, str, bool]] = {
    "batch_100_rows_s": ("batch read 100 B, rows/s", 1.2, "ratio", True),
    "batch_1024_rows_s": ("batch read 1 KB, rows/s", 1.2, "ratio", True),
    "micro_batch_ms": (f"micro-batch of {TRIGGER_OFFSETS} rows, p50 ms", 1.0, "ratio", False),
    "latest_offset_ms": ("driver's look-up in it, p50 ms", None, "ratio", False),
    "record_ms": ("one record, produced to seen, p50 ms", 250.0, "value", False),
    "micro_batch_ms_default": (
        f"micro-batch of {TRIGGER_OFFSETS} rows, Spark's default sockets, p50 ms",
        1.0,
        "ratio",
        False,
    ),
    "record_ms_default": ("one record, Spark's default sockets, p50 ms", 250.0, "value", False),
    "empty_trigger_ms": ("driver calls of an empty trigger, p50 ms", 10.0, "value", False),
}


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    values: Values = {}
    with tempfile.TemporaryDirectory(prefix="kraft-spark-bench-") as place, running_cluster(Path(place)) as cluster:
        for size in SIZES:
            fill(cluster, f"rows-{size}", options.records, size)
        for suffix, recommended in (("", "true"), ("_default", "false")):
            session = start_session(Path(place), settings={UNIX_SOCKETS: recommended})
            try:
                if not suffix:
                    batch(session, cluster, options, values)
                micro_batches(session, cluster, values, Path(place), suffix)
                single_records(session, cluster, options, values, Path(place), suffix)
            finally:
                session.stop()
        empty_triggers(cluster, values)
    return 0 if write(values, options) else 1


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.spark",
        description="Measure the Spark source without jars beside Spark's own connector.",
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=2, help="runs of each batch read that count; one more warms up")
    parser.add_argument("--singles", type=int, default=40, help="records sent one at a time")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing")
    parser.add_argument("--out", default="docs/benchmarks")
    found = parser.parse_args(arguments)
    if found.quick:
        found.records, found.runs, found.singles = 50_000, 1, 5
    return found


def note(values: Values, figure: str, source: str, value: float) -> None:
    values.setdefault(figure, {}).setdefault(source, []).append(value)
    print(f"  {figure:20} {source:6} {value:14.2f}", flush=True)


def say(values: Values, figure: str, source: str) -> None:
    found = values[figure][source]
    print(f"  {figure:22} {source:6} {statistics.median(found):14.2f} (median of {len(found)})", flush=True)


def fill(cluster: Cluster, topic: str, records: int, size: int) -> None:
    """Keyless records of one size, evenly over the partitions."""
    cluster.create(topic, PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "linger.ms": 20,
            "batch.size": 1 << 20,
            "queue.buffering.max.kbytes": 1 << 18,
        }
    )
    value = os.urandom(size)
    for index in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=index % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
        if index % 1000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


def batch(session: SparkSession, cluster: Cluster, options: argparse.Namespace, values: Values) -> None:
    """One aggregate over every row, at two sizes of records."""
    for size in SIZES:
        for run in range(options.runs + 1):
            for source in SOURCES if run % 2 == 0 else SOURCES[::-1]:
                frame = (
                    session.read.format(source)
                    .option("kafka.bootstrap.servers", cluster.bootstrap)
                    .option("subscribe", f"rows-{size}")
                    .load()
                )
                begun = time.perf_counter()
                row = frame.agg(f.sum(f.length("value")), f.count("*"), f.max("offset")).collect()[0]
                seconds = time.perf_counter() - begun
                assert (row[0], row[1]) == (options.records * size, options.records), f"{source} read {row}"
                if run:
                    note(values, f"batch_{size}_rows_s", source, options.records / seconds)


def stream(session: SparkSession, cluster: Cluster, source: str, topic: str, **options: str) -> DataFrame:
    reader = (
        session.readStream.format(source)
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", topic)
    )
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def micro_batches(session: SparkSession, cluster: Cluster, values: Values, place: Path, suffix: str) -> None:
    """A topic in micro-batches into nothing; the first few of each run warm up."""
    for run in range(MICRO_RUNS):
        for source in SOURCES if run % 2 == 0 else SOURCES[::-1]:
            frame = stream(
                session,
                cluster,
                source,
                "rows-100",
                startingOffsets="earliest",
                maxOffsetsPerTrigger=str(TRIGGER_OFFSETS),
            )
            writer = frame.writeStream.format("noop").option(
                "checkpointLocation", str(place / f"micro-{source}-{run}{suffix}")
            )
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            progress = [json.loads(each.json) for each in query.recentProgress if each.numInputRows]
            for each in progress[len(progress) // 5 :] if run else []:
                values.setdefault(f"latest_offset_ms{suffix}", {}).setdefault(source, []).append(
                    each["durationMs"]["latestOffset"]
                )
                values.setdefault(f"micro_batch_ms{suffix}", {}).setdefault(source, []).append(
                    each["durationMs"]["triggerExecution"]
                )
    for source in SOURCES:
        say(values, f"micro_batch_ms{suffix}", source)


def single_records(
    session: SparkSession, cluster: Cluster, options: argparse.Namespace, values: Values, place: Path, suffix: str
) -> None:
    """Records sent one after another, each when the one before it was seen."""
    for source in SOURCES:
        topic = cluster.create(f"single-{source}{suffix}", 1)
        seen: dict[bytes, float] = {}
        news = threading.Condition()

        def look(frame: DataFrame, _: int, seen: dict[bytes, float] = seen, news: threading.Condition = news) -> None:
            rows = frame.select("value").collect()
            with news:
                seen.update({bytes(row.value): time.perf_counter() for row in rows})
                news.notify()

        writer = stream(session, cluster, source, topic, startingOffsets="earliest").writeStream.foreachBatch(look)
        query = (
            writer.option("checkpointLocation", str(place / f"single-{source}{suffix}"))
            .trigger(processingTime="0 seconds")
            .start()
        )
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
        for number in range(options.singles + 5):
            value, begun = b"%d" % number, time.perf_counter()
            producer.produce(topic, value)
            producer.flush()
            with news:
                assert news.wait_for(lambda value=value, seen=seen: value in seen, 60), f"record {number} was not seen"  # type: ignore[misc]
            if number >= 5:
                values.setdefault(f"record_ms{suffix}", {}).setdefault(source, []).append((seen[value] - begun) * 1000)
            time.sleep(0.01 * (number % 7))
        query.stop()
        say(values, f"record_ms{suffix}", source)


def empty_triggers(cluster: Cluster, values: Values) -> None:
    """What a trigger without news asks of our driver side: the latest offsets, nothing else."""
    from kraft.spark.source.options import stream_options
    from kraft.spark.source.stream_reader import KafkaStreamReader

    reader = KafkaStreamReader(
        stream_options(
            {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "rows-100", "startingOffsets": "earliest"}
        )
    )
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    for number in range(220):
        begun = time.perf_counter()
        reader.latestOffset(start, limit)
        if number >= 20:
            values.setdefault("empty_trigger_ms", {}).setdefault("kraft", []).append(
                (time.perf_counter() - begun) * 1000
            )
    reader.stop()


def write(values: Values, options: argparse.Namespace) -> bool:
    """The page and the JSON. Answers whether every aim is met."""
    lines, met_all = [], True
    for figure, (label, aim, kind, more) in AIMS.items():
        ours = statistics.median(values[figure]["kraft"])
        theirs = statistics.median(values[figure]["kafka"]) if "kafka" in values[figure] else None
        ratio = ours / theirs if theirs else None
        compared = ratio if kind == "ratio" else ours
        met = None if aim is None or compared is None else (compared >= aim if more else compared <= aim)
        met_all = met_all and met is not False
        aimed = "" if aim is None else f"{'ratio ' if kind == 'ratio' else ''}{'>=' if more else '<='} {aim:g}"
        shown = [
            "-" if each is None else f"{each:.2f}" if each < 100 else f"{each:,.0f}" for each in (ours, theirs, ratio)
        ]
        lines.append(f"| {label} | {' | '.join(shown)} | {aimed} | {({True: 'yes', False: '**no**', None: ''})[met]} |")
    head = [
        f"# Spark sources over one kraft node, {datetime.date.today().isoformat()}",
        "",
        (
            f"`python -m tests.bench.spark`: pyspark 4.2, local[2], {options.records:,} records, {PARTITIONS} "
            "partitions, no compression;"
        ),
        (
            f"`kraft` beside `kafka` (Spark's own connector 4.2.0) in one session on {os.cpu_count()} cores that "
            "also run the node. Runs in turn; the first of"
        ),
        (
            f"each warms up; medians ({MICRO_RUNS - 1} runs of micro-batches). `{UNIX_SOCKETS}=true` but for the "
            "rows that name Spark's default sockets."
        ),
        "",
        "| figure | kraft | kafka | ratio | aim | met |",
        "|---|---|---|---|---|---|",
    ]
    text = "\n".join([*head, *lines, ""])
    print(text)
    if not options.quick:
        stem = Path(options.out) / f"spark-{datetime.date.today().isoformat()}"
        stem.with_suffix(".md").write_text(text)
        stem.with_suffix(".json").write_text(json.dumps(rounded(values), indent=1) + "\n")
    return met_all


def rounded(values: Values) -> dict[str, Any]:
    return {
        figure: {source: [round(each, 2) for each in found] for source, found in by_source.items()}
        for figure, by_source in values.items()
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
