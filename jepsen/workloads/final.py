"""The final reads after healing: a new client reads every partition from start to end and the group's committed
offsets, and the replicas' files are compared."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from jepsen.checker.operations import OK, FinalRead, Partition, ReplicaContent, Stuck, Writers
from jepsen.db import Cluster
from jepsen.history import METADATA, Recorder
from jepsen.servers import Servers
from jepsen.workloads.rdkafka import record_committed
from kraft.protocol.records.record_batch import RecordBatch
from kraft.testing.foreign.librdkafka import Consumer
from kraft.testing.foreign.process import Hung
from kraft.testing.watermarks import watermarks

READ_SECONDS_MAX = 40.0
COMMITTED_SECONDS_MAX = 30.0
PAUSE_SECONDS = 0.05
ALIKE_SECONDS_MAX = 30.0


def stuck(recorder: Recorder, what: str) -> None:
    now = recorder.now()
    recorder.done(Stuck(process="harness", began=now, ended=now, outcome=OK, what=what))


def read_all(recorder: Recorder, servers: Servers, places: Sequence[Partition]) -> dict[Partition, FinalRead]:
    """Read all partitions to the end. One that cannot be read in time is recorded as stuck."""
    settings = {
        **servers.librdkafka,
        "group.id": "final",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
    }
    consumer = Consumer(settings)
    deadline = time.monotonic() + READ_SECONDS_MAX
    found: dict[Partition, FinalRead] = {}
    for place in places:
        try:
            read = _read_place(recorder, consumer, place, deadline)
        except Hung:  # That one is gone; another takes its place, once.
            consumer = Consumer(settings)
            read = _read_place(recorder, consumer, place, deadline)
        if read is not None:
            found[place] = read
    return found


def _read_place(recorder: Recorder, consumer: Consumer, place: Partition, deadline: float) -> FinalRead | None:
    try:
        start, end = watermarks(consumer, *place, deadline - time.monotonic())
    except KafkaException:
        stuck(recorder, f"{place[0]}-{place[1]} does not tell its end after healing")
        return None
    read = FinalRead(process="final", began=recorder.now(), topic=place[0], partition=place[1], start=start, end=end)
    if not _read(consumer, place, read, deadline):
        stuck(recorder, f"{place[0]}-{place[1]} cannot be read up to {end} after healing")
        return None
    read.ok(recorder.now())
    recorder.done(read)
    return read


def _read(consumer: Consumer, place: Partition, read: FinalRead, deadline: float) -> bool:
    consumer.assign([TopicPartition(*place, read.start)])
    position = read.start
    while position < read.end and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.2):
            if message.error() is not None:
                if message.error().code() == KafkaError._PARTITION_EOF:  # What is left are markers.
                    position = max(position, int(message.offset() or 0))
            else:
                offset = int(message.offset() or 0)
                epoch = message.leader_epoch()
                read.records.append((offset, (message.value() or b"").decode(), -1 if epoch is None else int(epoch)))
                position = offset + 1
    return position >= read.end


def read_transactions(recorder: Recorder, servers: Servers, places: Sequence[Partition]) -> None:
    """Read all committed records once no transaction is open; one that a dead producer left open is aborted after its
    timeout. A partition that cannot be read in time is recorded as stuck."""
    settings = {
        **servers.librdkafka,
        "group.id": "final",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
    }
    committed = Consumer({**settings, "isolation.level": "read_committed"})
    everything = Consumer({**settings, "isolation.level": "read_uncommitted"})
    deadline = time.monotonic() + READ_SECONDS_MAX
    for topic, partition in places:
        try:
            while True:
                start, end = watermarks(everything, topic, partition, deadline - time.monotonic())
                if watermarks(committed, topic, partition, deadline - time.monotonic())[1] == end:
                    break
                if time.monotonic() > deadline:
                    stuck(recorder, f"a transaction in {topic}-{partition} is open after healing")
                    return
                time.sleep(PAUSE_SECONDS)
        except KafkaException:
            stuck(recorder, f"{topic}-{partition} does not tell its end after healing")
            return
        read = FinalRead(
            process="final",
            began=recorder.now(),
            topic=topic,
            partition=partition,
            start=start,
            end=end,
            transactional=True,
        )
        if not _read(committed, (topic, partition), read, deadline):
            stuck(recorder, f"{topic}-{partition} cannot be read up to {end} after healing")
            return
        read.ok(recorder.now())
        recorder.done(read)


def read_committed(recorder: Recorder, servers: Servers, group: str, places: Sequence[Partition]) -> None:
    """Fetch the group's committed offsets at the end: members fetch them only at an assignment, which may have been
    before the last fault."""
    consumer = Consumer({**servers.librdkafka, "group.id": group, "enable.auto.commit": False})
    partitions = [TopicPartition(*place) for place in places]
    deadline = time.monotonic() + COMMITTED_SECONDS_MAX
    while not record_committed(recorder, "final", consumer, group, partitions):
        if time.monotonic() > deadline:
            stuck(recorder, f"it is not told what {group} has committed, {COMMITTED_SECONDS_MAX:g} s after healing")
            return
        time.sleep(PAUSE_SECONDS)


def batches(directory: Path) -> Iterator[tuple[int, int, bytes]]:
    """(base offset, offset after the last, bytes) of each batch in a replica's segments."""
    for path in sorted(directory.glob("*.log")):
        try:
            yield from batches_of(path.read_bytes())
        except FileNotFoundError:
            pass  # It has left the disk since it was listed, as the first of a tiered log may.


def batches_of(segment: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the batches of one segment in the same form as `batches`."""
    at = 0
    while at + 61 <= len(segment):
        base, length = struct.unpack_from(">qi", segment, at)
        end = at + 12 + length
        if length < 49 or end > len(segment):
            break
        yield base, base + struct.unpack_from(">i", segment, at + 23)[0] + 1, segment[at:end]
        at = end


def contents(cluster: Cluster, place: Partition, nodes: Sequence[int]) -> list[tuple[int, int, int, str]]:
    """Return (node, start, end, digest) of each replica. The metadata log, whose head and tail differ by node, is
    compared only where all nodes have it; so is a tiered log, whose head differs."""
    held = {node: list(batches(replica_directory(cluster, place, node))) for node in nodes}
    if not all(held.values()):
        return [(node, 0, len(found), "nothing" if not found else "something") for node, found in held.items()]
    is_metadata = place == METADATA
    has_own_head = is_metadata or cluster.store is not None
    start = max(found[0][0] for found in held.values()) if has_own_head else 0
    end = (min if is_metadata else max)(found[-1][1] for found in held.values())
    result = []
    for node, found in held.items():
        digest = hashlib.sha256()
        for base, after, content in found:
            if base >= start and after <= end:
                digest.update(content)
        result.append(
            (
                node,
                start if has_own_head else found[0][0],
                end if is_metadata else found[-1][1],
                digest.hexdigest()[:16],
            )
        )
    return result


def compare_replicas(cluster: Cluster, recorder: Recorder, replicas: dict[Partition, Sequence[int]]) -> None:
    """Wait a while until the replicas of each partition have the same bytes, and record what they have."""
    for place, nodes in sorted(replicas.items()):
        deadline = time.monotonic() + ALIKE_SECONDS_MAX
        found = contents(cluster, place, nodes)
        while len({each[1:] for each in found}) > 1 and time.monotonic() < deadline:
            time.sleep(0.3)
            found = contents(cluster, place, nodes)
        for node, start, end, digest in found:
            content = ReplicaContent(
                process=str(node),
                began=recorder.now(),
                topic=place[0],
                partition=place[1],
                start=start,
                end=end,
                batches=digest,
            )
            content.ok(recorder.now())
            recorder.done(content)
        if place != METADATA and len({each[1:] for each in found}) == 1:
            tell_writers(cluster, recorder, place, nodes[0])


def tell_writers(cluster: Cluster, recorder: Recorder, place: Partition, node: int) -> None:
    """Record the producer of each batch of a partition whose replicas are equal."""
    told = Writers(process=str(node), began=recorder.now(), topic=place[0], partition=place[1])
    on_disk = list(batches(replica_directory(cluster, place, node)))  # First: what leaves the disk is in the store.
    known = {base: (after, content) for base, after, content in (*stored_batches(cluster, place), *on_disk)}
    for base, (after, content) in sorted(known.items()):
        batch = RecordBatch(content)
        told.batches.append((base, after, batch.producer_id, batch.producer_epoch))
    told.ok(recorder.now())
    recorder.done(told)


def stored_batches(cluster: Cluster, place: Partition) -> Iterator[tuple[int, int, bytes]]:
    """Yield the batches in the object store in the form of `batches`; some occur twice."""
    store = cluster.store
    for name in [] if store is None else store.names():
        _, topic, partition, file = name.split("/")
        if topic.startswith(f"{place[0]}-") and int(partition) == place[1] and file.endswith(".log"):
            yield from batches_of(store.content(name) or b"")


def replica_directory(cluster: Cluster, place: Partition, node: int) -> Path:
    return cluster.nodes[node].data / f"{place[0]}-{place[1]}"
