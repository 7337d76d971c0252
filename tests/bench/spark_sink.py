"""`python -m tests.bench.spark_sink`: the sink without jars beside Spark's own connector, in one session, on one node.

The same rows go to either sink in turn, into a new topic each time; the first run of each warms up, and each round
gives one ratio. Rows have a key and a value; those of the streams come from Parquet files. The processor time of
Spark's Python processes is told, too. Writes docs/benchmarks/spark-sink-<date>.md and .json. Exit 0 when every aim is
met, 1 when one is missed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from jepsen.spark.spark_sessions import start_session
from tests.bench.process_usage import TICKS
from tests.integration.clusters import Cluster, running_cluster

SINKS = ("kraft", "kafka")
PARTITIONS = 4
SIZES = (100, 1024)
TRIGGERS = 4
"""Micro-batches of a stream."""
FILES = 2
"""Of each."""
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"


class Kind(NamedTuple):
    """A way to write. `options` are for our sink."""

    label: str
    aim: float
    is_stream: bool
    options: Mapping[str, str]


KINDS = {
    "batch": Kind("batch", 1.2, False, {}),
    "least": Kind("stream, at least once", 1.2, True, {"exactlyOnce": "false"}),
    "once": Kind("stream, ours exactly once", 1.0, True, {"taskTransactions": "never"}),
    "tasks": Kind("stream, ours exactly once, in transactions of tasks", 1.0, True, {}),
}


class Round(NamedTuple):
    """One run of one sink: rows a second, and the processor time of Spark's Python processes, us a row."""

    rows_s: float
    python_us: float


Values = dict[str, dict[str, list[Round]]]


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    values: Values = {}
    with (
        tempfile.TemporaryDirectory(prefix="kraft-sink-bench-") as place,
        running_cluster(Path(place), {"transaction.two.phase.commit.enable": "true"}) as cluster,
    ):
        session = start_session(Path(place), settings={UNIX_SOCKETS: "true"})
        try:
            for size in options.sizes:
                measure(session, cluster, options, values, Path(place), size)
        finally:
            session.stop()
    return 0 if write(values, options) else 1


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.spark_sink", description="Measure Spark's sinks beside each other."
    )
    parser.add_argument("--records", type=int, default=600_000, help="of 100 B; of 1 KB a third")
    parser.add_argument("--runs", type=int, default=3, help="rounds that count; one more warms up")
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=tuple(KINDS))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing")
    parser.add_argument("--out", default="docs/benchmarks")
    found = parser.parse_args(arguments)
    if found.quick:
        found.records, found.runs = 20_000, 1
    return found


def measure(
    session: SparkSession, cluster: Cluster, options: argparse.Namespace, values: Values, place: Path, size: int
) -> None:
    """All kinds with records of one size, in turn."""
    count = options.records if size < 1000 else options.records // 3
    source, admin = place / f"source-{size}", AdminClient({"bootstrap.servers": cluster.bootstrap})
    rows = rows_of(session, count, size)
    rows.repartition(TRIGGERS * FILES).write.parquet(str(source))
    for run in range(options.runs + 1):
        for kind in options.kinds:
            for sink in SINKS if run % 2 == 0 else SINKS[::-1]:
                topic = cluster.create(f"{kind}-{size}-{sink}-{run}", PARTITIONS)
                more = KINDS[kind].options if sink == "kraft" else {}
                before = python_seconds(session)
                if KINDS[kind].is_stream:
                    frame = (
                        session.readStream.schema(rows.schema).option("maxFilesPerTrigger", FILES).parquet(str(source))
                    )
                    seconds = drain(frame, sink, cluster, topic, more, place / topic)
                else:
                    seconds = timed(
                        lambda rows=rows, sink=sink, topic=topic, more=more: save(rows, sink, cluster, topic, more)
                    )  # type: ignore[misc]
                found = Round(count / seconds, (python_seconds(session) - before) / count * 1e6)
                assert_whole(session, cluster, topic, count, size)
                admin.delete_topics([topic])[topic].result(30)
                print(f"  {kind:6} {size:5} {sink:6} {found.rows_s:12,.0f} {found.python_us:8.2f}", flush=True)
                if run:
                    values.setdefault(f"{kind}_{size}", {}).setdefault(sink, []).append(found)


def rows_of(session: SparkSession, count: int, size: int) -> DataFrame:
    value = "cast(rpad(cast(id as string), " + str(size) + ", 'kraft') as binary) as value"
    return session.range(0, count, 1, 2).selectExpr("cast(cast(id as string) as binary) as key", value)


def save(rows: DataFrame, sink: str, cluster: Cluster, topic: str, options: Mapping[str, str]) -> None:
    writer = rows.write.format(sink).option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", topic)
    writer.options(**options).mode("append").save()


def timed(act: Callable[[], None]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def drain(
    frame: DataFrame, sink: str, cluster: Cluster, topic: str, options: Mapping[str, str], checkpoint: Path
) -> float:
    """Write the whole stream. Answers the seconds of its micro-batches."""
    writer = frame.writeStream.format(sink).option("kafka.bootstrap.servers", cluster.bootstrap)
    writer = writer.option("topic", topic).options(**options).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [json.loads(each.json) for each in query.recentProgress if each.numInputRows]
    return sum(each["durationMs"]["triggerExecution"] for each in progress) / 1000


def assert_whole(session: SparkSession, cluster: Cluster, topic: str, count: int, size: int) -> None:
    reader = session.read.format("kraft").option("kafka.bootstrap.servers", cluster.bootstrap)
    frame = reader.option("subscribe", topic).option("kafka.isolation.level", "read_committed").load()
    row = frame.selectExpr("count(*)", "sum(length(value))").collect()[0]
    assert tuple(row) == (count, count * size), f"{topic} holds {row}"


def python_seconds(session: SparkSession) -> float:
    """Processor time of Spark's Python processes, those that have ended included."""
    jvm = session.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    ended = stat_fields(Path(f"/proc/{jvm}/stat"))[13:15]
    return sum(map(int, ended), sum(int(each) for fields in descendants(jvm) for each in fields[11:15])) / TICKS


def stat_fields(path: Path) -> list[str]:
    """What is said behind the name. Raises OSError."""
    return path.read_text().rpartition(")")[2].split()


def descendants(pid: int) -> Iterator[list[str]]:
    """What /proc/*/stat says behind their names, of all below a process."""
    below: dict[int, list[tuple[int, list[str]]]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat_fields(path)
        except OSError:
            continue  # It ended.
        below.setdefault(int(fields[1]), []).append((int(path.parent.name), fields))
    waiting = [pid]
    while waiting:
        for child, fields in below.get(waiting.pop(), []):
            waiting.append(child)
            yield fields


def write(values: Values, options: argparse.Namespace) -> bool:
    """The page and the JSON. Answers whether every aim is met."""
    lines, met_all = [], True
    for figure, by_sink in values.items():
        name, size = figure.rsplit("_", 1)
        kind = KINDS[name]
        ratios = [ours.rows_s / theirs.rows_s for ours, theirs in zip(by_sink["kraft"], by_sink["kafka"], strict=True)]
        ratio, (ours, theirs) = statistics.median(ratios), (median(by_sink[sink], "rows_s") for sink in SINKS)
        met = ratio >= kind.aim
        met_all = met_all and met
        lines.append(
            f"| {kind.label}, {size} B | {ours:,.0f} | {theirs:,.0f} | {ratio:.2f} ({min(ratios):.2f} to "
            f"{max(ratios):.2f}) | >= {kind.aim:g} | {'yes' if met else '**no**'} | "
            f"{median(by_sink['kraft'], 'python_us'):.2f} | {median(by_sink['kafka'], 'python_us'):.2f} |"
        )
    head = [
        f"# Spark sinks over one kraft node, {datetime.date.today().isoformat()}",
        "",
        f"`python -m tests.bench.spark_sink`: pyspark 4.2, local[2], {options.records:,} records of 100 B or "
        f"{options.records // 3:,} of 1 KB, with keys,",
        f"{PARTITIONS} partitions, no compression, `{UNIX_SOCKETS}=true`; `kraft` beside `kafka` (Spark's own "
        f"connector 4.2.0, at least once) in one session on {os.cpu_count()} cores",
        f"that also run the node. Runs in turn; the first of each warms up; medians of {options.runs}, and the range "
        f"of the rounds' ratios. Streams: {TRIGGERS} micro-batches, from Parquet files. With",
        "either sink, a query starts a Python process that looks sources up.",
        "",
        "| rows/s | kraft | kafka | ratio | aim | met | Python CPU with kraft, us a record | with kafka |",
        "|---|---|---|---|---|---|---|---|",
    ]
    text = "\n".join([*head, *lines, ""])
    print(text)
    if not options.quick:
        stem = Path(options.out) / f"spark-sink-{datetime.date.today().isoformat()}"
        stem.with_suffix(".md").write_text(text)
        shown = {
            figure: {sink: [[round(part, 2) for part in each] for each in found] for sink, found in by_sink.items()}
            for figure, by_sink in values.items()
        }
        stem.with_suffix(".json").write_text(json.dumps(shown, indent=1) + "\n")
    return met_all


def median(rounds: Sequence[Round], field: str) -> float:
    return statistics.median(getattr(each, field) for each in rounds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
