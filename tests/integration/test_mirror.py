"""`kraft mirror`: each record once, in the place that it had, whoever is killed meanwhile; groups that move."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from jepsen.spark.spark_logs import read_to_the_end
from tests.bench.probe import until_acknowledged
from tests.bench.systems import KafkaSystem
from tests.integration.clusters import Cluster
from tests.integration.streams_members import StreamsMember

KRAFT = [sys.executable, "-m", "kraft.cli.admin.app"]
BASE_MS = 1_700_000_000_000
BATCH = 4000
NO_COORDINATOR = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


def mirror(source: Cluster, target: Cluster, *arguments: str, code: int = 0) -> dict[str, Any]:
    """What it says of itself; of a failure, its words."""
    command = [*KRAFT, "mirror", *arguments, "-b", source.bootstrap, "--to", target.bootstrap, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    return {"said": done.stderr, **(json.loads(done.stdout) if done.stdout else {})}


@contextmanager
def following(source: Cluster, target: Cluster, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [*KRAFT, "mirror", *arguments, "--follow", "-b", source.bootstrap, "--to", target.bootstrap]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def until(seen: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def rows(cluster: Cluster, topic: str) -> list[Any]:
    """All that is committed, by partition and in order there."""
    found = [
        (each.partition(), each.key(), each.value(), each.headers(), each.timestamp())
        for each in read_to_the_end(cluster.bootstrap, topic)
    ]
    return sorted(found, key=lambda row: int(row[0] or 0))


def produce(producer: Producer, topic: str, numbers: range, partitions: int, padding: bytes = b"") -> None:
    for number in numbers:
        producer.produce(
            topic,
            None if number % 11 == 0 else b"value %d" % number + padding,
            None if number % 13 == 0 else b"k%d" % number,
            number % partitions,
            timestamp=BASE_MS + number,
            headers=[("n", b"%d" % number), ("n", b""), ("nothing", None)],
        )
    producer.flush(30)


def commit(cluster: Cluster, topic: str, partition: int, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "buyers", "enable.auto.commit": False})
    until(lambda: is_committed(consumer, TopicPartition(topic, partition, offset)))
    consumer.close()


def is_committed(consumer: Consumer, position: TopicPartition) -> bool:
    """Whether it is. A cluster that has just started makes the topic of offsets first."""
    try:
        consumer.commit(offsets=[position], asynchronous=False)
    except KafkaException as problem:
        if not problem.args[0].retriable() and problem.args[0].code() not in NO_COORDINATOR:
            raise
        return False
    return True


def next_of_group(cluster: Cluster, topic: str, partition: int) -> bytes | None:
    """Where `buyers` go on."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "buyers", "enable.auto.commit": False})
    try:
        (found,) = consumer.committed([TopicPartition(topic, partition)], 30)
        if found.offset < 0:
            return None
        consumer.assign([TopicPartition(topic, partition, found.offset)])
        message = consumer.poll(20)
        return None if message is None else message.value()
    finally:
        consumer.close()


@pytest.mark.timeout(300)
def test_a_mirror_killed_repeatedly_copies_each_record_once(cluster: Cluster, elsewhere: Cluster) -> None:
    """It is killed whenever records of a transaction have come that is open. Committed and aborted transactions are
    written at the source; a topic comes."""
    cluster.create("shop.orders", 2, max_message_bytes="2000000")
    writer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "writer"})
    writer.init_transactions(30)
    numbers = itertools.count(1, BATCH)
    arguments = ["--topics-pattern", r"shop\..*", "--groups-pattern", "buyers", "--name", "shop"]
    for kill in range(6):
        for is_committed in (True, False, True):
            first = next(numbers)
            writer.begin_transaction()
            produce(writer, "shop.orders", range(first, first + BATCH), 2, padding=b"." * 400)
            if is_committed:
                writer.commit_transaction(30)
            else:
                writer.abort_transaction(30)
        if kill == 2:
            cluster.create("shop.late", 1)
            produce(Producer({"bootstrap.servers": cluster.bootstrap}), "shop.late", range(1, 300), 1)
        before = end_of(elsewhere, "shop.orders")
        with following(cluster, elsewhere, *arguments):
            until(lambda seen=before: end_of(elsewhere, "shop.orders") > seen)  # type: ignore[misc]
    ended = rows(cluster, "shop.orders")
    commit(cluster, "shop.orders", 1, offset_after(cluster, "shop.orders", 1, 1000))
    done = mirror(cluster, elsewhere, *arguments)
    assert done["mirror"] == "shop"
    assert (done["topics"], done["partitions"]) == (2, 3)
    assert len(ended) == 6 * 2 * BATCH
    assert rows(elsewhere, "shop.orders") == ended
    assert rows(elsewhere, "shop.late") == rows(cluster, "shop.late")
    described = AdminClient({"bootstrap.servers": elsewhere.bootstrap}).list_topics(timeout=30).topics
    assert sorted(name for name in described if name.startswith("shop")) == ["shop.late", "shop.orders"]
    again = next_of_group(elsewhere, "shop.orders", 1)
    read = [value for partition, _, value, _, _ in ended if partition == 1]
    assert again in read[:1001], "a group that moves misses nothing"
    assert mirror(cluster, elsewhere, *arguments)["records"] == 0


def end_of(cluster: Cluster, topic: str) -> int:
    """How much its partitions hold, committed or not; 0 where it does not exist."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found = admin.list_topics(timeout=30).topics.get(topic)
    if found is None:
        return 0
    asked = admin.list_offsets({TopicPartition(topic, each): OffsetSpec.latest() for each in found.partitions})
    return sum(int(each.result(30).offset) for each in asked.values())


def copied(cluster: Cluster, topic: str) -> int:
    found = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=30).topics
    return len(read_to_the_end(cluster.bootstrap, topic)) if topic in found else 0


def offset_after(cluster: Cluster, topic: str, partition: int, count: int) -> int:
    """Behind so many committed records."""
    offsets = [each.offset() for each in read_to_the_end(cluster.bootstrap, topic) if each.partition() == partition]
    return int(offsets[count - 1] or 0) + 1


@pytest.mark.timeout(120)
def test_a_group_at_the_log_end_resumes_with_the_next_record_on_the_mirror(
    cluster: Cluster, elsewhere: Cluster
) -> None:
    cluster.create("read-up", 1)
    writer = Producer({"bootstrap.servers": cluster.bootstrap})
    produce(writer, "read-up", range(1, 101), 1)
    commit(cluster, "read-up", 0, 100)
    arguments = ["read-up", "--groups-pattern", "buy.*"]
    assert mirror(cluster, elsewhere, *arguments)["records"] == 100
    produce(writer, "read-up", range(101, 105), 1)
    assert mirror(cluster, elsewhere, *arguments)["records"] == 4
    assert next_of_group(elsewhere, "read-up", 0) == b"value 101"


@pytest.mark.timeout(120)
def test_a_share_group_continues_on_the_mirror_at_its_first_unfinished_record(
    cluster: Cluster, elsewhere: Cluster
) -> None:
    cluster.create("queue", 1)
    writer = Producer({"bootstrap.servers": cluster.bootstrap})
    arguments = ["queue", "--groups-pattern", "workers", "--prefix", "copied."]
    reset = ["share", "offsets", "reset", "workers", "-t", "queue", "--execute", "-b", cluster.bootstrap]
    produce(writer, "queue", range(1, 41), 1)
    assert mirror(cluster, elsewhere, *arguments)["records"] == 40
    produce(writer, "queue", range(41, 101), 1)
    assert command([*reset, "--to-offset", "40"]).returncode == 0
    assert mirror(cluster, elsewhere, *arguments)["records"] == 60
    assert start_of(elsewhere, "workers", "copied.queue") == 40
    assert command([*reset, "--to-offset", "100"]).returncode == 0
    mirror(cluster, elsewhere, *arguments)
    assert start_of(elsewhere, "workers", "copied.queue") == 101  # Each run ends with a marker.
    assert command([*reset, "--to-offset", "10"]).returncode == 0
    mirror(cluster, elsewhere, *arguments)
    assert start_of(elsewhere, "workers", "copied.queue") == 101, "a start offset at the target never goes back"


@pytest.mark.timeout(120)
def test_a_streams_group_continues_on_the_mirror_after_its_committed_offset(
    cluster: Cluster, elsewhere: Cluster
) -> None:
    """Its repartition topic is not mirrored, so the offsets there are not either."""
    cluster.create("lines", 1)
    writer = Producer({"bootstrap.servers": cluster.bootstrap})
    produce(writer, "lines", range(1, 41), 1)
    arguments = ["lines", "--groups-pattern", "words"]
    assert mirror(cluster, elsewhere, *arguments)["records"] == 40
    member = StreamsMember(cluster.bootstrap, "words", "lines")
    assert member.commit("lines", 40) == 0
    assert member.commit("words-counts-repartition", 0) == 0
    produce(writer, "lines", range(41, 61), 1)
    mirror(cluster, elsewhere, *arguments)
    mirrored = {("lines", 0): 40}  # The marker of the first run, before the next record.
    assert committed(elsewhere, "words") == mirrored
    moved = StreamsMember(elsewhere.bootstrap, "words", "lines")
    assert committed(elsewhere, "words") == mirrored, "the offsets of an application that moves are kept"
    assert member.commit("lines", 60) == 0
    refused = mirror(cluster, elsewhere, *arguments)["said"]
    assert "offsets of group words are not kept at the target: it has members there" in refused
    assert committed(elsewhere, "words") == mirrored
    moved.leave()
    member.leave()
    mirror(cluster, elsewhere, *arguments)
    assert committed(elsewhere, "words") == {("lines", 0): 61}  # One more than at the source: that marker.


def committed(cluster: Cluster, group: str) -> dict[tuple[str, int], int]:
    """The committed offsets of a group; partitions without one are left out."""
    told = command(["groups", "describe", group, "-o", "json", "-b", cluster.bootstrap])
    assert told.returncode == 0, told.stderr
    [found] = json.loads(told.stdout)["groups"]
    offsets = {(each["topic"], each["partition"]): each["committed_offset"] for each in found["offsets"]}
    return {place: offset for place, offset in offsets.items() if offset is not None}


def command(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the `kraft` of these tests' environment."""
    program = str(Path(sys.executable).with_name("kraft"))
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)


def start_of(cluster: Cluster, group: str, topic: str) -> int:
    """The start offset of a share group in partition 0 of a topic."""
    told = command(["share", "describe", group, "--offsets", "-o", "json", "-b", cluster.bootstrap])
    assert told.returncode == 0, told.stderr
    [found] = json.loads(told.stdout)["groups"]
    [start] = [each["start_offset"] for each in found["offsets"] if each["topic"] == topic]
    return int(start)


@pytest.mark.timeout(120)
def test_records_uncommitted_by_a_killed_mirror_do_not_count_as_copied(cluster: Cluster, elsewhere: Cluster) -> None:
    cluster.create("half", 1)
    writer = Producer({"bootstrap.servers": cluster.bootstrap})
    produce(writer, "half", range(1, 50), 1)
    mirror(cluster, elsewhere, "half", "--name", "half")
    produce(writer, "half", range(50, 90), 1)
    state = "kraft-mirror.half.internal"
    last = read_to_the_end(elsewhere.bootstrap, state)[-1]
    dead = Producer({"bootstrap.servers": elsewhere.bootstrap, "transactional.id": "kraft-mirror-half"})
    dead.init_transactions(30)
    dead.begin_transaction()
    produce(dead, "half", range(50, 90), 1)
    dead.produce(state, json.dumps({**json.loads(last.value() or b""), "offset": 89}), last.key(), 0)
    assert dead.flush(30) == 0
    assert mirror(cluster, elsewhere, "half", "--name", "half")["records"] == 40
    assert rows(elsewhere, "half") == rows(cluster, "half")


@pytest.mark.timeout(120)
def test_a_second_mirror_of_the_same_name_takes_over(cluster: Cluster, elsewhere: Cluster) -> None:
    cluster.create("taken", 1)
    writer = Producer({"bootstrap.servers": cluster.bootstrap})
    produce(writer, "taken", range(1, 50), 1)
    with following(cluster, elsewhere, "taken", "--name", "taken") as first:
        until(lambda: copied(elsewhere, "taken") == 49)
        with following(cluster, elsewhere, "taken", "--name", "taken"):
            produce(writer, "taken", range(50, 90), 1)
            until(lambda: copied(elsewhere, "taken") == 89)
            written = 90

            def hears() -> bool:
                """A mirror without records to copy hears of another with the next one."""
                nonlocal written
                produce(writer, "taken", range(written, written + 1), 1)
                written += 1
                return first.poll() is not None

            until(hears)
            assert first.returncode == 1
            assert first.stderr is not None
            assert "another mirror of the name taken has taken over" in first.stderr.read()
            until(lambda: copied(elsewhere, "taken") == written - 1)
    assert rows(elsewhere, "taken") == rows(cluster, "taken")


@pytest.mark.timeout(120)
def test_records_that_cannot_be_copied_unchanged_are_reported(cluster: Cluster, elsewhere: Cluster) -> None:
    cluster.create("anew", 1)
    writer = Producer({"bootstrap.servers": cluster.bootstrap})
    produce(writer, "anew", range(1, 50), 1)
    assert "copied to itself" in mirror(cluster, cluster, "anew", code=1)["said"]
    assert mirror(cluster, cluster, "anew", "--target-topic", "anew-again")["records"] == 49
    assert rows(cluster, "anew-again") == rows(cluster, "anew")
    assert mirror(cluster, elsewhere, "anew", "--prefix", "west.", "--name", "anew")["records"] == 49
    assert rows(elsewhere, "west.anew") == rows(cluster, "anew")
    assert "no such topic" in mirror(cluster, elsewhere, "nothing-there", code=3)["said"]
    produce(writer, "anew", range(50, 60), 1)
    command = [*KRAFT, "topics", "delete-records", "anew", "--before", "55", "--yes", "-b", cluster.bootstrap]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    gone = mirror(cluster, elsewhere, "anew", "--prefix", "west.", "--name", "anew", code=1)["said"]
    assert "anew-0 49 to 54; --skip-lost goes on" in gone
    skipped = mirror(cluster, elsewhere, "anew", "--prefix", "west.", "--name", "anew", "--skip-lost")
    assert (skipped["records"], "missing in the copy" in skipped["said"]) == (4, True)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics(["anew"])["anew"].result(30)
    cluster.create("anew", 3)
    produce(Producer({"bootstrap.servers": cluster.bootstrap}), "anew", range(1, 50), 3)
    said = mirror(cluster, elsewhere, "anew", "--prefix", "west.", "--name", "anew", code=1)["said"]
    assert "topic anew was deleted and recreated since the one that mirror anew has copied" in said
    there = AdminClient({"bootstrap.servers": elsewhere.bootstrap})
    assert len(there.list_topics("west.anew", 30).topics["west.anew"].partitions) == 1, "the copy stays as it was"
    for future in there.delete_records([TopicPartition("west.anew", 0, OFFSET_END)]).values():
        future.result(30)
    again = mirror(cluster, elsewhere, "anew", "--prefix", "west.", "--name", "anew")
    assert (again["records"], "its copy is empty: the copy starts over" in again["said"]) == (49, True)
    assert len(there.list_topics("west.anew", 30).topics["west.anew"].partitions) == 3


@pytest.mark.parametrize("chosen", [("--topics-pattern", r"trade\..*"), ("trade.goes", "trade.stays")])
@pytest.mark.timeout(120)
def test_a_deleted_topic_does_not_stop_a_mirror_and_is_not_mixed_with_its_recreation(
    cluster: Cluster, elsewhere: Cluster, chosen: tuple[str, ...]
) -> None:
    name = "goes-pattern" if chosen[0].startswith("--") else "goes-named"
    writer = Producer({"bootstrap.servers": cluster.bootstrap})
    admin, there = (AdminClient({"bootstrap.servers": each.bootstrap}) for each in (cluster, elsewhere))
    for topic in ("trade.goes", "trade.stays"):
        cluster.create(topic, 2)
    prefix = f"{name}."
    goes, stays = f"{prefix}trade.goes", f"{prefix}trade.stays"
    said: list[str] = []
    with following(cluster, elsewhere, *chosen, "--prefix", prefix, "--name", name) as process:
        assert process.stderr is not None
        threading.Thread(target=lambda: said.extend(process.stderr), daemon=True).start()  # type: ignore[arg-type]

        def hears(words: str) -> Callable[[], bool]:
            return lambda: any(words in line for line in said)

        produce(writer, "trade.goes", range(1, 11), 2)
        produce(writer, "trade.stays", range(1, 11), 2)
        until(lambda: copied(elsewhere, goes) == 10 and copied(elsewhere, stays) == 10)
        admin.delete_topics(["trade.goes"])["trade.goes"].result(30)
        produce(writer, "trade.stays", range(11, 21), 2)
        until(lambda: copied(elsewhere, stays) == 20)
        until(hears("topic trade.goes was deleted at the source: its copy stays as it is"))
        cluster.create("trade.goes", 2)
        produce(writer, "trade.goes", range(101, 106), 2)
        until(hears(f"copy it under another --name, to another topic, or delete the copy, {goes}"))
        produce(writer, "trade.stays", range(21, 31), 2)
        until(lambda: copied(elsewhere, stays) == 30)
        assert copied(elsewhere, goes) == 10
        there.delete_topics([goes])[goes].result(30)
        until(lambda: hears("its copy is empty: the copy starts over")() and copied(elsewhere, goes) == 5)
        assert process.poll() is None, said
    assert rows(elsewhere, goes) == rows(cluster, "trade.goes")
    assert rows(elsewhere, stays) == rows(cluster, "trade.stays")
    for topic in ("trade.goes", "trade.stays"):
        admin.delete_topics([topic])[topic].result(30)


@pytest.mark.java
@pytest.mark.timeout(300)
def test_records_are_mirrored_from_apache_kafka_to_kraft_and_back(cluster: Cluster, tmp_path: Path) -> None:
    system = KafkaSystem(tmp_path / "kafka")
    system.prepare()
    system.launch()
    try:
        until_acknowledged(system, "cluster-is-up", create=True)
        kafka = Cluster("kafka", system)
        kafka.create("there", 2)
        produce(Producer({"bootstrap.servers": kafka.bootstrap}), "there", range(1, 2000), 2)
        commit(kafka, "there", 1, 900)
        assert mirror(kafka, cluster, "there", "--groups-pattern", "buyers")["records"] == 1999
        assert mirror(cluster, kafka, "there", "--target-topic", "back", "-z", "lz4")["records"] == 1999
        assert rows(kafka, "there") == rows(cluster, "there") == rows(kafka, "back")
        assert next_of_group(cluster, "there", 1) is not None
    finally:
        system.kill()
