"""`python -m jepsen.spark.lake --records 10000000`: copy a topic with three replicas to an Iceberg table while the
driver, a broker and a Python worker of Spark are killed with SIGKILL, then count every record and verify.

The last line prints the counts. The exit code is 0 if each record is in the table once and `kraft spark verify` agrees,
1 if not, 2 for an invalid run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Producer
from pyiceberg.catalog import load_catalog

from jepsen.spark.processes import command_of, descendants
from jepsen.three_nodes import ThreeNodes
from kraft.testing.node_process import NodeFailed

TOPIC, TABLE, PARTITIONS = "lake", "shop.lake", 6
OK, VIOLATION, INVALID = 0, 1, 2
RUN_SECONDS_MAX = 3600.0
WORKER = "pyspark.daemon"
DRIVER = "the driver"


class Counts(NamedTuple):
    """What the table has: its rows, and the distinct offsets of all partitions."""

    rows: int
    distinct: int


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m jepsen.spark.lake", description="A topic to an Iceberg table while processes are killed."
    )
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--batch", type=int, default=0, help="records of a micro-batch (default: a twentieth)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(INVALID))  # What was started is stopped on the way out.
    try:
        with tempfile.TemporaryDirectory(prefix="kraft-lake-") as place, ThreeNodes(Path(place) / "nodes") as cluster:
            return Lake(cluster, Path(place), options.records, options.size, options.batch).run()
    except (AssertionError, TimeoutError, NodeFailed) as problem:
        print(f"lake: invalid: {problem}", flush=True)
        return INVALID


class Lake:
    """One run over a cluster. Files are below `place`."""

    def __init__(self, cluster: ThreeNodes, place: Path, records: int, size: int, batch: int) -> None:
        self.cluster, self.place, self.records, self.size = cluster, place, records, size
        self.batch = batch or max(1, records // 20)
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{place}/catalog.db",
            "warehouse": f"file://{place}/warehouse",
        }
        self.begun = time.monotonic()

    def run(self) -> int:
        self.cluster.create(TOPIC, PARTITIONS)
        self.produce()
        self.report(f"{self.records:,} records of {self.size} bytes produced")
        self.cut_off(DRIVER, self.kill_driver)
        self.cut_off("a broker", self.kill_broker)
        self.cut_off("a worker", self.kill_worker)
        rest = self.summary("archive", "--format", "iceberg", *self.archive_options)
        self.report(f"the last run wrote {rest['records']:,} records in {rest['seconds']} s")
        found = self.count()
        verified = self.summary("verify")
        same = verified["agree"] and verified["records"] == verified["other_records"] == self.records
        print(
            f"lake: {self.records} records, {self.records - found.distinct} lost, {found.rows - found.distinct} "
            f"duplicated, verify {'agrees' if same else 'differs'} in {verified['seconds']} s",
            flush=True,
        )
        return OK if same and found == Counts(self.records, self.records) else VIOLATION

    def report(self, text: str) -> None:
        print(f"{time.monotonic() - self.begun:7.1f} s: {text}", flush=True)

    def produce(self) -> None:
        producer = Producer(
            self.cluster.servers(
                enable_idempotence=True, linger_ms=50, batch_size=1 << 20, compression_type="lz4",
                queue_buffering_max_messages=1_000_000,
            )
        )  # fmt: skip
        padding = b"x" * self.size
        for number in range(self.records):
            value = (b"%d " % number + padding)[: self.size]
            while True:
                try:
                    producer.produce(TOPIC, value, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
            if not number % 10_000:
                producer.poll(0)
        left = producer.flush(300)
        assert not left, f"{left} records were not acknowledged"

    @property
    def table_options(self) -> list[str]:
        given = [part for name, value in self.properties.items() for part in ("--catalog-property", f"{name}={value}")]
        return ["--table", TABLE, "--catalog", "lake", *given]

    @property
    def archive_options(self) -> list[str]:
        return ["--checkpoint", str(self.place / "checkpoint"), "--records-per-batch", str(self.batch)]

    def started(self, command: str, *options: str) -> subprocess.Popen[str]:
        """Start a command of `kraft spark`. A task that loses its worker is tried again."""
        whole = [
            sys.executable, "-m", "kraft.cli.admin.app", "spark", command, TOPIC, *self.table_options, *options,
            "--bootstrap-server", self.cluster.bootstrap, "--master", "local[2,8]", "-o", "json",
        ]  # fmt: skip
        return subprocess.Popen(
            whole, start_new_session=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def summary(self, command: str, *options: str) -> dict[str, Any]:
        """Run a command to its end and return its summary."""
        with self.started(command, *options) as process:
            out, err = process.communicate(timeout=RUN_SECONDS_MAX)
        assert process.returncode in (OK, VIOLATION), f"{command} failed: {err[-2000:]}"
        assert out, f"{command} printed no summary: {err[-2000:]}"
        return dict(json.loads(out))

    def cut_off(self, what: str, kill: Callable[[subprocess.Popen[str]], None]) -> None:
        """Run the archive, kill something after its first micro-batch, and end the run with SIGKILL after the next one,
        unless the run has reached the end of the topic."""
        with self.started("archive", "--format", "iceberg", *self.archive_options) as process:
            assert process.stderr is not None
            assert self.next_batch(process), f"the run ended early, with {process.wait()}: give more --records"
            kill(process)
            self.report(f"killed {what} after {self.committed()} micro-batches")
            if not self.next_batch(process) and what != DRIVER:
                assert process.wait() == OK, f"the run did not survive the death of {what}"
            kill_all(process)
            process.wait()
        for node in self.cluster.nodes.values():
            if node.process is None or node.process.poll() is not None:
                node.start()
        self.cluster.until_in_sync(TOPIC)

    def next_batch(self, process: subprocess.Popen[str]) -> bool:
        """Wait until the run reports a micro-batch. Returns False if it ends before."""
        assert process.stderr is not None
        return any(line.startswith("batch ") for line in process.stderr)

    def kill_driver(self, process: subprocess.Popen[str]) -> None:
        kill_all(process)
        process.wait()

    def kill_broker(self, process: subprocess.Popen[str]) -> None:
        self.cluster.nodes[self.cluster.leader(TOPIC)].kill()

    def kill_worker(self, process: subprocess.Popen[str]) -> None:
        workers = [each for each in descendants(process.pid) if WORKER in command_of(each)]
        assert workers, "Spark has no Python worker"
        os.kill(workers[-1], signal.SIGKILL)

    def committed(self) -> int:
        catalog = load_catalog("lake", **self.properties)
        return len(catalog.load_table(TABLE).snapshots())

    def count(self) -> Counts:
        """Count the rows as another reader sees them."""
        catalog = load_catalog("lake", **self.properties)
        rows = catalog.load_table(TABLE).scan(selected_fields=("partition", "offset")).to_arrow()
        distinct = pa.TableGroupBy(rows, ["partition", "offset"]).aggregate([]).num_rows
        return Counts(rows.num_rows, distinct)


def kill_all(process: subprocess.Popen[str]) -> None:
    """Kill the command, its JVM and its workers."""
    for each in [*descendants(process.pid), process.pid]:
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
