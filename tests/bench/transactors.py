"""Producers that commit transactions one after the other, each a thread with a librdkafka of its own, in a process of
their own: python -m tests.bench.transactors BOOTSTRAP TOPIC PRODUCERS SECONDS"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from confluent_kafka import Producer

from tests.bench.measure import ROOT

RECORDS, PARTITIONS = 100, 4
COUNTS = (1, 20)
"""Producers at once, as the benchmarks have them."""
WARM = 3
TIMEOUT_S = 60.0
RUN_S = 180


def aims() -> dict[str, tuple[str, float | None, str, bool]]:
    """Rows of a report: what `measured` gives, for each of COUNTS."""
    rows: dict[str, tuple[str, float | None, str, bool]] = {}
    for count in COUNTS:
        label = f"transactions of {RECORDS} records on {PARTITIONS} partitions, {count} at once"
        rows[f"transactions_{count}_p50_ms"] = (f"{label}: commit, p50 ms", 1.0, "ratio", False)
        rows[f"transactions_{count}_s"] = (f"{label}: commits a second", 1.0, "ratio", True)
        rows[f"transactions_{count}_cpu_ms"] = (f"{label}: broker CPU, ms a commit", 1.0, "ratio", False)
    return rows


def measured(
    bootstrap: str, topic: str, count: int, seconds: float, cpu_seconds: Callable[[], float]
) -> dict[str, float]:
    """A run in a process of its own; `cpu_seconds` tells what the brokers have used. Raises RuntimeError when it
    fails."""
    command = [sys.executable, "-m", "tests.bench.transactors", bootstrap, topic, str(count), str(seconds)]
    before = cpu_seconds()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_S, check=False)
    used = cpu_seconds() - before
    if done.returncode != 0:
        raise RuntimeError(f"{bootstrap}: {done.stderr[-2000:]}")
    told = json.loads(done.stdout.strip().splitlines()[-1])
    return {
        f"transactions_{count}_p50_ms": told["p50"],
        f"transactions_{count}_s": told["count"] / told["seconds"],
        f"transactions_{count}_cpu_ms": used / told["count"] * 1000,
    }


def commit(bootstrap: str, topic: str, number: int, seconds: float, times: list[float]) -> None:
    """Milliseconds of each commit go to `times`: from the call, with all records already handed over, to its end."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{number}", "linger.ms": 1, "acks": "all"}
    )
    producer.init_transactions(TIMEOUT_S)
    done, end = 0, 0.0
    while done <= WARM or time.perf_counter() < end:
        if done == WARM:
            end = time.perf_counter() + seconds
        producer.begin_transaction()
        for index in range(RECORDS):
            producer.produce(topic, bytes(100), partition=index % PARTITIONS)
        producer.flush(TIMEOUT_S)
        began = time.perf_counter()
        producer.commit_transaction(TIMEOUT_S)
        done += 1
        if done > WARM:
            times.append((time.perf_counter() - began) * 1000)


def main(arguments: list[str]) -> None:
    bootstrap, topic, count, seconds = arguments[0], arguments[1], int(arguments[2]), float(arguments[3])
    times = list[float]()
    threads = [
        threading.Thread(target=commit, args=(bootstrap, topic, number, seconds, times)) for number in range(count)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    times.sort()
    print(json.dumps({"count": len(times), "p50": times[len(times) // 2], "seconds": took}))


if __name__ == "__main__":
    main(sys.argv[1:])
