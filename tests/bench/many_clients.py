"""`python -m tests.bench.many_clients`: a thousand producers, a thousand consumers, ten thousand idle connections, and
producers that commit transactions, beside Apache Kafka.

Clients are a process of their own without a client library (`tests.bench.crowd`), so that a machine of few cores has
room for the broker; transactions are librdkafka's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from tests.bench import report, transactors
from tests.bench.beside import Benchmark, Measure, run
from tests.bench.measure import ROOT, Figures, bootstrap
from tests.bench.probe import ask, create_body
from tests.bench.process_usage import cpu_seconds, rss_mb
from tests.bench.systems import System
from tests.vectors.wire import Connection

TIMEOUT_S = 180
CLIENTS = 1_000
PRODUCER_RATE = 4.0
"""Records a second of each: as many in all as Apache Kafka and its clients find room for on two cores."""
PARTITIONS = 100
CONSUMER_RATE = 3.0
"""Records a second to each partition, each read by ten."""
IDLE = 10_000
IDLE_S = 10.0

AIMS: report.Aims = {
    "producers_p50_ms": ("1,000 producers: acknowledged after, p50 ms", None, "ratio", False),
    "producers_p99_ms": ("1,000 producers: acknowledged after, p99 ms", 0.7, "ratio", False),
    "producers_cpu_us": ("1,000 producers: broker CPU, us a record", 0.7, "ratio", False),
    "consumers_p50_ms": ("1,000 consumers on 100 partitions: produced to seen, p50 ms", None, "ratio", False),
    "consumers_p99_ms": ("1,000 consumers on 100 partitions: produced to seen, p99 ms", 0.7, "ratio", False),
    "consumers_cpu_us": ("1,000 consumers: broker CPU, us a record seen", 0.7, "ratio", False),
    "idle_kb": ("10,000 idle connections: more memory, KB each", 0.7, "ratio", False),
    "idle_cpu_ms_s": ("10,000 idle connections: broker CPU, ms a second", 0.7, "ratio", False),
    **transactors.aims(),
}


def create(system: System, topic: str, partitions: int) -> None:
    """Raises RuntimeError when the system refuses."""
    body: dict[str, Any] = create_body(topic)
    body["topics"][0] |= {"num_partitions": partitions}
    connection = Connection(("127.0.0.1", system.port))
    try:
        code = ask(connection, "CreateTopics", 7, body)["topics"][0]["error_code"]
    finally:
        connection.close()
    if code not in (0, 36):
        raise RuntimeError(f"{system.name} answers CreateTopics of {topic} with {code}")
    time.sleep(1.0)  # Until each partition is led.


def crowd(system: System, *arguments: object) -> dict[str, float]:
    """What the crowd tells. Raises RuntimeError when it fails."""
    command = [sys.executable, "-m", "tests.bench.crowd", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{system.name}: {done.stderr[-2000:]}")
    told: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def producing(system: System, number: int, figures: Figures, seconds: float) -> None:
    create(system, "crowd", 1)
    before = cpu_seconds(system.pid)
    told = crowd(system, "producers", system.port, "crowd", CLIENTS, PRODUCER_RATE, seconds)
    used = cpu_seconds(system.pid) - before
    if number:
        figures.add("producers_p50_ms", system, told["p50"])
        figures.add("producers_p99_ms", system, told["p99"])
        figures.add("producers_cpu_us", system, used / told["count"] * 1e6)


def consuming(system: System, number: int, figures: Figures, seconds: float) -> None:
    topic = f"seen-{number}"
    create(system, topic, PARTITIONS)
    before = cpu_seconds(system.pid)
    told = crowd(system, "consumers", system.port, topic, CLIENTS, PARTITIONS, CONSUMER_RATE, seconds)
    used = cpu_seconds(system.pid) - before
    if number:
        figures.add("consumers_p50_ms", system, told["p50"])
        figures.add("consumers_p99_ms", system, told["p99"])
        figures.add("consumers_cpu_us", system, used / told["count"] * 1e6)


def idling(system: System, number: int, figures: Figures, seconds: float) -> None:
    before = rss_mb(system.pid)
    command = [sys.executable, "-m", "tests.bench.crowd", "idle", str(system.port), str(IDLE)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline().split()[:1] != ["connected"]:
            raise RuntimeError(f"{system.name} does not hold {IDLE} connections")
        time.sleep(1.0)
        used = cpu_seconds(system.pid)
        time.sleep(seconds)
        if not number:  # Later ones find the memory of the first.
            figures.add("idle_kb", system, (rss_mb(system.pid) - before) / IDLE * 1000)
        figures.add("idle_cpu_ms_s", system, (cpu_seconds(system.pid) - used) / seconds * 1000)
    finally:
        process.kill()
        process.wait()


def transacting(count: int) -> Measure:
    def measure(system: System, number: int, figures: Figures, seconds: float) -> None:
        topic = f"transactions-{count}"
        create(system, topic, transactors.PARTITIONS)
        found = transactors.measured(bootstrap(system), topic, count, seconds, lambda: cpu_seconds(system.pid))
        if number:
            for name, value in found.items():
                figures.add(name, system, value)

    return measure


PARTS: dict[str, Measure] = {
    "producers": producing,
    "consumers": consuming,
    "idle": idling,
    **{f"transactions-{count}": transacting(count) for count in transactors.COUNTS},
}


def heading(rounds: int, seconds: float) -> str:
    return (
        f"Both systems run, rounds of {seconds:g} s in turn; medians of {rounds} rounds after one to "
        f"warm up.\n{CLIENTS:,} producers send {PRODUCER_RATE:g} records of 100 B a second each, acks=all, to one "
        f"partition; {PARTITIONS} partitions get {CONSUMER_RATE:g} a second each, which ten consumers each wait for."
    )


BENCHMARK = Benchmark(
    name="many-clients",
    module="many_clients",
    doc=__doc__,
    aims=AIMS,
    parts=PARTS,
    seconds=10.0,
    heading=heading,
)


if __name__ == "__main__":
    sys.exit(run(BENCHMARK, sys.argv[1:]))
