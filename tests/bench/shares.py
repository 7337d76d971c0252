"""`python -m tests.bench.shares`: share groups beside Apache Kafka. Members are librdkafka's, each in a thread of one
process: python -m tests.bench.shares members BOOTSTRAP GROUP TOPIC COUNT RECORDS, which prints JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time

from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tests.bench import report
from tests.bench.beside import Benchmark, Measure, run
from tests.bench.many_clients import create
from tests.bench.measure import ROOT, Figures, bootstrap
from tests.bench.process_usage import cpu_seconds
from tests.bench.systems import System

SETUPS = ((1, 1), (20, 1), (1, 6), (20, 6))
"""Members and partitions."""
RECORDS = 1_000_000
RECORD_BYTES = 100
RATE = 500
"""Records a second while latency is measured."""
RUN_S = 240
POLL_S = 0.5


def aims() -> report.Aims:
    rows: report.Aims = {}
    for members, partitions in SETUPS:
        label = f"{members} share consumer{'s' * (members > 1)}, {partitions} partition{'s' * (partitions > 1)}"
        key = f"shares_{members}_{partitions}"
        rows[f"{key}_join_s"] = (f"{label}: joining to the first record, s", 1.0, "ratio", False)
        rows[f"{key}_s"] = (f"{label}: acknowledged a second", 1.2, "ratio", True)
        rows[f"{key}_cpu_us"] = (f"{label}: broker CPU, us a record", 1.0, "ratio", False)
        rows[f"{key}_p50_ms"] = (f"{label}, {RATE} a second: produced to acknowledged, p50 ms", 1.0, "ratio", False)
        rows[f"{key}_p99_ms"] = (f"{label}, {RATE} a second: produced to acknowledged, p99 ms", 1.0, "ratio", False)
    return rows


class Members:
    """The members of one group, each in a thread. `latencies` are milliseconds from the timestamp of a record to the
    answer to its acknowledgement."""

    def __init__(self, servers: str, group: str, topic: str, count: int) -> None:
        self._servers = servers
        self._group = group
        self._topic = topic
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]
        self._lock = threading.Lock()
        self.acknowledged = 0
        self.latencies: list[float] = []
        self.first = self.last = 0.0

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self) -> None:
        consumer = ShareConsumer({"bootstrap.servers": self._servers, "group.id": self._group})
        consumer.subscribe([self._topic])
        while not self._ending.is_set():
            found = [message for message in consumer.poll(timeout=POLL_S) if message.error() is None]
            if not found:
                continue
            self.first = self.first or time.perf_counter()
            consumer.commit_sync(30)
            now = time.time() * 1000
            with self._lock:
                self.acknowledged += len(found)
                self.latencies += [now - message.timestamp()[1] for message in found]
                self.last = time.perf_counter()
        consumer.close()


def configure(servers: str, group: str) -> None:
    """Let the group start at the first record."""
    admin = AdminClient({"bootstrap.servers": servers})
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def produce(servers: str, topic: str, partitions: int, count: int, rate: float | None = None) -> None:
    """Produce `count` records, at `rate` a second if given. Raises RuntimeError if some are not acknowledged."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 5})
    began = time.perf_counter()
    for number in range(count):
        if rate is not None and (ahead := began + number / rate - time.perf_counter()) > 0:
            time.sleep(ahead)
        while True:
            try:
                producer.produce(topic, bytes(RECORD_BYTES), partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("records were not acknowledged within 60 s")


def members(servers: str, group: str, topic: str, count: int, records: int) -> dict[str, float]:
    """Let the group acknowledge `records` records that are there, then more at a fixed rate."""
    configure(servers, group)
    working = Members(servers, group, topic, count)
    began = time.perf_counter()
    working.start()
    while working.acknowledged < records and time.perf_counter() < began + RUN_S / 2:
        time.sleep(0.02)
    if working.acknowledged < records:
        raise RuntimeError(f"{working.acknowledged} of {records} records were acknowledged")
    drained = {"join": working.first - began, "seconds": working.last - working.first, "count": working.acknowledged}
    print(json.dumps(drained), flush=True)
    sys.stdin.readline()
    working.latencies.clear()
    seen = working.acknowledged
    print("ready", flush=True)
    more = int(sys.stdin.readline())
    while working.acknowledged < seen + more and time.perf_counter() < began + RUN_S:
        time.sleep(0.02)
    working.end()
    times = sorted(working.latencies)
    if len(times) < more:
        raise RuntimeError(f"{len(times)} of {more} records were acknowledged")
    return {"p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100]}


def sharing(count: int, partitions: int) -> Measure:
    def measure(system: System, number: int, figures: Figures, seconds: float) -> None:
        topic, key = f"shared-{count}-{partitions}-{number}", f"shares_{count}_{partitions}"
        create(system, topic, partitions)
        servers = bootstrap(system)
        produce(servers, topic, partitions, RECORDS)
        before = cpu_seconds(system.pid)
        command = [sys.executable, "-m", "tests.bench.shares", "members", servers, topic, topic, str(count)]
        with subprocess.Popen(
            [*command, str(RECORDS)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            drained = json.loads(process.stdout.readline() or "null")
            used = cpu_seconds(system.pid) - before
            process.stdin.write("\n")
            process.stdin.flush()
            if drained is None or process.stdout.readline() != "ready\n":
                raise RuntimeError(f"{system.name}: the members failed")
            more = int(RATE * seconds)
            process.stdin.write(f"{more}\n")
            process.stdin.flush()
            produce(servers, topic, partitions, more, RATE)
            told = json.loads(process.stdout.readline())
        if number:
            figures.add(f"{key}_join_s", system, drained["join"])
            figures.add(f"{key}_s", system, drained["count"] / drained["seconds"])
            figures.add(f"{key}_cpu_us", system, used / drained["count"] * 1e6)
            figures.add(f"{key}_p50_ms", system, told["p50"])
            figures.add(f"{key}_p99_ms", system, told["p99"])

    return measure


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["members"]:
        servers, group, topic, count, records = arguments[1:]
        print(json.dumps(members(servers, group, topic, int(count), int(records))))
        return 0
    parts = {f"{count}x{partitions}": sharing(count, partitions) for count, partitions in SETUPS}
    return run(
        Benchmark(
            name="shares",
            module="shares",
            doc=__doc__,
            aims=aims(),
            parts=parts,
            seconds=6.0,
            heading=lambda rounds, seconds: (
                f"Both systems run, rounds in turn; medians of {rounds} rounds after one to warm up. A group of "
                f"librdkafka's share consumers (confluent-kafka 2.16) acknowledges {RECORDS:,} records of "
                f"{RECORD_BYTES} B that are there; then {RATE} records a second for {seconds:g} s."
            ),
        ),
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
