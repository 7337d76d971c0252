"""The measurements. Each appends to `Figures`: (figure, system) -> values of all rounds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.bench.probe import ask, until_acknowledged
from tests.bench.process_usage import cpu_seconds, rss_mb
from tests.bench.systems import System, recycle_pages
from tests.vectors.wire import Connection

ROOT = Path(__file__).parents[2]
LOAD_TIMEOUT_S = 300
PACED_BYTES_PER_S = 50_000_000
PACED_S = 8


@dataclass(frozen=True)
class Plan:
    """How much is measured. Sizes are in bytes."""

    rounds: int = 3
    bytes_1k: int = 512 * 1024 * 1024
    bytes_100: int = 200 * 1000 * 1000
    latency_records: int = 3000
    latency_rounds: int = 5
    restarts: int = 3
    idle_s: float = 5.0


class Named(Protocol):
    """What is measured: one node or several."""

    name: str


@dataclass
class Figures:
    """Every value that was measured, in order."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, figure: str, system: Named, value: float) -> None:
        self.values.setdefault(figure, {}).setdefault(system.name, []).append(value)
        print(f"  {figure:28} {system.name:8} {value:10.3f}", flush=True)


def command(*arguments: object) -> list[str]:
    """Of a load generator."""
    return [sys.executable, "-m", "tests.bench.load", *map(str, arguments)]


def load(*arguments: object) -> dict[str, float]:
    """Run the load generator in a process of its own."""
    return loads(1, *arguments)[0]


def loads(processes: int, *arguments: object) -> list[dict[str, float]]:
    """Run so many load generators at once, each with these arguments."""
    running = [
        subprocess.Popen(command(*arguments), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    results: list[dict[str, float]] = []
    try:
        for each in running:
            output, errors = each.communicate(timeout=LOAD_TIMEOUT_S)
            if each.returncode != 0:
                raise RuntimeError(f"load {arguments} failed: {errors[-2000:]}")
            results.append(json.loads(output.strip().splitlines()[-1]))
    finally:
        for each in running:
            each.kill()
            each.wait()
    return results


def bootstrap(system: System) -> str:
    return f"127.0.0.1:{system.port}"


def in_turn(systems: list[System], rounds: int, measure: Callable[[System, int], None]) -> None:
    """Each round visits both systems, the other one first each time."""
    for number in range(rounds):
        for system in systems if number % 2 == 0 else reversed(systems):
            measure(system, number)


@contextmanager
def alone(system: System, systems: list[System]) -> Iterator[None]:
    """The others are stopped meanwhile (SIGSTOP): a virtual machine that idles takes the turns of the scheduler that
    this one waits for.

    Only for what is aimed at as a value: in a ratio both pay for each other's presence.
    """
    others = [other.pid for other in systems if other is not system]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


def starts(make: Callable[[str, str], System], names: list[str], plan: Plan, figures: Figures) -> None:
    """Process start to first acknowledged record on an empty directory, then kill -9 to the next acknowledged
    record. One node runs at a time."""
    for number in range(plan.restarts):
        for name in names if number % 2 == 0 else list(reversed(names)):
            system = make(name, f"start-{number}")
            system.prepare()
            begun = time.perf_counter()
            system.launch()
            try:
                figures.add("start_to_first_ack_s", system, until_acknowledged(system, "first", create=True) - begun)
                time.sleep(1.0)
                begun = time.perf_counter()
                system.kill()
                system.launch()
                figures.add("kill_to_serving_s", system, until_acknowledged(system, "first", create=False) - begun)
            finally:
                system.kill()


def idle_memory(systems: list[System], plan: Plan, figures: Figures) -> None:
    """Memory of a node that serves nobody."""
    time.sleep(plan.idle_s)
    for system in systems:
        figures.add("idle_rss_mb", system, rss_mb(system.pid))


def throughput(systems: list[System], plan: Plan, figures: Figures, place: Path) -> None:
    """Produce and consume one partition, 1 KB and 100 B records; broker CPU seconds per GB (10^9 bytes) beside. The
    first round only warms.

    `place` is a directory on the disk that the systems write to. One producer of 100 B records is as fast as its own
    thread, whoever takes them, so that figure is measured once more with two.
    """

    def one(system: System, number: int) -> None:
        for label, size, total in (("1k", 1024, plan.bytes_1k), ("100", 100, plan.bytes_100)):
            topic, count = f"t{label}-{number}", total // size
            until_acknowledged(system, topic, create=True)
            recycle_pages(place, total * 5 // 4)
            for kind, extra in (("produce", (count, size)), ("consume", (count,))):
                before = cpu_seconds(system.pid)
                seconds = load(kind, bootstrap(system), topic, *extra)["seconds"]
                used = cpu_seconds(system.pid) - before
                if number > 0:
                    figures.add(f"{kind}_{label}_mb_s", system, count * size / seconds / 1e6)
                    figures.add(f"{kind}_{label}_cpu_s_per_gb", system, used / (count * size / 1e9))
        by_two = produced_by_two(system, f"two-{number}", 2 * plan.bytes_100, 100, place)
        if number > 0:
            figures.add("produce_100_by_two_mb_s", system, by_two)

    in_turn(systems, plan.rounds + 1, one)


def produced_by_two(system: System, topic: str, total: int, size: int, place: Path) -> float:
    """MB/s of two producers at once, from the first record of either to the last acknowledgement of both."""
    until_acknowledged(system, topic, create=True)
    recycle_pages(place, total * 5 // 4)
    both = loads(2, "produce", bootstrap(system), topic, total // size // 2, size)
    return total / (max(each["ended"] for each in both) - min(each["ended"] - each["seconds"] for each in both)) / 1e6


def latency(systems: list[System], plan: Plan, figures: Figures) -> None:
    """One record of 1 KB at a time, after the throughput rounds."""
    for system in systems:
        until_acknowledged(system, "latency", create=True)
        load("latency", bootstrap(system), "latency", plan.latency_records // 4, 1024)

    def one(system: System, number: int) -> None:
        times = load("latency", bootstrap(system), "latency", plan.latency_records, 1024)
        figures.add("one_at_a_time_p50_ms", system, times["p50"])
        figures.add("one_at_a_time_p99_ms", system, times["p99"])

    in_turn(systems, plan.latency_rounds, one)


def list_offsets(systems: list[System], plan: Plan, figures: Figures) -> None:
    """ListOffsets (the end of a log), asked one after another beside 50 MB/s of produce: what Spark's own connector
    does for every 500 records.

    One system runs at a time, and what earlier rounds wrote is on the disk.
    """

    def one(system: System, number: int) -> None:
        topic = f"list-offsets-{number}"
        until_acknowledged(system, topic, create=True)
        os.sync()
        with alone(system, systems):
            times = beside_a_writer(system, topic, plan.latency_records)
        figures.add("list_offsets_p50_ms", system, times[len(times) // 2])
        figures.add("list_offsets_p99_ms", system, times[int(len(times) * 0.99)])

    in_turn(systems, plan.rounds, one)


def beside_a_writer(system: System, topic: str, count: int) -> list[float]:
    """`end_offset_times` while another process writes 50 MB/s. Raises RuntimeError if the writer fails."""
    produce = command("produce", bootstrap(system), topic, PACED_BYTES_PER_S * PACED_S // 1024, 1024, PACED_BYTES_PER_S)
    with subprocess.Popen(produce, cwd=ROOT, stdout=subprocess.DEVNULL) as writer:
        time.sleep(1.0)
        times = end_offset_times(system.port, topic, count)
        writer.wait(timeout=LOAD_TIMEOUT_S)
        if writer.returncode != 0:
            raise RuntimeError(f"the paced writer ended with {writer.returncode}")
    return times


def end_offset_times(port: int, topic: str, count: int) -> list[float]:
    """Milliseconds of each look-up, sorted; no longer than the writer writes."""
    body = {"replica_id": -1, "topics": [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    connection, times = Connection(("127.0.0.1", port)), []
    deadline = time.monotonic() + PACED_S - 2
    try:
        while len(times) < count and time.monotonic() < deadline:
            begun = time.perf_counter()
            ask(connection, "ListOffsets", 5, body)
            times.append((time.perf_counter() - begun) * 1000)
            time.sleep(0.001)
    finally:
        connection.close()
    return sorted(times)


def memory_after(systems: list[System], figures: Figures) -> None:
    for system in systems:
        figures.add("after_run_rss_mb", system, rss_mb(system.pid))


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
