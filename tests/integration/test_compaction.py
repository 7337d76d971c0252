"""A real node cleans a compacted topic in a real process, and loses neither records nor time when it is killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from kraft.testing.foreign.librdkafka import AdminClient, Consumer
from kraft.testing.node_process import NodeProcess
from tests.integration.plain_clients import Record, write_confluent

SECONDS_MAX = 60
SCANS_MAX = 100
CLEAN_BYTES_MAX = (1 << 20) + (1 << 18)
"""Of a log that is clean: the active segment, which may be full of one large batch, and a record of each key."""
KEYS = 50
RECORDS = 3000
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}


def until(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """Its child processes. A thread that ends while they are listed leaves its children to another: they are listed
    again then."""
    for _ in range(SCANS_MAX):
        try:
            lists = [(task / "children").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        return [int(child) for text in lists for child in text.split()]
    raise AssertionError(f"the threads of process {pid} cannot be listed")


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # Renamed since it was listed.
        return 1 << 20


def log_bytes(directory: Path) -> int:
    return sum(size_of(path) for path in directory.glob("*.log"))


def last_values(bootstrap: str, topic: str, last_value: bytes) -> tuple[int, dict[bytes, bytes]]:
    """How many records there are up to the one of `last_value`, and the last value of each key."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads-alone", "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    count, values, give_up = 0, dict[bytes, bytes](), time.monotonic() + SECONDS_MAX
    try:
        while last_value not in values.values():
            assert time.monotonic() < give_up
            message = consumer.poll(1.0)
            if message is not None:
                assert message.error() is None
                count += 1
                values[message.key()] = message.value()
    finally:
        consumer.close()
    return count, values


def test_a_node_killed_during_cleaning_cleans_again_after_its_restart(tmp_path: Path) -> None:
    slow = ("--set", "log.cleaner.backoff.ms=100", "--set", "log.cleaner.io.max.bytes.per.second=20000")
    records = [Record(b"%d" % (index % KEYS), b"%d " % index + bytes(1000)) for index in range(RECORDS)]
    with NodeProcess(tmp_path, *slow) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        (created,) = admin.create_topics([NewTopic("t", 1, 1, config=COMPACTED)]).values()
        created.result(SECONDS_MAX)
        assert children(node.pid) == [], "a node that cleans nothing has no process for it"
        write_confluent(node.bootstrap, "t", records, "none")
        until(lambda: children(node.pid) != [])
        node.kill()
        node.arguments = ("--set", "log.cleaner.backoff.ms=100")
        node.start()
        directory = tmp_path / "data" / "t-0"
        until(lambda: children(node.pid) == [] and log_bytes(directory) < CLEAN_BYTES_MAX)
        assert not list(directory.glob("*.cleaned"))
        count, values = last_values(node.bootstrap, "t", records[-1].value or b"")
        assert values == {record.key: record.value for record in records}
        assert count < RECORDS // 2
        assert node.stop() == 0
