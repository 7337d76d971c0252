"""`python -m tests.bench.spark_archive`: `kraft spark archive` beside Spark's own connector with `.write.parquet`, over
the same topic of flights as JSON, in one session with a warm JVM.

Both run in turn; the first run of each warms up. The figure is the processor time of the process tree without the
node: this process, the JVM, and Spark's Python workers. Writes docs/benchmarks/spark-archive-<date>.md and .json.
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
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from jepsen.spark.spark_sessions import start_session
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.archive import Archive, Typed, archive
from tests.bench.process_usage import TICKS, cpu_seconds
from tests.bench.spark_sink import descendants
from tests.bench.spark_typed import FLIGHT, PARTITIONS, TOPIC, UNIX_SOCKETS, fill
from tests.integration.clusters import Cluster, running_cluster

SOURCES = ("kraft", "kafka")
KINDS = ("raw", "typed")


class Round(NamedTuple):
    """Processor time and wall time of a run, in us a record, and the bytes of its files."""

    processor_us: float
    wall_us: float
    size: int


Values = dict[str, dict[str, list[Round]]]


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    values: Values = {}
    with tempfile.TemporaryDirectory(prefix="kraft-archive-bench-") as place, running_cluster(Path(place)) as cluster:
        fill(cluster, options.records)
        session = start_session(Path(place), settings={UNIX_SOCKETS: "true", "spark.sql.session.timeZone": "UTC"})
        try:
            for kind in KINDS:
                for run in range(options.runs + 1):
                    for source in SOURCES if run % 2 == 0 else SOURCES[::-1]:
                        found = measured(
                            session, cluster, source, kind, Path(place) / f"{kind}-{source}-{run}", options
                        )
                        print(f"  {kind:6} {source:6} {found}", flush=True)
                        if run:
                            values.setdefault(kind, {}).setdefault(source, []).append(found)
        finally:
            session.stop()
    write(values, options)
    return 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.spark_archive", description="Measure archives beside each other."
    )
    parser.add_argument("--records", type=int, default=1_500_000)
    parser.add_argument("--runs", type=int, default=3, help="rounds that count; one more warms up")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing")
    parser.add_argument("--out", default="docs/benchmarks")
    found = parser.parse_args(arguments)
    if found.quick:
        found.records, found.runs = 20_000, 1
    return found


def measured(
    session: SparkSession, cluster: Cluster, source: str, kind: str, place: Path, options: argparse.Namespace
) -> Round:
    processor, begun = processor_seconds(session), time.perf_counter()
    if source == "kraft":
        wanted = Archive(
            topic=TOPIC,
            directory=str(place),
            at=Access(cluster.bootstrap),
            typed=Typed(schema=FLIGHT) if kind == "typed" else None,
        )
        archive(session, wanted, lambda _: None)
    else:
        by_spark(session, cluster, kind, place)
    wall = time.perf_counter() - begun
    spent = processor_seconds(session) - processor
    rows = session.read.parquet(str(place))
    assert rows.count() == options.records
    size = sum(path.stat().st_size for path in place.rglob("*.parquet"))
    return Round(spent / options.records * 1e6, wall / options.records * 1e6, size)


def by_spark(session: SparkSession, cluster: Cluster, kind: str, place: Path) -> None:
    reader = session.read.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
    rows = reader.option("subscribe", TOPIC).option("includeHeaders", "true").load()
    if kind == "typed":
        rows = rows.withColumn("value", f.from_json(f.col("value").cast("string"), FLIGHT))
    rows.withColumn("day", f.to_date("timestamp")).write.partitionBy("day", "partition").parquet(str(place))


def processor_seconds(session: SparkSession) -> float:
    """Processor time of this process, the JVM and all below it, those that have ended included."""
    jvm = session.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    ended = Path(f"/proc/{jvm}/stat").read_text().rpartition(")")[2].split()[13:15]
    below = sum(int(each) for fields in descendants(jvm) for each in fields[11:15])
    return cpu_seconds(os.getpid()) + cpu_seconds(jvm) + (sum(map(int, ended)) + below) / TICKS


def write(values: Values, options: argparse.Namespace) -> None:
    lines = []
    for kind, by_source in values.items():
        ours, theirs = by_source["kraft"], by_source["kafka"]
        ratios = [their.processor_us / our.processor_us for our, their in zip(ours, theirs, strict=True)]
        figures = " | ".join(f"{median(each, name):.2f}" for name in Round._fields[:2] for each in (ours, theirs))
        sizes = " | ".join(f"{median(each, 'size') / 1e6:.0f}" for each in (ours, theirs))
        lines.append(f"| archive {kind} | {figures} | {statistics.median(ratios):.2f} | {sizes} |")
    head = [
        f"# Archives over one kraft node, {datetime.date.today().isoformat()}",
        "",
        f"`python -m tests.bench.spark_archive`: pyspark 4.2, local[2], {options.records:,} flights as JSON (about 330 "
        f"B), {PARTITIONS} partitions, no compression in the topic, snappy in the files.",
        "`kraft` is `kraft spark archive`, with checkpoint and micro-batches of 1,000,000 records. `kafka` is Spark's "
        "own connector 4.2.0, read once and written by `.write.parquet` with the same columns and directories; typed "
        f"with `from_json`. One session on {os.cpu_count()} cores that also run the node.",
        f"Runs in turn; the first of each warms up; medians of {options.runs}. Processor time is that of the driver, "
        "the JVM and Spark's Python workers, fixed costs of a job included. The ratio is that of processor time.",
        "Wall time depends on what else runs on the machine.",
        "",
        "| us a record | processor, kraft | processor, kafka | wall, kraft | wall, kafka | ratio | MB, kraft | kafka |",
        "|---|---|---|---|---|---|---|---|",
    ]
    text = "\n".join([*head, *lines, ""])
    print(text)
    if not options.quick:
        stem = Path(options.out) / f"spark-archive-{datetime.date.today().isoformat()}"
        stem.with_suffix(".md").write_text(text)
        shown = {
            kind: {source: [list(each) for each in found] for source, found in by.items()}
            for kind, by in values.items()
        }
        stem.with_suffix(".json").write_text(json.dumps(shown, indent=1) + "\n")


def median(rounds: Sequence[Round], field: str) -> float:
    return float(statistics.median(getattr(each, field) for each in rounds))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
