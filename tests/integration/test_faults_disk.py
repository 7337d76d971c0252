"""Disks that are full or fail, under a real node: what cannot be kept is refused, what is kept is served, and
nothing needs a restart but a disk that lies.

A full disk is a small file system in memory (root); a failing sync is a shared library of a few lines, built here,
that stands before the C library's.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic

from kraft.testing.foreign.librdkafka import AdminClient, Consumer, Producer
from kraft.testing.node_process import NodeProcess
from tests.capabilities import require_capability
from tests.integration.plain_clients import Record, read_confluent, write_confluent

SECONDS_MAX = 30
TRY_SECONDS = 2
"""How long a producer tries to write what is refused."""
PARTITIONS = 6
DISK_BYTES = 16 << 20
LIBRARY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <stdio.h>

/* A sync of a file whose path contains what the file $FAIL_SYNC holds fails with EIO. */
static int fails(int descriptor) {
    char link[64], path[4096], wanted[4096];
    FILE *file = fopen(getenv("FAIL_SYNC"), "r");
    if (file == NULL) return 0;
    char *line = fgets(wanted, sizeof wanted, file);
    fclose(file);
    if (line == NULL) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return strstr(path, wanted) != NULL;
}

int fsync(int descriptor) {
    if (fails(descriptor)) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(descriptor);
}

int fdatasync(int descriptor) {
    if (fails(descriptor)) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(descriptor);
}
"""


class SmallDisk:
    """A file system of DISK_BYTES that can be filled to the last byte and emptied again."""

    def __init__(self, mounted: Path) -> None:
        self.mounted = mounted
        self.ballast = mounted / "ballast"

    def fill(self) -> None:
        with open(self.ballast, "ab", buffering=0) as file:
            for piece in (1 << 16, 1 << 12):
                try:
                    while file.write(bytes(piece)) == piece:
                        pass
                except OSError:
                    continue

    def empty(self) -> None:
        self.ballast.unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    require_capability("root")
    mounted = tmp_path / "disk"
    mounted.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(mounted)], check=True)
    try:
        yield SmallDisk(mounted)
    finally:
        subprocess.run(["umount", "-l", str(mounted)], check=True)


@pytest.fixture(scope="module")
def failing_sync(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a node whose syncs fail where the file named by FAIL_SYNC says."""
    require_capability("cc")
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None
    folder = tmp_path_factory.mktemp("library")
    (folder / "sync.c").write_text(LIBRARY)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(folder / "sync.so"), str(folder / "sync.c"), "-ldl"], check=True
    )
    return {"LD_PRELOAD": str(folder / "sync.so"), "FAIL_SYNC": str(folder / "wanted")}


def admin_of(node: NodeProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> int:
    """0, or the code with which it was refused."""
    try:
        admin.create_topics(
            [NewTopic(topic, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()})],
            request_timeout=5,
        )[topic].result(10)
    except KafkaException as problem:
        return int(problem.args[0].code())
    return 0


def produce_once(node: NodeProcess, topic: str, value: bytes, seconds: float = TRY_SECONDS) -> int:
    """One record by a producer of its own; 0, or the code of the failure."""
    return produce(node, topic, value, [0], seconds)[0]


def refusing(
    node: NodeProcess,
    topic: str,
    value: bytes,
    partitions: Iterable[int] = range(PARTITIONS),
    seconds: float = TRY_SECONDS,
) -> set[int]:
    """Which of the partitions do not take the value."""
    return {partition for partition, code in produce(node, topic, value, partitions, seconds).items() if code != 0}


def produce(node: NodeProcess, topic: str, value: bytes, partitions: Iterable[int], seconds: float) -> dict[int, int]:
    """One record to each partition. All are asked at once: a producer tries for so long before it is refused."""
    outcomes: dict[int, int] = {}
    settings = {
        "bootstrap.servers": node.bootstrap,
        "log_level": 0,
        "message.timeout.ms": int(seconds * 1000),
        "retries": 0,
        "acks": "all",
        "linger.ms": 0,
    }
    producer = Producer(settings)

    def told(problem: Any, message: Any) -> None:
        outcomes[message.partition()] = problem.code() if problem else 0

    for partition in partitions:
        producer.produce(topic, value, partition=partition, on_delivery=told)
    producer.flush(seconds + 10)
    return outcomes


def eventually(deed: Callable[[], Any], wanted: Any, seconds: float = SECONDS_MAX) -> None:
    deadline = time.monotonic() + seconds
    while (found := deed()) != wanted:
        assert time.monotonic() < deadline, f"{found} instead of {wanted}"
        time.sleep(0.1)


def test_a_full_disk_rejects_writes_serves_reads_and_recovers_without_a_restart(small_disk: SmallDisk) -> None:
    periods = (
        "log.flush.offset.checkpoint.interval.ms",
        "replica.high.watermark.checkpoint.interval.ms",
        "log.retention.check.interval.ms",
    )
    settings = [word for period in periods for word in ("--set", f"{period}=100")]
    with NodeProcess(small_disk.mounted, *settings, "--set", "group.initial.rebalance.delay.ms=0") as node:
        admin = admin_of(node)
        assert create(admin, "t", segment_bytes="1048576") == 0
        records = [Record(b"%d" % index, bytes(1000)) for index in range(500)]
        write_confluent(node.bootstrap, "t", records, "none")
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "log_level": 0, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("t", 0, 100)], asynchronous=False)
        for round_number in range(2):
            small_disk.fill()
            for _ in range(3):
                assert produce_once(node, "t", bytes(5000)) in (
                    KafkaError.KAFKA_STORAGE_ERROR,
                    KafkaError._MSG_TIMED_OUT,
                )
            assert create(admin, f"full-{round_number}") != 0
            with pytest.raises(KafkaException):
                consumer.commit(offsets=[TopicPartition("t", 0, 400, metadata="x" * 4000)], asynchronous=False)
            time.sleep(1)  # For what a node does unasked: checkpoints, flushes, no-op records, heartbeats.
            assert [seen.record[:2] for seen in read_confluent(node.bootstrap, "t", 500)] == [
                record[:2] for record in records
            ]
            (committed,) = consumer.committed([TopicPartition("t", 0)], timeout=SECONDS_MAX)
            assert committed.offset == 100 + round_number
            small_disk.empty()
            eventually(lambda: produce_once(node, "t", b"there is room again", SECONDS_MAX), 0)
            eventually(lambda: create(admin, f"room-{round_number}"), 0)  # noqa: B023
            consumer.commit(offsets=[TopicPartition("t", 0, 101 + round_number)], asynchronous=False)
        seen = read_confluent(node.bootstrap, "t", 502)
        assert [each.record.value for each in seen[500:]] == [b"there is room again"] * 2
        consumer.close()
        small_disk.fill()
        node.kill()
        small_disk.empty()
        node.start()
        assert [each.record for each in read_confluent(node.bootstrap, "t", 502)] == [each.record for each in seen]
        assert {"t", "room-0", "room-1"} <= set(admin.list_topics(timeout=SECONDS_MAX).topics)
        assert node.stop() == 0


def test_a_failing_sync_takes_its_log_directory_offline_and_the_other_keeps_serving(
    tmp_path: Path, failing_sync: dict[str, str]
) -> None:
    wanted = Path(failing_sync["FAIL_SYNC"])
    wanted.unlink(missing_ok=True)
    other = tmp_path / "other"
    with NodeProcess(tmp_path, environment=failing_sync, disks=("data", "other")) as node:
        admin = admin_of(node)
        assert create(admin, "t", partitions=PARTITIONS, flush_messages="1") == 0
        assert refusing(node, "t", b"before", seconds=SECONDS_MAX) == set()
        broken = {int(path.name.rpartition("-")[2]) for path in other.glob("t-*")}
        assert 0 < len(broken) < PARTITIONS
        wanted.write_text(f"{other}/t-")
        refused = refusing(node, "t", b"after")
        assert refused & broken, "a sync that failed is no acknowledgement"
        eventually(lambda: refusing(node, "t", b"after"), broken)
        wanted.unlink()  # It is never trusted again, whatever it says now.
        assert refusing(node, "t", b"again", broken) == broken
        assert refusing(node, "t", b"again", {*range(PARTITIONS)} - broken, SECONDS_MAX) == set()
        assert admin.list_topics(timeout=SECONDS_MAX).topics["t"].partitions
        node.stop()
        node.start()
        eventually(lambda: refusing(node, "t", b"restarted"), set())


def test_a_node_whose_only_directory_fails_stops_with_the_reason(tmp_path: Path, failing_sync: dict[str, str]) -> None:
    wanted = Path(failing_sync["FAIL_SYNC"])
    wanted.unlink(missing_ok=True)
    with NodeProcess(tmp_path, environment=failing_sync) as node:
        assert create(admin_of(node), "t", flush_messages="1") == 0
        assert produce_once(node, "t", b"before", SECONDS_MAX) == 0
        wanted.write_text("/t-0/")
        assert produce_once(node, "t", b"after") != 0
        assert node.wait() == 1
        last = node.log_path.read_text().splitlines()[-1]
        assert "kraft-node: " in last
        assert "t-0" in last
        assert "Input/output error" in last
        wanted.unlink()
        node.start()
        values = [seen.record.value for seen in read_confluent(node.bootstrap, "t", 1)]
        assert values == [b"before"]


def test_a_metadata_log_that_cannot_be_synced_stops_the_node(tmp_path: Path, failing_sync: dict[str, str]) -> None:
    wanted = Path(failing_sync["FAIL_SYNC"])
    wanted.unlink(missing_ok=True)
    with NodeProcess(tmp_path, environment=failing_sync) as node:
        admin = admin_of(node)
        assert create(admin, "before") == 0
        wanted.write_text("__cluster_metadata-0/")
        assert create(admin, "after") != 0
        assert node.wait() == 1
        last = node.log_path.read_text().splitlines()[-1]
        assert "kraft-node: " in last
        assert "Input/output error" in last
        wanted.unlink()
        node.start()
        assert "before" in admin_of(node).list_topics(timeout=SECONDS_MAX).topics
