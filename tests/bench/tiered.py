"""`python -m tests.bench.tiered`: what tiered storage costs, beside Apache Kafka with its LocalTieredStorage. Both
stores are directories on the disk that holds the data.

A round writes a topic, has it tiered, waits until all closed segments are in the store and few on the disk, and reads
what lies in the store alone. Then it writes another topic that is tiered from the start. Three nodes give such a topic
another replica. Ours reads back whatever it
copies; LocalTieredStorage does not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from jepsen.java.jars import jars
from tests.bench import report
from tests.bench.cluster.measure import first_acknowledged
from tests.bench.cluster.trios import MEMBERS, NODES, Trio
from tests.bench.compaction import segments
from tests.bench.measure import Figures, bootstrap, in_turn, load
from tests.bench.probe import until_acknowledged
from tests.bench.process_usage import cpu_seconds
from tests.bench.systems import KINDS, KafkaSystem, KraftSystem, System, recycle_pages

MEBIBYTES = 1024
SIZE = 1024
SEGMENT_BYTES = 32 << 20
POLL_S = 0.01
WAIT_S_MAX = 240.0
SETTINGS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
}
KAFKA_SETTINGS = {
    "log.initial.task.delay.ms": "500",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
}
AIMS: report.Aims = {
    "copy_mb_s": ("copy to the store, MB/s", 1.0, "ratio", True),
    "copy_cpu_s_per_gb": ("copy to the store, broker CPU s/GB", 1.0, "ratio", False),
    "read_mb_s": ("consume from the store, MB/s", 1.0, "ratio", True),
    "read_cpu_s_per_gb": ("consume from the store, broker CPU s/GB", 1.0, "ratio", False),
    "beside_mb_s": ("produce to a tiered topic, MB/s", 1.0, "ratio", True),
    "beside_cpu_s_per_gb": ("produce to a tiered topic until all is copied, broker CPU s/GB", 1.0, "ratio", False),
    "follower_s": ("three nodes: a new replica of that topic is in sync, s", 1.0, "ratio", False),
}


class Measured(NamedTuple):
    """`size` bytes took `seconds`, and `cpu_s` of the broker's processor time."""

    name: str
    size: int
    seconds: float
    cpu_s: float


def make(name: str, directory: Path) -> KafkaSystem | KraftSystem:
    """A system with tiered storage; its store is `<directory>-store`."""
    kind = KINDS[name]
    return kind(directory, settings=settings_of(kind, store_of(directory)))


def settings_of(kind: type[KafkaSystem] | type[KraftSystem], store: Path) -> dict[str, str]:
    """Of a node whose store is this directory, which is made."""
    store.mkdir(parents=True)
    if issubclass(kind, KraftSystem):
        return SETTINGS | {"kraft.remote.storage.uri": f"file://{store}"}
    own = {"remote.log.storage.manager.class.path": f"{jars('local_tiered_storage')}/*", "rsm.config.dir": str(store)}
    return SETTINGS | KAFKA_SETTINGS | own


def store_of(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}-store")


class Tiers:
    """The two tiers of a topic of one partition, as they lie on the disk."""

    def __init__(self, bootstrap_servers: str, topic: str, directories: Sequence[Path], store: Path) -> None:
        """`directories` are those of the replicas."""
        self.topic = topic
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        self._local, self._store = [directory / f"{topic}-0" for directory in directories], store

    def create(self, replicas: Sequence[int], config: Mapping[str, str]) -> None:
        settings = {"segment.bytes": str(SEGMENT_BYTES), **config}
        wanted = NewTopic(self.topic, 1, replica_assignment=[list(replicas)], config=settings)
        (created,) = self._admin.create_topics([wanted]).values()
        created.result(60)

    def set(self, config: Mapping[str, str]) -> None:
        resource = ConfigResource(
            ResourceType.TOPIC,
            self.topic,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()
            ],
        )
        (altered,) = self._admin.incremental_alter_configs([resource]).values()
        altered.result(60)

    def delete(self) -> None:
        """From both tiers, which takes a while."""
        (deleted,) = self._admin.delete_topics([self.topic]).values()
        deleted.result(60)
        wait(lambda: not self._in_store(), f"{self.topic} stays in the store")

    def local_start(self) -> int:
        """Of the first replica."""
        return min(int(Path(name).stem) for name in segments(self._local[0]))

    def closed_bytes(self) -> int:
        """Of the segments on the disk but for the active one, of the replica that has most."""
        found = map(segments, self._local)
        return max(sum(sizes.values()) - sizes[max(sizes)] for sizes in found)

    def until_few_are_local(self) -> None:
        self.set({"local.retention.bytes": str(SEGMENT_BYTES)})
        wait(lambda: self.closed_bytes() <= 2 * SEGMENT_BYTES, f"{self.topic} stays on the disk")

    def stored_bytes(self) -> int:
        """Of segments, as far as they are in the store. Only while nothing is deleted from there."""
        return sum(path.stat().st_size for path in self._in_store())

    def _in_store(self) -> list[Path]:
        return [path for path in self._store.rglob("*.log") if f"/{self.topic}-" in str(path)]

    def until_copied(self, size: int) -> None:
        wait(lambda: self.stored_bytes() >= size, f"{self.topic} is not copied")


def wait(holds: Callable[[], bool], what: str) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(POLL_S)


def copied(system: System, tiers: Tiers) -> Measured:
    """From the moment when something of it is in the store: what is there by then does not count."""
    tiers.set({"remote.storage.enable": "true"})
    wait(lambda: tiers.stored_bytes() > 0, f"{tiers.topic} is not tiered")
    size, before, begun = tiers.closed_bytes(), cpu_seconds(system.pid), time.perf_counter()
    first = tiers.stored_bytes()
    tiers.until_copied(size)
    return Measured("copy", size - first, time.perf_counter() - begun, cpu_seconds(system.pid) - before)


def read(system: System, tiers: Tiers) -> Measured:
    """What has left the disk."""
    tiers.until_few_are_local()
    count, before = tiers.local_start(), cpu_seconds(system.pid)
    seconds = load("consume", bootstrap(system), tiers.topic, count)["seconds"]
    return Measured("read", count * SIZE, seconds, cpu_seconds(system.pid) - before)


def written(system: System, tiers: Tiers, size: int) -> Measured:
    """While it is copied; the processor time is that until all has been."""
    tiers.create([1], {"remote.storage.enable": "true"})
    before = cpu_seconds(system.pid)
    seconds = load("produce", bootstrap(system), tiers.topic, size // SIZE, SIZE)["seconds"]
    tiers.until_copied(tiers.closed_bytes())
    return Measured("beside", size, seconds, cpu_seconds(system.pid) - before)


def one_round(system: System, number: int, size: int, place: Path, figures: Figures) -> None:
    """The first round only warms."""
    directory = place / system.name
    data = directory / "data" if isinstance(system, KafkaSystem) else directory
    old, new = (Tiers(bootstrap(system), f"{label}-{number}", [data], store_of(directory)) for label in ("old", "new"))
    old.create([1], {"file.delete.delay.ms": "100"})
    recycle_pages(place, 2 * size)
    load("produce", bootstrap(system), old.topic, size // SIZE, SIZE)
    measured = [copied(system, old), read(system, old)]
    old.delete()
    recycle_pages(place, 2 * size)
    measured.append(written(system, new, size))
    new.delete()
    for each in measured if number > 0 else ():
        figures.add(f"{each.name}_mb_s", system, each.size / each.seconds / 1e6)
        figures.add(f"{each.name}_cpu_s_per_gb", system, each.cpu_s / (each.size / 1e9))


def topics(names: Sequence[str], rounds: int, size: int, place: Path, figures: Figures) -> None:
    """One node each; both run."""
    systems: list[System] = [make(name, place / name) for name in names]
    try:
        for system in systems:
            system.prepare()
            system.launch()
            until_acknowledged(system, "first", create=True)
        in_turn(systems, rounds + 1, lambda system, number: one_round(system, number, size, place, figures))
    finally:
        for system in systems:
            system.kill()


def followers(names: Sequence[str], rounds: int, size: int, place: Path, figures: Figures) -> None:
    """A third replica of a topic that lies in the store but for its newest segments: from the reassignment until it is
    in sync. Both clusters run."""
    trios = [Trio(name, place / name, settings_of(MEMBERS[name], store_of(place / name))) for name in names]
    try:
        for cluster in trios:
            cluster.prepare()
            cluster.launch()
            first_acknowledged(cluster, "first")
        for number in range(rounds + 1):
            for cluster in trios if number % 2 == 0 else reversed(trios):
                seconds = built(cluster, f"old-{number}", size, place / cluster.name)
                if number > 0:
                    figures.add("follower_s", cluster, seconds)
    finally:
        for cluster in trios:
            cluster.kill()


def built(cluster: Trio, topic: str, size: int, place: Path) -> float:
    *old, new = NODES
    directories = [place / str(node) for node in old]
    if isinstance(cluster.members[new], KafkaSystem):
        directories = [directory / "data" for directory in directories]
    tiers = Tiers(cluster.bootstrap, topic, directories, store_of(place))
    tiers.create(old, {"remote.storage.enable": "true", "file.delete.delay.ms": "100"})
    load("produce", cluster.bootstrap, topic, size // SIZE, SIZE)
    tiers.until_copied(tiers.closed_bytes())
    tiers.until_few_are_local()
    begun = time.perf_counter()
    cluster.reassign(topic, [*old, new])
    wait(lambda: new in cluster.partitions(topic)[0].isrs, f"{new} does not follow {topic}")
    seconds = time.perf_counter() - begun
    tiers.delete()
    return seconds


PARTS = {"topics": topics, "followers": followers}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tiered", description=__doc__)
    parser.add_argument("--systems", default="kraft,kafka", help="the first is compared with the second")
    parser.add_argument("--rounds", type=int, default=3, help="one more warms up")
    parser.add_argument("--only", default="", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--mebibytes", type=int, default=MEBIBYTES, help="of a topic")
    parser.add_argument("--directory", default=None, help="where the data goes (default: the temporary directory)")
    parser.add_argument("--out", default="docs/benchmarks", help="where the page and the JSON go")
    options = parser.parse_args(arguments)
    names, figures, size = options.systems.split(","), Figures(), options.mebibytes << 20
    for part in options.only.split(",") if options.only else PARTS:
        with tempfile.TemporaryDirectory(prefix="kraft-bench-", dir=options.directory) as directory:
            PARTS[part](names, options.rounds, size, Path(directory), figures)
    heading = (
        f"{options.mebibytes} MiB of 1 KB records a topic, segments of {SEGMENT_BYTES >> 20} MiB, one partition, "
        f"acks=all, librdkafka; both systems run, rounds in turn; medians of {options.rounds} rounds.\nBoth stores are "
        "directories. Ours reads back whatever it copies; Kafka's LocalTieredStorage, a class of its tests, does not."
    )
    versions = {name: KINDS[name].version for name in names}
    plan: dict[str, object] = {"rounds": options.rounds, "mebibytes": options.mebibytes}
    text, met = report.write(Path(options.out), "tiered", AIMS, figures, plan, heading, versions)
    print(text)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
