"""`kraft` against a real node: what each verb prints, the shape of its JSON, and how it leaves."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, ShareConsumer

from kraft.cli.admin.app import main
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import free_ports
from tests.integration.outcomes import Kraft, Outcome


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory = tmp_path_factory.mktemp("node")
    with NodeProcess(
        directory, "--set", "group.initial.rebalance.delay.ms=0", "--set", "offsets.topic.num.partitions=2"
    ) as running:
        yield running


@pytest.fixture
def kraft(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> Kraft:
    """Runs the command in this process (a process each would cost most of the time), with standard input from a
    file."""
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVER", node.bootstrap)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str, lines: bytes = b"") -> Outcome:
        (tmp_path / "stdin").write_bytes(lines)
        with open(tmp_path / "stdin", "rb") as file:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
            capfdbinary.readouterr()
            code = main(arguments)
            sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Outcome(code, out.decode(), err.decode())

    return run


def shape(value: Any) -> Any:
    """Keys and types of a document; of a list the shape of its first element."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


BROKER = {"node_id": "int", "host": "str", "port": "int", "rack": "NoneType", "fenced": "bool"}
VOTER = {
    "node_id": "int",
    "directory_id": "str",
    "log_end_offset": "int",
    "lag": "int",
    "last_fetch_ms": "int",
    "last_caught_up_ms": "int",
    "endpoints": [{"listener": "str", "host": "str", "port": "int"}],
}
GROUP_OFFSET = {
    "topic": "str",
    "partition": "int",
    "committed_offset": "int",
    "begin_offset": "int",
    "end_offset": "int",
    "lag": "int",
    "last_commit_ms": "NoneType",
    "pace": "NoneType",
    "member_id": "NoneType",
    "client_id": "NoneType",
    "host": "NoneType",
}
SHAPES: dict[str, Any] = {
    "topics list": {
        "topics": [
            {
                "name": "str",
                "topic_id": "str",
                "internal": "bool",
                "partition_count": "int",
                "replication_factor": "int",
            }
        ]
    },
    "topics describe shapes": {
        "topics": [
            {
                "name": "str",
                "topic_id": "str",
                "internal": "bool",
                "partition_count": "int",
                "replication_factor": "int",
                "configs": {"retention.ms": "str"},
                "partitions": [
                    {
                        "partition": "int",
                        "leader": "int",
                        "leader_epoch": "int",
                        "replicas": ["int"],
                        "in_sync": ["int"],
                        "offline": [],
                        "begin_offset": "int",
                        "end_offset": "int",
                        "tier": "NoneType",
                    }
                ],
            }
        ]
    },
    "topics create shapes --if-not-exists": {
        "topic": "str",
        "created": "bool",
        "partition_count": "int",
        "replication_factor": "int",
        "dry_run": "bool",
    },
    "topics alter shapes -c retention.ms=-1 --dry-run": {
        "topic": "str",
        "partition_count": "NoneType",
        "replication_factor": "NoneType",
        "configs": {"retention.ms": "str"},
        "dry_run": "bool",
    },
    "topics delete nowhere --if-exists --yes": {"deleted": [], "failed": {}},
    "topics delete-records shapes --before 0 --yes": {
        "topic": "str",
        "partitions": [{"partition": "int", "begin_offset": "int", "error": "NoneType"}],
    },
    "configs describe topic shapes": {
        "resource": {"type": "str", "name": "str"},
        "configs": [
            {
                "name": "str",
                "value": "str",
                "source": "str",
                "type": "str",
                "read_only": "bool",
                "sensitive": "bool",
                "synonyms": [{"name": "str", "value": "str", "source": "str"}],
            }
        ],
    },
    "configs list": {"resources": [{"type": "str", "name": "str"}]},
    "configs set topic shapes retention.ms=-1 --dry-run": {
        "resource": {"type": "str", "name": "str"},
        "changes": [{"name": "str", "operation": "str", "value": "str"}],
        "dry_run": "bool",
    },
    "configs delete cluster log.retention.ms": {
        "resource": {"type": "str", "name": "NoneType"},
        "changes": [{"name": "str", "operation": "str", "value": "NoneType"}],
        "dry_run": "bool",
    },
    "groups list": {"groups": [{"group_id": "str", "state": "str", "type": "str", "protocol_type": "str"}]},
    "groups describe shapes": {
        "groups": [
            {
                "group_id": "str",
                "type": "str",
                "state": "str",
                "epoch": "NoneType",
                "protocol_type": "str",
                "assignor": "str",
                "coordinator": "int",
                "members": [],
                "offsets": [GROUP_OFFSET],
                "total_lag": "int",
                "late_members": [],
            }
        ]
    },
    "groups reset-offsets shapes --to-latest": {
        "group_id": "str",
        "executed": "bool",
        "offsets": [{"topic": "str", "partition": "int", "before": "int", "after": "int"}],
    },
    "groups delete-offsets shapes -t shapes:1 --yes": {"group_id": "str", "deleted": []},
    "transactions list": {"transactions": []},
    "quotas list --client-id shapes": {"quotas": []},
    "quotas set producer_byte_rate=1000 --client-id shapes --dry-run": {
        "entity": {"client-id": "str"},
        "limits": {"producer_byte_rate": "float"},
        "dry_run": "bool",
    },
    "features list": {"features": [{"name": "str", "level": "int", "min_level": "int", "max_level": "int"}]},
    "features upgrade transaction.version=2 --dry-run": {"levels": {"transaction.version": "int"}, "dry_run": "bool"},
    "features downgrade transaction.version=1 --dry-run": {"levels": {"transaction.version": "int"}, "dry_run": "bool"},
    "quorum describe": {
        "cluster_id": "str",
        "leader_id": "int",
        "leader_epoch": "int",
        "high_watermark": "int",
        "voters": [VOTER],
        "observers": [],
    },
    "brokers list": {"cluster_id": "str", "controller_id": "int", "brokers": [BROKER]},
    "brokers describe 1": {
        "broker": {
            **BROKER,
            "leader_count": "int",
            "replica_count": "int",
            "apis": [{"key": "int", "name": "str", "min_version": "int", "max_version": "int"}],
        }
    },
    "brokers log-dirs": {
        "log_dirs": [
            {
                "node_id": "int",
                "path": "str",
                "total_bytes": "int",
                "usable_bytes": "int",
                "size_bytes": "int",
                "is_cordoned": "bool",
                "error": "NoneType",
                "replicas": [{"topic": "str", "partition": "int", "size_bytes": "int", "offset_lag": "int"}],
            }
        ]
    },
    "cluster describe": {
        "cluster_id": "str",
        "controller_id": "int",
        "quorum_leader_id": "int",
        "brokers": [BROKER],
        "topic_count": "int",
        "partition_count": "int",
        "features": {
            "eligible.leader.replicas.version": "int",
            "group.version": "int",
            "share.version": "int",
            "streams.version": "int",
            "kraft.version": "int",
            "metadata.version": "int",
            "transaction.version": "int",
        },
    },
    "cluster health": {
        "is_healthy": "bool",
        "reasons": [],
        "warnings": [],
        "cluster_id": "str",
        "quorum_leader_id": "int",
        "broker_count": "int",
        "fenced_brokers": [],
        "leaderless_partitions": [],
        "under_replicated_partitions": [],
        "under_min_isr_partitions": [],
    },
    "produce shapes": {
        "topic": "str",
        "error": "NoneType",
        "record_count": "int",
        "unacknowledged_count": "int",
        "partitions": [{"partition": "int", "record_count": "int", "first_offset": "int", "last_offset": "int"}],
    },
    "storage random-uuid": {"uuid": "str"},
}


@pytest.mark.parametrize("command", SHAPES)
def test_the_json_of_each_verb_has_its_documented_shape(kraft: Kraft, command: str) -> None:
    kraft("topics", "create", "shapes", "-p", "2", "-c", "retention.ms=100000", "--if-not-exists")
    kraft("groups", "reset-offsets", "shapes", "-t", "shapes:0", "--to-earliest", "--execute")
    outcome = kraft(*command.split(), "-o", "json", lines=b"x\n")
    assert outcome.code == 0, outcome.err
    assert shape(outcome.document) == SHAPES[command]


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


def test_a_group_is_listed_described_reset_and_deleted_by_the_cli(kraft: Kraft) -> None:
    kraft("topics", "create", "grouped")
    kraft("produce", "grouped", lines=b"0\n1\n2\n3\n4\n")
    assert kraft("consume", "grouped", "-g", "readers", "--from-beginning", "-c", "2").out == "0\n1\n"
    assert kraft("groups", "describe", "readers").rows == [["grouped", "0", "2", "5", "3", "-", "-", "-", "-", "-"]]
    assert kraft("consume", "grouped", "-g", "readers", "-e").out == "2\n3\n4\n"
    preview = kraft("groups", "reset-offsets", "readers", "--shift-by", "-4")
    assert (preview.rows, preview.code) == ([["grouped", "0", "5", "1"]], 0)
    assert "preview" in preview.err
    assert kraft("groups", "describe", "readers", "-o", "json").document["groups"][0]["total_lag"] == 0
    for options, after in (
        (("--shift-by", "-99"), 0),
        (("--to-offset", "99"), 5),
        (("--by-duration", "1h"), 0),
        (("--to-datetime", "2100-01-01"), 5),
    ):
        assert kraft("groups", "reset-offsets", "readers", *options, "--execute").rows[0][3] == str(after)
    assert kraft("groups", "reset-offsets", "readers", "--to-offset", "3", "--execute", "-t", "grouped:0").code == 0
    assert kraft("consume", "grouped", "-g", "readers", "-e").out == "3\n4\n"
    assert [row[0] for row in kraft("groups", "list").rows if row[0] == "readers"] == ["readers"]
    unread = kraft("groups", "delete-offsets", "readers", "-t", "nowhere", "--yes")
    assert (unread.code, unread.out) == (3, "")
    assert "readers has committed nothing for nowhere" in unread.err
    assert (
        kraft("groups", "delete-offsets", "readers", "-t", "grouped", "--yes").out
        == "deleted 1 committed offset of readers\n"
    )
    assert kraft("groups", "delete", "readers", "--yes").out == "deleted readers\n"
    for verb in ("delete --yes", "describe"):
        assert kraft("groups", *verb.split(), "readers").code == 3


@pytest.fixture
def no_share_groups(kraft: Kraft) -> Iterator[Kraft]:
    """Share groups are off, and on again for the other tests."""
    assert kraft("features", "downgrade", "share.version=0", "--yes").code == 0
    yield kraft
    kraft("features", "upgrade", "share.version=2")


def consume_as_share_member(kraft: Kraft, node: NodeProcess, group: str, topic: str, count: int) -> ShareConsumer:
    """A member of the share group that has acknowledged the first records of the topic. It must be closed."""
    assert kraft("configs", "set", "group", group, "share.auto.offset.reset=earliest").code == 0
    consumer = ShareConsumer({"bootstrap.servers": node.bootstrap, "group.id": group})
    consumer.subscribe([topic])
    values: set[bytes | None] = set()
    deadline = time.monotonic() + 60
    while len(values) < count:
        assert time.monotonic() < deadline, values
        values |= {each.value() for each in consumer.poll(timeout=1.0) or [] if each.error() is None}
    consumer.commit_sync()
    return consumer


def test_a_share_group_is_listed_described_reset_and_deleted_by_the_cli(kraft: Kraft, node: NodeProcess) -> None:
    kraft("topics", "create", "queued", "-p", "1")
    kraft("produce", "queued", lines=b"0\n1\n2\n3\n4\n")
    consumer = consume_as_share_member(kraft, node, "workers", "queued", 5)
    assert ["workers", "Stable", "1"] in kraft("share", "list").rows
    [group] = kraft("share", "describe", "workers", "-o", "json").document["groups"]
    assert (group["state"], group["assignor"], group["coordinator"]) == ("Stable", "simple", 1)
    [member] = group["members"]
    assert member["partitions"] == [{"topic": "queued", "partition": 0}]
    assert (member["subscribed_topics"], member["client_id"]) == (["queued"], "rdkafka")
    for words in ("offsets reset workers --to-latest --execute", "delete workers --yes"):
        refused = kraft("share", *words.split())
        assert (refused.code, "NON_EMPTY_GROUP" in refused.err) == (1, True), words
    consumer.close()
    until_equal(lambda: kraft("share", "describe", "workers", "--offsets").rows, [["workers", "queued", "0", "5", "0"]])
    preview = kraft("share", "offsets", "reset", "workers", "--to-earliest", "--dry-run")
    assert (preview.rows, "preview" in preview.err) == ([["queued", "0", "5", "0"]], True)
    for options, after in (
        (("--to-earliest",), 0),
        (("--to-latest",), 5),
        (("--to-offset", "3"), 3),
        (("--to-datetime", "2100-01-01"), 5),
        (("--to-datetime", "2020-01-01"), 0),
    ):
        done = kraft("share", "offsets", "reset", "workers", "-t", "queued", *options, "--execute")
        assert (done.code, done.rows[0][3]) == (0, str(after))
    assert kraft("share", "describe", "workers", "--offsets").rows == [["workers", "queued", "0", "0", "5"]]
    assert kraft("share", "describe", "workers", "--members").rows == []
    assert kraft("share", "describe", "workers", "--state").rows[0][1] == "Empty"
    listed = [row for row in kraft("groups", "list").rows if row[0] == "workers"]
    assert listed == [["workers", "Empty", "share", "share"]]
    for words in ("describe workers", "export workers", "reset-offsets workers -t queued --to-latest --execute"):
        other = kraft("groups", *words.split())
        assert (other.code, "`kraft share describe workers`" in other.err) == (3, True), words
    assert kraft("groups", "describe", "--all-groups").code == 0
    assert kraft("groups", "export", "--all-groups").code == 0
    deleted = kraft("share", "offsets", "delete", "workers", "-t", "queued", "--yes")
    assert deleted.out == "deleted the start offsets of workers for queued\n"
    again = kraft("share", "offsets", "delete", "workers", "-t", "queued", "--yes")
    assert (again.code, "workers has no start offsets for queued" in again.err) == (3, True)
    assert kraft("share", "delete", "workers", "--yes").out == "deleted workers\n"
    for words in ("describe workers", "delete workers --yes", "offsets delete workers -t queued --yes"):
        assert kraft("share", *words.split()).code == 3, words


def test_records_are_consumed_again_after_a_reset_of_a_share_group(kraft: Kraft, node: NodeProcess) -> None:
    kraft("topics", "create", "requeued", "-p", "1")
    kraft("produce", "requeued", lines=b"0\n1\n2\n")
    consume_as_share_member(kraft, node, "again", "requeued", 3).close()
    until_equal(lambda: kraft("share", "describe", "again", "--state").rows[0][1], "Empty")
    assert kraft("share", "offsets", "reset", "again", "--to-earliest", "--execute").code == 0
    consume_as_share_member(kraft, node, "again", "requeued", 3).close()


def test_share_commands_name_the_feature_while_share_groups_are_off(no_share_groups: Kraft) -> None:
    refused = no_share_groups("share", "describe", "workers")
    assert (refused.code, refused.out) == (1, "")
    assert "`kraft features upgrade share.version=1`" in refused.err


def test_topics_are_listed_by_pattern(kraft: Kraft) -> None:
    for name in ("listed-a", "listed-b", "unlisted"):
        kraft("topics", "create", name)
    assert [row[0] for row in kraft("topics", "list", "listed-*").rows] == ["listed-a", "listed-b"]
    assert [row[0] for row in kraft("topics", "list", "listed-b", "unl*", "none").rows] == ["listed-b", "unlisted"]


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


def test_deleting_a_missing_config_key_does_not_report_a_deletion(kraft: Kraft) -> None:
    kraft("topics", "create", "deleted-keys", "--config", "retention.ms=1000")
    deleted = kraft("configs", "delete", "topic", "deleted-keys", "retention.ms", "segment.bytes")
    assert deleted.out.splitlines() == [
        "deleted for topic deleted-keys: retention.ms",
        "not set for topic deleted-keys: segment.bytes",
    ]
    for words in ("topic deleted-keys", "cluster", "broker 1", "group g", "client-metrics m"):
        unknown = kraft("configs", "delete", *words.split(), "retentoin.ms")
        assert (unknown.code, unknown.out) == (3, ""), words
        assert "has no key retentoin.ms" in unknown.err
    assert (
        kraft("configs", "delete", "cluster", "log.retention.ms").out == "not set for the cluster: log.retention.ms\n"
    )


def test_configuration_is_set_shown_and_reset(kraft: Kraft) -> None:
    kraft("topics", "create", "configured")
    assert kraft("configs", "set", "topic", "configured", "retention.ms=7", "cleanup.policy=compact").code == 0
    shown = [row[:3] for row in kraft("configs", "describe", "topic", "configured").rows]
    assert shown == [
        ["cleanup.policy", "compact", "topic"],
        ["min.insync.replicas", "1", "cluster"],
        ["retention.ms", "7", "topic"],
    ]
    assert (
        kraft("configs", "delete", "topic", "configured", "retention.ms").out
        == "deleted for topic configured: retention.ms\n"
    )
    [only] = kraft("configs", "describe", "topic", "configured", "--key", "retention.ms", "-o", "json").document[
        "configs"
    ]
    assert (only["value"], only["source"]) == ("604800000", "default")
    assert len(kraft("configs", "describe", "topic", "configured", "--all").rows) > 20
    refused = kraft("configs", "set", "topic", "configured", "retention.ms=soon", "segment.bytes=1048576")
    assert refused.code == 1
    assert "retention.ms" in refused.err
    assert "segment.bytes" not in kraft("configs", "describe", "topic", "configured").out, "all or nothing"
    assert kraft("configs", "set", "cluster", "log.retention.hours=5").code == 1, "read-only"
    assert kraft("configs", "set", "cluster", "log.retention.ms=1000000").code == 0
    assert kraft("configs", "describe", "broker", "1", "-k", "log.retention.ms").rows[0][:3] == [
        "log.retention.ms",
        "1000000",
        "cluster",
    ]
    assert kraft("configs", "set", "group", "g", "consumer.session.timeout.ms=50000").code == 0
    assert kraft("configs", "describe", "group", "g").rows[0][:3] == ["consumer.session.timeout.ms", "50000", "group"]
    for missing in (("topic", "nowhere"), ("broker", "77")):
        assert kraft("configs", "describe", *missing).code == 3


def test_cli_quotas_are_set_listed_and_removed(kraft: Kraft) -> None:
    who = ("--user", "alice", "--client-id-default")
    assert kraft("quotas", "set", "producer_byte_rate=1048576", "request_percentage=12.5", *who).out == (
        "set for user alice, any other client id: producer_byte_rate=1048576, request_percentage=12.5\n"
    )
    assert kraft("quotas", "set", "connection_creation_rate=20", "--ip", "10.9.8.7").code == 0

    def told(*arguments: str) -> list[tuple[str, ...]]:
        lines = kraft("quotas", "list", *arguments).out.splitlines()
        return [tuple(line.split("\t")) for line in lines[1:]]

    wanted = [
        ("user alice, any other client id", "producer_byte_rate", "1048576"),
        ("user alice, any other client id", "request_percentage", "12.5"),
    ]
    until_equal(lambda: told("--user", "alice"), wanted)
    assert told("--user-default") == []
    assert {*told()} == {*wanted, ("address 10.9.8.7", "connection_creation_rate", "20")}
    assert kraft("quotas", "delete", "producer_byte_rate", "request_percentage", *who).code == 0
    until_equal(lambda: told("--user", "alice"), [])
    for arguments, why in (
        (("set", "producer_byte_rate=1"), "no entity is given"),
        (("set", "producer_byte_rate=much", "--user", "alice"), "'much' is not a number"),
        (("set", "producer_byte_rate=1", "--ip", "10.0.0.1"), "is not a quota of address 10.0.0.1"),
        (("set", "producer_byte_rate=1", "--user", "alice", "--user-default"), "give one of them"),
        (("set", "connection_creation_rate=1", "--ip", "10.0.0.1", "--user", "alice"), "quotas of their own"),
        (("delete", "no_such_key", "--user", "alice"), "'no_such_key' is not a quota of user alice"),
    ):
        outcome = kraft("quotas", *arguments)
        assert (outcome.code, " ".join(why.split()) in " ".join(outcome.err.replace("│", " ").split())) == (2, True), (
            outcome
        )
    refused = kraft("quotas", "set", "producer_byte_rate=0.5", "--user", "alice")
    assert (refused.code, "producer_byte_rate" in refused.err) == (1, True), "a broker refuses what it cannot keep to"


def test_cli_features_are_downgraded_and_upgraded(kraft: Kraft) -> None:
    def level() -> str:
        rows = [line.split("\t") for line in kraft("features", "list").out.splitlines()[1:]]
        return {name: level for name, level, *_ in rows}["transaction.version"]

    assert level() == "2"
    lowered = kraft("features", "downgrade", "transaction.version=1", "--yes")
    assert (lowered.code, lowered.out) == (0, "finalized: transaction.version=1\n")
    assert "with transaction.version below 2, a transaction's end no longer raises" in lowered.err
    until_equal(level, "1")
    assert kraft("features", "upgrade").out == "finalized: transaction.version=2\n"
    until_equal(level, "2")
    assert kraft("features", "upgrade").out == "no feature is below its level in a new cluster\n"
    for arguments, code, why in (
        (("upgrade", "transaction.version=3"), 1, "only supports versions 0-2"),
        (("upgrade", "transaction.version=1"), 1, "without setting the upgrade type to either safe or unsafe"),
        (("upgrade", "transaction.version=two"), 2, "'two' is not a level"),
        (("downgrade", "no.such=0", "--yes"), 3, "there is no feature no.such"),
        (("downgrade", "metadata.version=6", "--yes"), 1, "only supports versions 7-33"),
        (("downgrade", "metadata.version=30", "--yes"), 1, "because it might delete metadata information"),
        (("downgrade", "metadata.version=30", "--yes", "--unsafe"), 1, "Unsafe metadata downgrade is not supported"),
        (("downgrade", "transaction.version=1"), 2, "Give --yes"),
    ):
        outcome = kraft("features", *arguments)
        told = " ".join(outcome.err.replace("│", " ").split())
        assert (outcome.code, why in told) == (code, True), outcome
    assert level() == "2"


def until_equal(ask: Callable[[], Any], wanted: Any) -> None:
    """A change is seen once the broker has read it in the metadata log."""
    deadline = time.monotonic() + 30
    while (found := ask()) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_the_cli_describes_and_aborts_a_transaction(kraft: Kraft, node: NodeProcess) -> None:
    kraft("topics", "create", "paid", "-p", "1")
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "payments", "log_level": 0})
    producer.init_transactions(60)
    assert kraft("transactions", "list").out.splitlines()[1].split("\t")[:2] == ["payments", "Empty"]
    producer.begin_transaction()
    producer.produce("paid", b"1")
    producer.flush(60)
    (found,) = json.loads(kraft("transactions", "describe", "payments", "-o", "json").out)["transactions"]
    assert (found["state"], found["partitions"]) == ("Ongoing", [{"topic": "paid", "partition": 0}])
    assert kraft("transactions", "list", "--state", "Ongoing", "--open-for", "3600").out.splitlines()[1:] == []
    (known,) = json.loads(kraft("transactions", "producers", "paid-0", "-o", "json").out)["producers"]
    assert (known["producer_id"], known["transaction_begins"]) == (found["producer_id"], 0)
    assert kraft("transactions", "abort", "paid-0", "--start-offset", "0").code == 2, "nobody to ask, and no --yes"
    assert kraft("transactions", "abort", "paid-0", "--start-offset", "5", "--yes").code == 3
    aborted = kraft("transactions", "abort", "paid-0", "--start-offset", "0", "--yes")
    told = "aborted in its only partition by the coordinator: the transaction of transactional id payments\n"
    assert (aborted.code, aborted.out) == (0, told)
    (found,) = json.loads(kraft("transactions", "describe", "payments", "-o", "json").out)["transactions"]
    assert (found["state"], found["partitions"]) == ("Empty", [])
    with pytest.raises(KafkaException, match=r"FENCED|INVALID_PRODUCER_EPOCH"):
        producer.commit_transaction(60)
    (known,) = json.loads(kraft("transactions", "producers", "paid-0", "-o", "json").out)["producers"]
    assert known["transaction_begins"] is None
    assert kraft("transactions", "describe", "nobody").code == 3


def test_invalid_arguments_exit_with_the_usage_code(kraft: Kraft) -> None:
    for words in (
        "topcs list",
        "topics",
        "topics lst",
        "topics create",
        "topics create t -p 0",
        "topics create t -c nonsense",
        "topics list -o toml",
        "consume t --output yaml",
        "events -f -o name",
        "topics delete t",
        "topics delete-records t --before end",
        "groups delete g",
        "groups delete-offsets g -t t",
        "brokers fence 1",
        "brokers decommission 1",
        "brokers unregister 1",
        "quorum remove-voter 1",
        "quorum unregister 1",
        "topics alter t",
        "topics delete-records t --before x",
        "configs describe planet x",
        "configs describe topic",
        "configs set topic t",
        "configs describe broker x",
        "groups reset-offsets g",
        "groups reset-offsets g --to-latest --to-earliest",
        "groups reset-offsets g --to-datetime never",
        "groups reset-offsets g --by-duration soon",
        "groups reset-offsets g -t a:b --to-latest",
        "consume t -o sideways",
        "consume t --until -3",
        "consume t --until sideways",
        "consume t --until 3 --exit",
        "consume t --until 3 -g g",
        "consume t -f %q",
        "consume t -g g -p 1",
        "produce t -k : -K k",
        "produce t --acks 5",
        "produce t -z rar",
        "topics list -b host:port",
        "storage format -t id",
    ):
        outcome = kraft(*words.split())
        assert outcome.code == 2, words
        assert outcome.out == "" or words == "topics"
    assert "Did you mean 'topics'?" in kraft("topcs").err


def test_an_unreachable_cluster_is_reported_immediately_with_a_hint(kraft: Kraft, node: NodeProcess) -> None:
    began = time.monotonic()
    outcome = kraft("topics", "list", "-b", "127.0.0.1:1")
    assert (outcome.code, outcome.out) == (1, "")
    assert "127.0.0.1:1 cannot be reached" in outcome.err
    assert "hint: is a node running there?" in outcome.err
    assert time.monotonic() - began < 10
    assert kraft("topics", "list", "-b", f"127.0.0.1:1,{node.bootstrap}").code == 0, "one of several is enough"


def test_health_waits_for_a_cluster_that_is_not_up_yet(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with subprocess.Popen(
        command("cluster", "health", "--wait", "60", "-b", f"127.0.0.1:{port}"), stdout=subprocess.PIPE, text=True
    ) as waiting:
        time.sleep(1)
        assert waiting.poll() is None
        with NodeProcess(tmp_path, listen=f"127.0.0.1:{port}"):
            assert "healthy" in waiting.communicate(timeout=60)[0]
    assert waiting.returncode == 0


def test_tables_are_drawn_with_output_table(kraft: Kraft) -> None:
    for command in (
        "quorum describe",
        "brokers list",
        "brokers log-dirs --replicas",
        "cluster describe",
        "brokers describe 1",
    ):
        drawn, piped = kraft(*command.split(), "-o", "table"), kraft(*command.split())
        assert (drawn.code, piped.code) == (0, 0)
        assert "─" in drawn.out
        assert "─" not in piped.out
        assert "\t" in piped.out
    assert kraft("cluster", "health").rows == [["healthy", "-", "-"]]
    assert kraft("brokers", "describe", "9").code == 3
    assert kraft("brokers", "log-dirs", "9").code == 3


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kraft.cli.admin.app", *arguments]


def test_help_imports_no_command_group_and_exists_for_each_group_and_verb(kraft: Kraft) -> None:
    probe = (
        "import sys; from kraft.cli.admin.app import main; main(['--help']); print([m for m in sys.modules if "
        "m.startswith(('kraft.rpc_client', 'trio'))])"
    )
    outcome = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert outcome.stdout.splitlines()[-1] == "[]"
    from kraft.cli.admin.app import NOUNS, load

    for noun in NOUNS:
        assert noun in outcome.stdout
        verbs = getattr(load(noun), "commands", None)
        for path in [[noun]] if verbs is None else [[noun, verb] for verb in verbs]:
            shown = kraft(*path, "--help")
            assert shown.code == 0
            assert len(shown.out) > 200


def test_consume_exits_cleanly_on_a_signal_and_on_a_closed_pipe(kraft: Kraft, node: NodeProcess) -> None:
    kraft("topics", "create", "signalled")
    kraft("produce", "signalled", lines=b"0\n1\n2\n")
    reading = subprocess.Popen(
        command("consume", "signalled", "--from-beginning", "-g", "signalled", "-b", node.bootstrap),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reading.stdout is not None
    assert [reading.stdout.readline() for _ in range(3)] == ["0\n", "1\n", "2\n"]
    reading.send_signal(signal.SIGINT)
    _, complaints = reading.communicate(timeout=30)
    assert (reading.returncode, complaints) == (0, "")
    [group] = kraft("groups", "describe", "signalled", "-o", "json").document["groups"]
    assert (group["state"], group["offsets"][0]["committed_offset"]) == ("Empty", 3)
    # More than a pipe holds.
    assert kraft("produce", "signalled", lines=(b"y" * 999 + b"\n") * 4000).rows == [["0", "4000", "3", "4002"]]
    line = f"{' '.join(command('consume', 'signalled', '--from-beginning', '-e', '-b', node.bootstrap))} | head -1"
    piped = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, "0\n", "")


def test_producing_is_interrupted_immediately_while_it_waits_for_lines(kraft: Kraft, node: NodeProcess) -> None:
    kraft("topics", "create", "interrupted")
    writing = subprocess.Popen(
        command("produce", "interrupted", "-b", node.bootstrap),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert writing.stdin is not None
    writing.stdin.write(b"first\n")
    writing.stdin.flush()
    assert kraft("consume", "interrupted", "-c", "1", "--from-beginning").out == "first\n", (
        "a line is sent before there is another"
    )
    writing.send_signal(signal.SIGINT)
    assert writing.wait(30) == 130
    writing.stdin.close()
    for stream in (writing.stdout, writing.stderr):
        assert stream is not None
        stream.close()


def test_committed_group_offsets_are_exported_to_a_file_and_imported(kraft: Kraft, tmp_path: Path) -> None:
    kraft("topics", "create", "moved", "-p", "1")
    kraft("produce", "moved", lines=b"a\nb\nc\n")
    kraft("groups", "reset-offsets", "mover", "-t", "moved", "--to-offset", "2", "--execute")
    [entry] = [
        each for each in kraft("groups", "export", "--all-groups").document["groups"] if each["group_id"] == "mover"
    ]
    assert entry["offsets"] == [{"topic": "moved", "partition": 0, "offset": 2}]
    file = tmp_path / "offsets.json"
    file.write_text(kraft("groups", "export", "mover").out)
    kraft("groups", "delete", "mover", "--yes")
    preview = kraft("groups", "import", str(file))
    assert (preview.code, preview.rows) == (0, [["mover", "moved", "0", "-", "2"]])
    assert "This is a preview" in preview.err
    assert (gone := kraft("groups", "export", "mover")).code == 3
    assert (gone.out, "GROUP_ID_NOT_FOUND" in gone.err) == ("", True)
    assert kraft("groups", "import", str(file), "--execute", "-o", "json").document["executed"]
    assert kraft("groups", "describe", "--all-groups").code == 0
    [committed] = kraft("groups", "describe", "mover", "-o", "json").document["groups"][0]["offsets"]
    assert (committed["committed_offset"], committed["lag"]) == (2, 1)
    assert kraft("groups", "describe").code == 2
    assert kraft("groups", "export", "mover", "--all-groups").code == 2


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        "{}",
        '{"version": 1}',
        '{"version": 1, "groups": [{}]}',
        '{"version": 1, "groups": [{"group_id": "g"}]}',
        '{"version": 1, "groups": [{"group_id": "g", "offsets": [7]}]}',
        '{"version": 2, "groups": []}',
        '{"version": 1, "groups": [{"group_id": 1, "offsets": []}]}',
        '{"version": 1, "groups": [{"group_id": "g", "offsets": [{"topic": "t", "partition": 0, "offset": -1}]}]}',
        '{"version": 1, "groups": [{"group_id": "g", "offsets": [{"topic": "t", "partition": "0", "offset": 1}]}]}',
        '{"version": 1, "groups": [{"group_id": "g", "offsets": []}, {"group_id": "g", "offsets": []}]}',
    ],
)
def test_an_invalid_offsets_file_is_rejected(kraft: Kraft, tmp_path: Path, text: str) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(text)
    outcome = kraft("groups", "import", str(file), "--execute")
    assert (outcome.code, outcome.out) == (1, "")
    assert "offsets.json" in outcome.err
    assert not {"Traceback", "KeyError", "TypeError"} & set(re.findall(r"\w+", outcome.err))


def test_a_missing_partition_is_reported_as_not_found(kraft: Kraft) -> None:
    kraft("topics", "create", "elected", "-p", "1")
    assert kraft("elections", "preferred", "elected-0").code == 0
    assert kraft("elections", "preferred", "elected-99").code == 3


def test_acl_commands_without_an_authorizer_name_the_key_to_set(kraft: Kraft) -> None:
    refused = kraft("acls", "list")
    assert refused.code == 1
    assert "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer" in refused.err


def test_help_shows_no_type_for_an_option_without_a_value(kraft: Kraft) -> None:
    for words in (("--help",), ("groups", "--help"), ("groups", "import", "--help")):
        shown = kraft(*words)
        assert (shown.code, "bool" in shown.out) == (0, False)


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
