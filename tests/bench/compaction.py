"""`python -m tests.bench.compaction`: how long after the last write a compacted topic is clean, and what that costs,
beside Apache Kafka. The other system is stopped meanwhile (SIGSTOP)."""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.bench import report
from tests.bench.measure import Figures, alone, in_turn
from tests.bench.probe import until_acknowledged
from tests.bench.process_usage import TICKS, rss_mb
from tests.bench.systems import KINDS, KafkaSystem, KraftSystem, System

RECORDS = 1_000_000
KEYS = 100_000
VALUE_BYTES = 400
SEGMENT_BYTES = 16 << 20
SETTLED_S = 22.0
"""Nothing has been cleaned for so long: longer than log.cleaner.backoff.ms."""
POLL_S = 0.1
CODECS = {"plain": "none", "lz4": "lz4"}
AIMS: report.Aims = {}
for _name in CODECS:
    AIMS[f"{_name}_seconds"] = (f"{_name}: last cleaning after the last write, s", 1.0, "ratio", False)
    AIMS[f"{_name}_cpu_s"] = (f"{_name}: CPU of the node, s, produce and cleaning", 1.0, "ratio", False)
    AIMS[f"{_name}_peak_mb"] = (f"{_name}: most memory, MB, with the cleaning's process", 150.0, "value", False)
    AIMS[f"{_name}_mb"] = (f"{_name}: the log at the end, MB", None, "ratio", False)


class Usage(threading.Thread):
    """Watches a process and its children: the processor time of all, and the most memory at one time, in MB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak_mb = 0.0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(POLL_S):
            self.peak_mb = max(self.peak_mb, sum(map(_rss, [self.pid, *children(self.pid)])))

    def stop(self) -> None:
        self._over.set()
        self.join()


def _rss(pid: int) -> float:
    try:
        return rss_mb(pid)
    except (OSError, RuntimeError):
        return 0.0  # It has ended.


def children(pid: int) -> list[int]:
    """The child processes that are alive."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def cpu_with_children(pid: int) -> float:
    """Processor seconds of the process, of its children, and of those that have ended."""
    total = 0.0
    for each in (pid, *children(pid)):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) / TICKS
    return total


def produce(bootstrap: str, topic: str, codec: str, count: int, keys: int) -> float:
    """Write `count` records of random keys; `time.time()` of the last acknowledgement."""
    from tests.bench.librdkafka import BATCH, COPY, LIBRARY, PRODUCER, RawMessage, client

    config = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": "5",
        "batch.size": "1000000",
        "compression.codec": codec,
        "queue.buffering.max.messages": "200000",
    }
    handle, rkt = client(PRODUCER, config, topic)
    value = ctypes.create_string_buffer(bytes(index * 131 % 251 for index in range(VALUE_BYTES)), VALUE_BYTES)
    names = ctypes.create_string_buffer(b"".join(b"key-%08d" % key for key in range(keys)))
    first_name, chance = ctypes.addressof(names), random.Random(7)
    messages = (RawMessage * BATCH)()
    for message in messages:
        message.payload, message.len, message.key_len = ctypes.addressof(value), VALUE_BYTES, 12
    for _ in range(count // BATCH):
        for message in messages:
            message.key = first_name + 12 * chance.randrange(keys)
        while LIBRARY.rd_kafka_outq_len(handle) > 100_000:
            LIBRARY.rd_kafka_poll(handle, 5)
        if LIBRARY.rd_kafka_produce_batch(rkt, 0, COPY, messages, BATCH) != BATCH:
            raise RuntimeError("records were not queued")
    if LIBRARY.rd_kafka_flush(handle, 120_000) != 0:
        raise TimeoutError("records were not acknowledged")
    return time.time()


def segments(directory: Path) -> dict[str, int]:
    """Size by name of each `.log` of a partition's directory."""
    found = {}
    for entry in os.scandir(directory):
        if entry.name.endswith(".log"):
            try:
                found[entry.name] = entry.stat().st_size
            except FileNotFoundError:
                continue
    return found


def compact(system: System, directory: Path, topic: str, codec: str, records: int, keys: int) -> dict[str, float]:
    """Write a compacted topic and wait until its cleaning is over: `seconds` from the last write to the last
    cleaning, `cpu_s` of the node for all of it, `peak_mb`, and `mb` of the log at the end."""
    bootstrap = f"127.0.0.1:{system.port}"
    config = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES)}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values()
    created.result(60)
    usage, cpu_before = Usage(system.pid), cpu_with_children(system.pid)
    usage.start()
    begun = time.time()
    written = produce(bootstrap, topic, codec, records, keys)
    partition, last_change, known = directory / f"{topic}-0", written, {}
    while time.time() - last_change < SETTLED_S:
        time.sleep(POLL_S)
        if (now := segments(partition)) != known:
            known, last_change = now, time.time()
    usage.stop()
    return {
        "produce_s": written - begun,
        "seconds": last_change - written,
        "cpu_s": cpu_with_children(system.pid) - cpu_before,
        "peak_mb": usage.peak_mb,
        "mb": sum(known.values()) / 1e6,
    }


def data_directory(system: KafkaSystem | KraftSystem) -> Path:
    return system.node.data_directory if isinstance(system, KafkaSystem) else system.directory


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.compaction", description=__doc__)
    parser.add_argument("--systems", default="kraft,kafka", help="the first is compared with the second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help=f"some of {','.join(CODECS)}")
    parser.add_argument("--directory", default=None, help="where the data goes (default: the temporary directory)")
    parser.add_argument("--out", default="docs/benchmarks", help="where the page and the JSON go")
    options = parser.parse_args(arguments)
    names, figures = options.systems.split(","), Figures()
    with tempfile.TemporaryDirectory(prefix="kraft-bench-", dir=options.directory) as directory:
        systems = {name: KINDS[name](Path(directory) / name) for name in names}

        def measure(system: System, number: int) -> None:
            with alone(system, list(systems.values())):
                for name in options.only.split(",") if options.only else CODECS:
                    place = data_directory(systems[system.name])
                    found = compact(system, place, f"{name}-{number}", CODECS[name], RECORDS, KEYS)
                    for figure, value in found.items():
                        figures.add(f"{name}_{figure}", system, value)

        try:
            for system in systems.values():
                system.prepare()
                system.launch()
                until_acknowledged(system, "beside", create=True)
            in_turn(list(systems.values()), options.rounds, measure)
        finally:
            for system in systems.values():
                system.kill()
    heading = (
        f"{RECORDS:,} records of {VALUE_BYTES} B on one partition, {KEYS:,} keys, segments of "
        f"{SEGMENT_BYTES >> 20} MiB, log.cleaner.backoff.ms as it is; rounds in turn, medians of {options.rounds}."
    )
    versions = {name: KINDS[name].version for name in names}
    plan: dict[str, object] = {"rounds": options.rounds}
    text, met = report.write(Path(options.out), "compaction", AIMS, figures, plan, heading, versions)
    print(text)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
