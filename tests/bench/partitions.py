"""`python -m tests.bench.partitions`: a topic of thousands of partitions with one record in each, and what it costs
in memory, to stop, and to start again, after a clean end and after kill -9.

One system runs at a time. Processor seconds stand beside the wall's, since these figures are compared on machines
that are shared.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench import report
from tests.bench.measure import Figures
from tests.bench.probe import DONE_CODES, PAUSE_S, RETRY_CODES, ask, until_acknowledged, warm_up
from tests.bench.process_usage import cpu_seconds, rss_mb
from tests.bench.systems import KINDS, System, check_alive
from tests.vectors.plain import Batch
from tests.vectors.wire import Connection

TOPIC = "many"
PER_REQUEST = 500
SETTLED_S = 3.0
TIMEOUT_S = 600.0

AIMS: report.Aims = {
    "many_created_and_led_s": ("created in one request and led, s", 5.0, "value", False),
    "many_more_memory_mb": ("more memory, one record in each, MB", 150.0, "value", False),
    "many_clean_stop_s": ("clean stop, s", None, "ratio", False),
    "many_clean_stop_cpu_s": ("the same, processor seconds", None, "ratio", False),
    "many_clean_start_s": ("start after a clean stop, s", 10.0, "value", False),
    "many_clean_start_cpu_s": ("the same, processor seconds", None, "ratio", False),
    "many_start_after_kill_s": ("start after kill -9, s", 10.0, "value", False),
    "many_start_after_kill_cpu_s": ("the same, processor seconds", None, "ratio", False),
}


def measure(make: Callable[[str, str], System], names: list[str], count: int, figures: Figures) -> None:
    """`count` partitions on each of the systems called `names`."""
    for name in names:
        system = make(name, "many")
        system.prepare()
        system.launch()
        try:
            until_acknowledged(system, "first", create=True)
            time.sleep(SETTLED_S)
            before = rss_mb(system.pid)
            begun = time.perf_counter()
            create(system, count)
            figures.add("many_created_and_led_s", system, time.perf_counter() - begun)
            write_one_each(system, count)
            time.sleep(SETTLED_S)
            figures.add("many_more_memory_mb", system, rss_mb(system.pid) - before)
            stop(system, figures)
            start(system, count, figures, "clean_start")
            system.kill()
            start(system, count, figures, "start_after_kill")
        finally:
            system.kill()


def start(system: System, count: int, figures: Figures, label: str) -> None:
    """From the start of the process until every partition is led and a record is acknowledged."""
    begun = time.perf_counter()
    system.launch()
    until_acknowledged(system, "first", create=False, timeout_s=TIMEOUT_S)
    until_led(system, count)
    figures.add(f"many_{label}_s", system, time.perf_counter() - begun)
    figures.add(f"many_{label}_cpu_s", system, cpu_seconds(system.pid))


def stop(system: System, figures: Figures) -> None:
    """From SIGTERM to the end of the process."""
    pid, begun = system.pid, time.perf_counter()
    before = used = cpu_seconds(pid)
    os.kill(pid, signal.SIGTERM)
    while not ended(pid):
        used = cpu_seconds(pid)
        if time.perf_counter() - begun > TIMEOUT_S:
            raise TimeoutError(f"{system.name} does not stop")
        time.sleep(PAUSE_S)
    figures.add("many_clean_stop_s", system, time.perf_counter() - begun)
    figures.add("many_clean_stop_cpu_s", system, used - before)
    system.kill()  # Nothing is left to kill: the process is reaped.


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def connect(system: System) -> Connection:
    connection = Connection(("127.0.0.1", system.port))
    connection.socket.settimeout(TIMEOUT_S)
    return connection


def create(system: System, count: int) -> None:
    connection = connect(system)
    try:
        body = {
            "topics": [{"name": TOPIC, "num_partitions": count, "replication_factor": 1}],
            "timeout_ms": int(TIMEOUT_S * 1000),
        }
        code = ask(connection, "CreateTopics", 7, body)["topics"][0]["error_code"]
        if code not in DONE_CODES:
            raise RuntimeError(f"CreateTopics was refused with error {code}")
    finally:
        connection.close()
    until_led(system, count)


def until_led(system: System, count: int) -> None:
    """Every partition has a leader, as the node's own metadata has it."""
    deadline = time.monotonic() + TIMEOUT_S
    connection = connect(system)
    try:
        while time.monotonic() < deadline:
            check_alive(system)
            partitions = ask(connection, "Metadata", 12, {"topics": [{"name": TOPIC}]})["topics"][0]["partitions"]
            if sum(partition["leader_id"] >= 0 for partition in partitions) == count:
                return
            time.sleep(20 * PAUSE_S)
    finally:
        connection.close()
    raise TimeoutError(f"{system.name}: not every partition of {count} is led")


def write_one_each(system: System, count: int) -> None:
    """One record into each partition, many partitions a request; what is refused for a passing reason is sent again."""
    left, batch = list(range(count)), Batch(b"one").build()
    deadline = time.monotonic() + TIMEOUT_S
    connection = connect(system)
    try:
        while left and time.monotonic() < deadline:
            now, left = left[:PER_REQUEST], left[PER_REQUEST:]
            data = [{"index": index, "records": batch} for index in now]
            answer = ask(
                connection,
                "Produce",
                9,
                {"acks": -1, "timeout_ms": 30_000, "topic_data": [{"name": TOPIC, "partition_data": data}]},
            )
            for partition in answer["responses"][0]["partition_responses"]:
                if partition["error_code"] in RETRY_CODES:
                    left.append(partition["index"])
                elif partition["error_code"]:
                    raise RuntimeError(
                        f"partition {partition['index']} refused its record with error {partition['error_code']}"
                    )
    finally:
        connection.close()
    if left:
        raise TimeoutError(f"{system.name}: {len(left)} partitions took no record")


def main(arguments: list[str]) -> int:
    """Exit 0 when every aim is met, 1 when one is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.partitions", description="What thousands of partitions cost, beside Apache Kafka."
    )
    parser.add_argument(
        "--systems", default="kraft,kafka", help=f"two of {', '.join(KINDS)}; the first is compared with the second"
    )
    parser.add_argument("--count", type=int, default=9000, help="partitions")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--directory", default=None, help="where the data goes (default: the temporary directory)")
    parser.add_argument("--out", default="docs/benchmarks", help="where the page and the JSON go")
    options = parser.parse_args(arguments)
    names, figures = options.systems.split(","), Figures()
    warm_up()
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="kraft-bench-", dir=options.directory) as place:
            order = names if number % 2 == 0 else names[::-1]
            measure(
                lambda name, label, place=place: KINDS[name](Path(place) / f"{name}-{label}"),
                order,
                options.count,
                figures,
            )  # type: ignore[misc]
    heading = (
        f"`python -m tests.bench.partitions`: one node at a time, a topic of {options.count} partitions made "
        "in one request, then one record in each.\n"
        "A start ends when every partition is led and a record is acknowledged. Load average of the machine "
        f"at the end: {os.getloadavg()[0]:.0f}."
    )
    versions = {name: KINDS[name].version for name in names}
    text, met = report.write(Path(options.out), "partitions", AIMS, figures, vars(options), heading, versions)
    print(text)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
