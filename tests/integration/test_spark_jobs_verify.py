"""`kraft spark verify` after retention and compaction: differences that are none are left out and counted, the
others are found. And what `mirror` creates."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kraft.spark.jobs.access import Access
from kraft.spark.jobs.topic_configs import describe
from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft
from tests.integration.spark_commands import BASE_MS, Sent, send

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def produce(cluster: Cluster, topic: str, numbers: range, partitions: int = 1) -> None:
    rows = [Sent(b"%d" % each, b"key-%d" % each, each % partitions, BASE_MS + each) for each in numbers]
    send(cluster, topic, rows)


def let_begin(cluster: Cluster, topic: str, *offsets: int) -> None:
    """As after retention: the logs of the partitions begin at these offsets."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})  # Kept until the answer is there.
    for future in admin.delete_records(
        [TopicPartition(topic, partition, offset) for partition, offset in enumerate(offsets)]
    ).values():
        future.result(30)


def test_verify_leaves_out_records_deleted_by_retention_and_finds_missing_ones(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    cluster.create("aging", 2)
    produce(cluster, "aging", range(16), 2)
    archive = ("verify", "aging", "--with-archive", str(tmp_path / "archive"), "-o", "json")
    copy = ("verify", "aging", "--with-topic", "copy", "-o", "json")
    assert kraft("archive", "aging", str(tmp_path / "archive")).code == 0
    assert kraft("mirror", "aging", "--to", cluster.bootstrap, "--target-topic", "copy").code == 0
    let_begin(cluster, "aging", 5, 8)
    for arguments, by in ((archive, "partition and offset"), (copy, "place in the partition")):
        found = kraft(*arguments)
        assert (found.code, found.document["agree"], found.document["compared_by"]) == (0, True, by), found
        assert (found.document["compared"], found.document["left_out_count"], found.document["differences"]) == (
            3,
            13,
            [],
        )
        assert (found.document["records"], found.document["other_records"]) == (3, 16)
        assert [
            (each["partition"], each["count"], each["held_by"], each["reason"]) for each in found.document["left_out"]
        ] == [
            (0, 5, "other", "retention"),
            (1, 8, "other", "retention"),
        ]
    backwards = kraft("verify", "copy", "--with-topic", "aging", "-o", "json")
    assert (backwards.code, {each["held_by"] for each in backwards.document["left_out"]}) == (0, {"topic"}), backwards
    shown = kraft("verify", "aging", "--with-topic", "copy")
    assert (shown.code, "LEFT-OUT" in shown.out, "retention of the topic" in shown.out) == (0, True, True), shown

    produce(cluster, "aging", range(16, 17), 2)
    for arguments in (archive, copy):
        behind = kraft(*arguments)
        assert behind.code == 1, behind
        assert behind.document["differences"] == [{"partition": 0, "count": 1, "offset": 8, "other_offset": None}]
        assert (behind.document["only_in_topic"], behind.document["left_out_count"]) == (1, 13)


def test_topics_that_share_no_record_any_more_are_not_reported_as_equal(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    cluster.create("emptied", 1)
    produce(cluster, "emptied", range(4))
    assert kraft("archive", "emptied", str(tmp_path / "archive")).code == 0
    assert kraft("mirror", "emptied", "--to", cluster.bootstrap, "--target-topic", "emptied-copy").code == 0
    let_begin(cluster, "emptied", 4)
    unknown = kraft("verify", "emptied", "--with-topic", "emptied-copy", "-o", "json")
    assert (unknown.code, unknown.document["agree"], unknown.document["differences"]) == (1, False, []), unknown
    assert "it is unknown" in unknown.document["note"]
    archived = kraft("verify", "emptied", "--with-archive", str(tmp_path / "archive"), "-o", "json")
    assert (archived.code, archived.document["compared"], archived.document["left_out_count"]) == (0, 0, 4), archived


def test_an_empty_archive_agrees_with_an_empty_topic_and_a_missing_archive_is_an_error(
    cluster: Cluster, kraft: Kraft, tmp_path: Path
) -> None:
    cluster.create("nothing", 1)
    verify = ("verify", "nothing", "--with-archive", str(tmp_path / "archive"), "-o", "json")
    assert kraft(*verify).code == 3
    assert kraft("archive", "nothing", str(tmp_path / "archive")).code == 0
    same = kraft(*verify)
    assert (same.code, same.document["agree"], same.document["records"], same.document["other_records"]) == (
        0,
        True,
        0,
        0,
    ), same
    produce(cluster, "nothing", range(1))
    assert kraft(*verify).document["differences"] == [{"partition": 0, "count": 1, "offset": 0, "other_offset": None}]


def test_a_compacted_topic_is_verified_by_the_last_value_of_each_key(cluster: Cluster, kraft: Kraft) -> None:
    cluster.create("history", 1)
    cluster.create("latest", 1, cleanup_policy="compact")
    verify = ("verify", "history", "--with-topic", "latest", "-o", "json")
    histories = {
        "history": (("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("c", None)),
        "latest": (("b", "1"), ("a", "2")),
    }
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for topic, records in histories.items():
        for key, value in records:
            producer.produce(topic, value, key, 0, timestamp=BASE_MS)
    assert producer.flush(30) == 0
    same = kraft(*verify)
    assert (same.code, same.document["agree"], same.document["compared_by"]) == (0, True, "last value of each key"), (
        same
    )
    assert (same.document["compared"], same.document["records"], same.document["other_records"]) == (3, 5, 2)
    producer.produce("history", "3", "a", 0, timestamp=BASE_MS)
    assert producer.flush(30) == 0
    behind = kraft(*verify)
    assert (behind.code, behind.document["unequal"]) == (1, 1), behind
    assert behind.document["differences"] == [{"partition": 0, "count": 1, "offset": 5, "other_offset": 1}]


def set_for(cluster: Cluster, topic: str) -> dict[str, str | None]:
    return {
        name: config.value for name, config in describe(Access(cluster.bootstrap), topic).items() if config.explicit
    }


def test_a_mirrored_topic_is_created_like_its_source_and_an_existing_topic_is_not_changed(
    cluster: Cluster, kraft: Kraft
) -> None:
    cluster.create("settings", 1, max_message_bytes="2000000", min_insync_replicas="1")
    produce(cluster, "settings", range(3))
    mirror = ("mirror", "settings", "--to", cluster.bootstrap, "--target-topic")
    carried = {"max.message.bytes": "2000000", "retention.ms": "-1", "message.timestamp.type": "CreateTime"}
    created = kraft(*mirror, "as-it-is", "-o", "json")
    assert (created.code, created.document["configs"]) == (0, carried), created
    assert set_for(cluster, "as-it-is") == carried
    assert "created topic as-it-is" in created.err
    assert "warning" not in created.err

    plain = kraft(*mirror, "defaults", "--no-configs", "-q", "-o", "json")
    assert (plain.code, plain.document["configs"], set_for(cluster, "defaults")) == (0, {}, {}), plain
    assert "warning: topic defaults" in plain.err
    assert "created topic" not in plain.err

    cluster.create("short", 1, retention_ms="604800000")
    short = kraft(*mirror, "short", "-o", "json")
    assert (short.code, short.document["configs"], set_for(cluster, "short")) == (
        0,
        {},
        {"retention.ms": "604800000"},
    ), short
    assert "keeps 604800000 ms (retention.ms), and the source all" in short.err
