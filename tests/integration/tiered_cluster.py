"""A cluster with tiered topics, for tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import NewTopic

from kraft.testing.foreign.librdkafka import AdminClient
from tests.integration.plain_clients import Record

SECONDS_MAX = 60


RECORDS = 20_000


SEGMENT = 1 << 20


LOCAL = 2 << 20


TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT),
    "local.retention.bytes": str(LOCAL),
    "file.delete.delay.ms": "100",
}


def until(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def options(store: str, *more: str) -> tuple[str, ...]:
    settings = (
        "remote.log.storage.system.enable=true",
        f"kraft.remote.storage.uri={store}",
        "remote.log.manager.task.interval.ms=200",
        "log.retention.check.interval.ms=500",
        *more,
    )
    return tuple(part for setting in settings for part in ("--set", setting))


def create(bootstrap: str, topic: str, replicas: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics([NewTopic(topic, 1, replicas, config=TIERED | config)]).values()
    created.result(SECONDS_MAX)


def records_of(count: int, first: int = 0) -> list[Record]:
    """About a kilobyte each, which does not compress."""
    return [Record(None, b"%d " % index + bytes(1000)) for index in range(first, first + count)]


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # Renamed since it was listed.
        return SEGMENT


def log_bytes(directory: Path) -> int:
    return sum(size_of(path) for path in directory.glob("*.log"))
