"""`kraft spark mirror` of many topics into another cluster: what comes while it runs, kill -9, and groups that move."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from kraft.spark.jobs.access import Access
from kraft.spark.jobs.topic_configs import describe
from kraft.spark.jobs.topics import add_partitions, look_up
from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft
from tests.integration.spark_commands import BASE_MS, Sent, as_sent, running, send, until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
PATTERN = r"shop\..*"


def produce(cluster: Cluster, topic: str, partition: int, numbers: range) -> None:
    rows = []
    for number in numbers:
        value = None if number % 7 == 0 else b"%d" % number
        rows.append(Sent(value, b"k", partition, BASE_MS + number, (("n", b"%d" % number),)))
    send(cluster, topic, rows)


def group_at(cluster: Cluster, topic: str, partition: int) -> Consumer:
    """Where the group `buyers` would go on."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "buyers", "enable.auto.commit": False})
    (found,) = consumer.committed([TopicPartition(topic, partition)], 30)
    consumer.assign([TopicPartition(topic, partition, found.offset)])
    return consumer


def next_value(cluster: Cluster, topic: str, partition: int) -> bytes | None:
    consumer = group_at(cluster, topic, partition)
    try:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None, message.error()
        return message.value()
    finally:
        consumer.close()


def read_up_to(cluster: Cluster, topic: str, partition: int, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "buyers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    consumer.close()


@pytest.mark.timeout(300)
def test_records_produced_during_a_mirror_are_mirrored_across_a_kill_and_groups_are_moved(
    cluster: Cluster, elsewhere: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    cluster.create("shop.orders", 2, max_message_bytes="2000000")
    cluster.create("kept-out", 1)
    for partition in (0, 1):
        produce(cluster, "shop.orders", partition, range(1, 400))
    mirror = ["mirror", "--topics-pattern", PATTERN, "--to", elsewhere.bootstrap, "--groups-pattern", "buyers"]
    mirror += ["--checkpoint", str(tmp_path / "state")]
    with running(cluster, *mirror, "--continuous", "1", "--records-per-batch", "100") as process:
        until(
            lambda: len(topics_of(elsewhere, "shop.orders")) == 1 and len(as_sent(elsewhere, "shop.orders")) > 100,
            process,
        )
        cluster.create("shop.late", 1)
        add_partitions(Access(cluster.bootstrap), "shop.orders", 3)
        produce(cluster, "shop.late", 0, range(1, 50))
        produce(cluster, "shop.orders", 2, range(1, 50))
        until(
            lambda: len(topics_of(elsewhere, "shop.late")) == 1 and len(as_sent(elsewhere, "shop.late")) == 49, process
        )
        produce(cluster, "shop.orders", 0, range(400, 800))
    read_up_to(cluster, "shop.orders", 0, 600)
    read_up_to(cluster, "shop.orders", 1, 399)

    rest = kraft(*mirror, "-o", "json")
    assert (rest.code, rest.document["topics"], rest.document["partitions"]) == (0, 2, 4), rest.err
    for topic in ("shop.orders", "shop.late"):
        assert as_sent(elsewhere, topic) == as_sent(cluster, topic)
    assert topics_of(elsewhere, "kept-out") == []
    configs = describe(Access(elsewhere.bootstrap), "shop.orders")
    assert configs["max.message.bytes"].value == "2000000"
    assert look_up(Access(elsewhere.bootstrap), "shop.orders").partitions == 3

    produce(cluster, "shop.orders", 1, range(1000, 1001))
    more = kraft(*mirror, "-o", "json")
    assert (more.code, more.document["records"]) == (0, 1), more.err
    assert next_value(elsewhere, "shop.orders", 1) == b"1000"
    assert 400 <= int(next_value(elsewhere, "shop.orders", 0) or 0) <= 601


def topics_of(cluster: Cluster, topic: str) -> list[str]:
    return [
        each
        for each in AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics
        if each == topic
    ]


def delete(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})  # Kept until the answer is there.
    admin.delete_topics([topic])[topic].result(30)


@pytest.mark.timeout(300)
def test_a_deleted_topic_is_reported_and_left_out_by_a_mirror_that_may_skip_losses(
    cluster: Cluster, elsewhere: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    for topic in ("stays", "goes"):
        cluster.create(topic, 1)
        produce(cluster, topic, 0, range(1, 20))
    mirror = ["mirror", "stays", "goes", "--to", elsewhere.bootstrap, "--checkpoint", str(tmp_path / "state")]
    gone = f"warning: topic goes no longer exists at {cluster.bootstrap} and is skipped; its copy stays as it is\n"
    with running(cluster, *mirror, "--continuous", "1", "--skip-lost", is_read=True) as process:
        until(lambda: len(topics_of(elsewhere, "goes")) == 1 and len(as_sent(elsewhere, "goes")) == 19, process)
        delete(cluster, "goes")
        produce(cluster, "stays", 0, range(20, 30))
        until(lambda: len(as_sent(elsewhere, "stays")) == 29, process)
        os.kill(process.pid, signal.SIGTERM)
        told = process.communicate(timeout=60)[1]
    assert (process.returncode, told.count(gone)) == (0, 1), told

    refused = kraft(*mirror)
    assert (refused.code, "topic goes does not exist" in refused.err) == (3, True), refused
    produce(cluster, "stays", 0, range(30, 35))
    found = kraft(*mirror, "--skip-lost", "-o", "json")
    assert (found.code, found.document["topics"], found.document["records"]) == (0, 1, 5), found.err
    assert found.err.count(gone) == 1, found.err
    assert len(as_sent(elsewhere, "goes")) == 19
    delete(cluster, "stays")
    nothing = kraft(*mirror, "--skip-lost")
    assert (nothing.code, "topics stays, goes do not exist" in nothing.err) == (3, True), nothing


def test_topics_that_cannot_be_mirrored_are_named(cluster: Cluster, elsewhere: Cluster, kraft: Kraft) -> None:
    cluster.create("there", 1)
    to = ("--to", elsewhere.bootstrap)
    for code, words, arguments in (
        (3, "topics nowhere, nowhere-else do not exist", ("there", "nowhere", "nowhere-else", *to)),
        (3, "no topic at", ("--topics-pattern", "no-.*", *to)),
        (1, "copied to themselves", ("--topics-pattern", "there", "--to", cluster.bootstrap)),
        (2, "give topics, or --topics-pattern", to),
        (2, "regular", ("--topics-pattern", "(", *to)),
        (2, "one topic", ("there", "--continuous", "5", "--target-topic", "x", *to)),
    ):
        found = kraft("mirror", *arguments)
        assert (found.code, words in found.err) == (code, True), (arguments, found)
