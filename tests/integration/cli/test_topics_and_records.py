"""`kraft topics`, `produce` and `consume` against a real node."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

from tests.integration.outcomes import Kraft


def test_a_topic_is_created_described_changed_and_deleted_by_the_cli(kraft: Kraft) -> None:
    assert (
        kraft("topics", "create", "life", "-p", "2", "--dry-run").out
        == "would create topic life with 2 partitions, replication factor 1\n"
    )
    assert kraft("topics", "describe", "life").code == 3
    assert (
        kraft("topics", "create", "life", "-p", "2", "-c", "retention.ms=5000").out
        == "created topic life with 2 partitions, replication factor 1\n"
    )
    again = kraft("topics", "create", "life")
    assert (again.code, again.out) == (1, "")
    assert "already exists" in again.err
    assert "hint: " in again.err
    assert (
        kraft("topics", "create", "life", "--if-not-exists").out
        == "there is already topic life with 2 partitions, replication factor 1\n"
    )
    assert [row[:3] for row in kraft("topics", "list").rows if row[0] == "life"] == [["life", "2", "1"]]
    assert (
        kraft(
            "topics", "alter", "life", "-p", "3", "-c", "segment.bytes=1048576", "--delete-config", "retention.ms"
        ).code
        == 0
    )
    [topic] = kraft("topics", "describe", "life", "-o", "json").document["topics"]
    assert (topic["partition_count"], topic["configs"]) == (3, {"segment.bytes": "1048576"})
    assert kraft("topics", "grow", "life", "-p", "2").code == 1
    assert kraft("topics", "delete", "--yes", "life").out == "deleted life\n"
    gone = kraft("topics", "delete", "--yes", "life")
    assert (gone.code, gone.out) == (3, "")
    assert "no such topic" in gone.err
    assert kraft("topics", "delete", "--yes", "life", "--if-exists").code == 0


def test_internal_topics_are_listed_on_request(kraft: Kraft) -> None:
    kraft("groups", "describe", "any")  # Makes the cluster's own topic.
    assert "__consumer_offsets" not in kraft("topics", "list").out
    assert "__consumer_offsets" in kraft("topics", "list", "--internal").out


def test_topics_are_listed_by_pattern(kraft: Kraft) -> None:
    for name in ("listed-a", "listed-b", "unlisted"):
        kraft("topics", "create", name)
    assert [row[0] for row in kraft("topics", "list", "listed-*").rows] == ["listed-a", "listed-b"]
    assert [row[0] for row in kraft("topics", "list", "listed-b", "unl*", "none").rows] == ["listed-b", "unlisted"]


def test_a_missing_partition_is_reported_as_not_found(kraft: Kraft) -> None:
    kraft("topics", "create", "elected", "-p", "1")
    assert kraft("elections", "preferred", "elected-0").code == 0
    assert kraft("elections", "preferred", "elected-99").code == 3


def test_offsets_of_a_topic_at_a_timestamp_are_printed(kraft: Kraft) -> None:
    kraft("topics", "create", "timed", "-p", "2")
    kraft("produce", "timed", "-p", "0", lines=b"a\nb\n")
    assert kraft("topics", "offsets", "timed").rows == [["timed", "0", "2", "-"], ["timed", "1", "0", "-"]]
    assert kraft("topics", "offsets", "timed", "--at", "earliest").rows[0] == ["timed", "0", "0", "-"]
    [first, second] = kraft("topics", "offsets", "timed", "--at", "@0", "-o", "json").document["offsets"]
    assert (first["offset"], second["offset"]) == (0, None)
    assert first["timestamp"] > 1_500_000_000_000
    [later, _] = kraft("topics", "offsets", "timed", "--at", "2999-01-01T00:00:00Z", "-o", "json").document["offsets"]
    assert later["offset"] is None
    assert kraft("topics", "offsets", "timed", "-o", "name").out == "timed-0\ntimed-1\n"
    assert kraft("topics", "offsets", "timed", "--at", "soon").code == 2
    assert kraft("topics", "offsets", "nowhere").code == 3


def test_lines_are_produced_as_records_and_consumed_again(kraft: Kraft) -> None:
    kraft("topics", "create", "lines", "-p", "2")
    sent = kraft(
        "produce",
        "lines",
        "-k",
        ":",
        "-p",
        "1",
        "-H",
        "a=b",
        "-z",
        "zstd",
        lines="k:v1\r\nno key\n:empty\nlast:ümlaut".encode(),
    )
    assert sent.rows == [["1", "4", "0", "3"]]
    read = kraft("consume", "lines", "--from-beginning", "-e", "-f", r"%t/%p/%o [%k]=%s (%K,%S) %h%%\n")
    assert read.out.splitlines() == [
        "lines/1/0 [k]=v1 (1,2) a=b%",
        "lines/1/1 []=no key (-1,6) a=b%",
        "lines/1/2 []=empty (0,5) a=b%",
        "lines/1/3 [last]=ümlaut (4,7) a=b%",
    ]
    assert kraft("produce", "lines", "-p", "0", "-Z", "-K", "gone", lines=b"\n").code == 0
    assert kraft("consume", "lines", "-p", "0", "--from-beginning", "-e", "-f", r"%k %S\n").out == "gone -1\n"


def test_consume_starts_and_stops_at_the_given_positions(kraft: Kraft) -> None:
    kraft("topics", "create", "where")
    kraft("produce", "where", lines=b"0\n1\n2\n3\n4\n")
    assert kraft("consume", "where", "-o", "3", "-e").out == "3\n4\n"
    assert kraft("consume", "where", "-o", "-2", "-c", "1").out == "3\n"
    assert kraft("consume", "where", "-o", "beginning", "-c", "2").out == "0\n1\n"
    assert kraft("consume", "where", "-e").out == "", "the end is where it begins unless told otherwise"
    now = time.time_ns() // 1_000_000
    assert kraft("consume", "where", "-o", f"@{now - 600_000}", "-c", "1").out == "0\n"
    assert kraft("consume", "where", "-o", f"@{now + 600_000}", "-e").out == ""
    assert kraft("consume", "where", "-o", "99", "-e").out == "", "nothing lies beyond the end"
    assert kraft("topics", "delete-records", "where", "--before", "2", "--yes").rows == [["0", "2"]]
    assert kraft("consume", "where", "--from-beginning", "-e", "--read-committed").out == "2\n3\n4\n"


def test_consume_prints_records_as_json(kraft: Kraft) -> None:
    kraft("topics", "create", "binary")
    kraft("produce", "binary", "-K", "k", lines=b"\xff\xfe\n")
    [record] = [
        json.loads(line)
        for line in kraft("consume", "binary", "--from-beginning", "-e", "--output", "json").out.splitlines()
    ]
    assert abs(record.pop("timestamp") / 1000 - time.time()) < 60
    assert record == {
        "topic": "binary",
        "partition": 0,
        "offset": 0,
        "timestamp_type": "create_time",
        "key": "k",
        "key_encoding": "utf-8",
        "value": "//4=",
        "value_encoding": "base64",
        "headers": [],
    }


def test_producing_creates_a_missing_topic(kraft: Kraft) -> None:
    assert kraft("produce", "by.producing", lines=b"x\n").code == 0
    assert kraft("consume", "by.producing", "--from-beginning", "-e").out == "x\n"
    assert kraft("consume", "by.nobody", "-e").code == 3
    assert kraft("produce", "by.producing", "-p", "7", lines=b"x\n").code == 3
    assert kraft("produce", "by.producing", "--acks", "0", lines=b"y\n").rows == [["0", "1", "-", "-"]]


def test_records_are_read_between_two_times_or_offsets(kraft: Kraft) -> None:
    kraft("topics", "create", "times")
    kraft("produce", "times", lines=b"0\n1\n2\n")
    sent = kraft("consume", "times", "-o", "2", "-c", "1", "-f", "%T")
    between = int(sent.out) + 1
    while int(time.time() * 1000) <= between:
        kraft("topics", "list")
    kraft("produce", "times", lines=b"3\n4\n")
    moment = datetime.fromtimestamp(between / 1000, UTC).isoformat(timespec="milliseconds")
    for start, end, values in (
        (moment, "end", "3\n4\n"),
        ("beginning", moment, "0\n1\n2\n"),
        (f"@{between}", "4", "3\n"),
        ("1", "4", "1\n2\n3\n"),
        ("4", "2", ""),
    ):
        assert kraft("consume", "times", "-o", start, "--until", end).out == values, (start, end)
