"""`python -m tests.bench.inside`: produce where a broker has to look inside batches, beside Apache Kafka.

Compacted topics, topics with a codec of their own, append times. For each kind: thousands of records a second,
processor time of the broker for a record, and the longest wait of a producer that sends one record at a time to
another topic meanwhile.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench import report
from tests.bench.measure import ROOT, Figures, bootstrap, command, in_turn, load
from tests.bench.probe import ask, create_body, until_acknowledged, warm_up
from tests.bench.process_usage import cpu_seconds
from tests.bench.systems import KINDS, System, recycle_pages
from tests.vectors.wire import Connection

RECORDS = 300_000
PARTITIONS = 2
KEYS = 100_000
BESIDE = "beside"
BESIDE_TIMEOUT_S = 60


class Kind(NamedTuple):
    """What is produced to which topic: `codec` is the producer's."""

    label: str
    configs: Mapping[str, str]
    codec: str = "none"
    size: int = 400


COMPACT = {"cleanup.policy": "compact"}
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
ROWS = {
    "plain": Kind("plain", {}),
    "plain_lz4": Kind("plain, sent in lz4", {}, "lz4"),
    "plain_zstd": Kind("plain, sent in zstd", {}, "zstd"),
    "plain_gzip": Kind("plain, sent in gzip", {}, "gzip"),
    "compact": Kind("compacted", COMPACT),
    "compact_lz4": Kind("compacted, sent in lz4", COMPACT, "lz4"),
    "compact_zstd": Kind("compacted, sent in zstd", COMPACT, "zstd"),
    "compact_90": Kind("compacted, 90 B", COMPACT, size=90),
    "to_lz4": Kind("compression.type=lz4, sent uncompressed", {"compression.type": "lz4"}),
    "from_lz4": Kind("compression.type=uncompressed, sent in lz4", {"compression.type": "uncompressed"}, "lz4"),
    "gzip_to_zstd": Kind("compression.type=zstd, sent in gzip", {"compression.type": "zstd"}, "gzip"),
    "append_time": Kind("LogAppendTime", APPEND_TIME),
    "append_time_lz4": Kind("LogAppendTime, sent in lz4", APPEND_TIME, "lz4"),
}
AIMS: report.Aims = {}
for _name, _kind in ROWS.items():
    AIMS[f"{_name}_krec_s"] = (f"{_kind.label}: 1,000 records/s", 1.0, "ratio", True)
    AIMS[f"{_name}_cpu_us"] = (f"{_kind.label}: broker CPU, us a record", 1.0, "ratio", False)
    AIMS[f"{_name}_longest_ms"] = (f"{_kind.label}: longest wait beside it, ms", 1.0, "ratio", False)


def create(system: System, topic: str, kind: Kind) -> None:
    """Raises RuntimeError when the system refuses."""
    body: dict[str, Any] = create_body(topic)
    body["topics"][0] |= {
        "num_partitions": PARTITIONS,
        "configs": [{"name": name, "value": value} for name, value in kind.configs.items()],
    }
    connection = Connection(("127.0.0.1", system.port))
    try:
        code = ask(connection, "CreateTopics", 7, body)["topics"][0]["error_code"]
    finally:
        connection.close()
    if code != 0:
        raise RuntimeError(f"{system.name} answers CreateTopics of {topic} with {code}")


@contextmanager
def single_records(system: System, longest: list[float]) -> Iterator[None]:
    """Send single records to another topic meanwhile; their longest wait in ms is added to `longest`."""
    process = subprocess.Popen(
        command("beside", bootstrap(system), BESIDE),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()  # It is warm.
        yield
        output, _ = process.communicate(timeout=BESIDE_TIMEOUT_S)
        longest.append(json.loads(output.strip().splitlines()[-1])["max"])
    finally:
        process.kill()
        process.wait()


def produce(system: System, name: str, kind: Kind, number: int, figures: Figures, place: Path) -> None:
    """One round of one kind. The first round only warms."""
    topic = f"{name.replace('_', '-')}-{number}"
    create(system, topic, kind)
    recycle_pages(place, RECORDS * kind.size * 5 // 4)
    longest: list[float] = []
    with single_records(system, longest):
        before = cpu_seconds(system.pid)
        taken = load("produce", bootstrap(system), topic, RECORDS, kind.size, 0, PARTITIONS, kind.codec, KEYS)
        used = cpu_seconds(system.pid) - before
    if number > 0:
        figures.add(f"{name}_krec_s", system, RECORDS / taken["seconds"] / 1000)
        figures.add(f"{name}_cpu_us", system, used / RECORDS * 1e6)
        figures.add(f"{name}_longest_ms", system, longest[0])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.inside", description=__doc__)
    parser.add_argument("--systems", default="kraft,kafka", help="the first is compared with the second")
    parser.add_argument("--rounds", type=int, default=3, help="one more warms up")
    parser.add_argument("--only", default="", help=f"some of {','.join(ROWS)}")
    parser.add_argument("--directory", default=None, help="where the data goes (default: the temporary directory)")
    parser.add_argument("--out", default="docs/benchmarks", help="where the page and the JSON go")
    options = parser.parse_args(arguments)
    names, figures = options.systems.split(","), Figures()
    with tempfile.TemporaryDirectory(prefix="kraft-bench-", dir=options.directory) as directory:
        place = Path(directory)
        systems: list[System] = [KINDS[name](place / name) for name in names]
        warm_up()
        try:
            for system in systems:
                system.prepare()
                system.launch()
                until_acknowledged(system, BESIDE, create=True)
            for name in options.only.split(",") if options.only else ROWS:
                kind = ROWS[name]
                in_turn(
                    systems,
                    options.rounds + 1,
                    lambda system, number, name=name, kind=kind: produce(system, name, kind, number, figures, place),
                )
        finally:
            for system in systems:
                system.kill()
    heading = (
        f"{RECORDS:,} records of 400 B with keys on {PARTITIONS} partitions, librdkafka, acks=all; both systems run, "
        f"rounds in turn; medians of {options.rounds} rounds.\nLongest wait: of a producer that sends one record at a "
        "time to another topic meanwhile."
    )
    versions = {name: KINDS[name].version for name in names}
    text, met = report.write(Path(options.out), "inside", AIMS, figures, {"rounds": options.rounds}, heading, versions)
    print(text)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
