"""Streams groups as people see them: `kraft groups`, the HTTP admin and the console."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.capabilities import require_capability
from tests.integration.browser import browser
from tests.integration.console_pages import make_topic, produce, show
from tests.integration.rest_node import RunningNode, running_node
from tests.integration.streams_members import StreamsMember

SOURCE = "lines"
TASKS = ["0_0", "0_1", "1_0", "1_1"]

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    settings = ("--set", "group.streams.initial.rebalance.delay.ms=0")
    with running_node(tmp_path_factory.mktemp("streams"), *settings) as started:
        make_topic(started, SOURCE, 2)
        produce(started, SOURCE, [b"a", b"b", b"c"])
        yield started


@pytest.fixture
def http(node: RunningNode) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{node.admin}/v3/clusters/{node.cluster_id}", timeout=30) as client:
        yield client


def kraft(node: RunningNode, *arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("kraft")), *arguments, "-b", node.kafka]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(node: RunningNode, name: str, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kraft(node, *arguments, "-o", "json"))[name]
    return found


def test_kraft_groups_lists_describes_resets_and_deletes_a_streams_group(node: RunningNode) -> None:
    member = StreamsMember(node.kafka, "words", SOURCE)
    assert member.commit(SOURCE, 1) == 0
    assert member.commit("words-counts-repartition", 0) == 0
    listed = documents(node, "groups", "groups", "list")
    assert {"group_id": "words", "state": "Stable", "type": "streams", "protocol_type": "streams"} in listed
    [group] = documents(node, "groups", "groups", "describe", "words")
    facts = ("streams", "Stable", 0, "sticky")
    assert (group["type"], group["state"], group["topology_epoch"], group["assignor"]) == facts
    [shown] = group["members"]
    assert (shown["process_id"], shown["client_tags"]) == ("process-1", {"zone": "a"})
    assert shown["tasks"] == {"active": TASKS, "standby": [], "warmup": []}
    assert [each["source_topics"] for each in group["subtopologies"]] == [[SOURCE], []]
    [changelog] = group["subtopologies"][1]["changelog_topics"]
    assert (changelog["name"], changelog["partitions"]) == ("words-counts-changelog", 2)
    offsets = {(each["topic"], each["partition"]): each for each in group["offsets"]}
    assert offsets[SOURCE, 0]["lag"] == 2
    assert {each["member_id"] for each in offsets.values()} == {"member-1"}
    text = kraft(node, "groups", "describe", "words")
    for expected in ("words  tasks of the members", "0_0 0_1 1_0 1_1", "zone=a", "words  topology of epoch 0"):
        assert expected in text
    member.leave()
    moved = documents(node, "offsets", "groups", "reset-offsets", "words", "--to-latest", "--execute")
    assert [(each["topic"], each["before"], each["after"]) for each in moved] == [(SOURCE, 1, 3)]
    kraft(node, "groups", "delete", "words", "--yes")
    assert "words" not in kraft(node, "groups", "list")


def test_a_streams_group_is_described_reset_and_deleted_over_http(node: RunningNode, http: httpx.Client) -> None:
    member = StreamsMember(node.kafka, "web", SOURCE)
    assert member.commit(SOURCE, 1) == 0
    assert member.commit("web-counts-repartition", 0) == 0
    [listed] = http.get("/streams-groups?q=web&state=stable").json()["data"]
    assert (listed["kind"], listed["streams_group_id"], listed["state"]) == ("KafkaStreamsGroup", "web", "STABLE")
    assert http.get("/streams-groups?q=web&state=empty").json()["data"] == []
    group = http.get("/streams-groups/web").json()
    assert group == listed
    assert [each["repartition_sink_topics"] for each in group["subtopologies"]] == [["web-counts-repartition"], []]
    [shown] = http.get("/streams-groups/web/members").json()["data"]
    assert shown["tasks"] == {"active": TASKS, "standby": [], "warmup": []}
    assert shown["client_tags"] == {"zone": "a"}
    assert http.get("/streams-groups/none").status_code == 404
    [row] = http.get("/consumer-groups/-/lag-summary?q=web").json()["data"]
    assert (row["type"], row["total_lag"]) == ("STREAMS", 2)
    [consumer] = http.get("/consumer-groups/web/consumers").json()["data"]
    assert (consumer["protocol"], consumer["partitions_count"]) == ("STREAMS", 4)
    member.leave()
    reset = {"to": "latest", "validate_only": False}
    [moved] = http.post("/consumer-groups/web/offsets:reset", json=reset).json()["data"]
    assert (moved["topic_name"], moved["new_offset"]) == (SOURCE, 3)
    assert http.delete("/consumer-groups/web").status_code == 204
    assert http.get("/streams-groups/web").status_code == 404


def test_the_page_of_a_streams_group_shows_tasks_and_topology(
    node: RunningNode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    require_capability("chromium")
    member = StreamsMember(node.kafka, "seen", SOURCE)
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        tab.look(width=1280, height=900, dark=False)
        show(tab, node, "groups")
        tab.until("document.querySelector('tbody a[href=\"/ui/group?id=seen\"]')")
        show(tab, node, "group?id=seen")
        tab.until("document.querySelectorAll('table').length >= 4")
        text = tab.text()
        for expected in ("0_0 0_1 1_0 1_1", "process-1", "zone=a", "seen-counts-changelog", "streams"):
            assert expected in text, text
        assert tab.complaints == []
    member.leave()
