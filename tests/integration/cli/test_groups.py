"""`kraft groups` and `kraft share` against a real node."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ShareConsumer

from kraft.testing.node_process import NodeProcess
from tests.integration.outcomes import Kraft, until_equal


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
