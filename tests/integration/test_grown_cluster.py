"""A cluster that begins as one node and grows: what coordinators keep is copied as often as there are brokers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from jepsen.three_nodes import until
from kraft.cli.admin.app import main
from kraft.testing.node_process import NodeProcess

SECONDS_MAX = 60


class Growing:
    """Node 1 is its own quorum; others join as brokers."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str], stack: ExitStack) -> None:
        self.directory = directory
        self.capsys = capsys
        self.stack = stack
        self.first = stack.enter_context(NodeProcess(directory / "1", "--node-id", "1"))

    def join(self, *nodes: int) -> None:
        cluster_id = self.kraft("cluster", "describe")["cluster_id"]
        for node in nodes:
            self.stack.enter_context(
                NodeProcess(
                    self.directory / str(node),
                    *("--node-id", str(node), "--role", "broker", "--cluster-id", cluster_id),
                    *("--bootstrap-controllers", self.first.ready["controller"]),
                    controller_listen=None,
                )
            )

    def kraft(self, *words: str, code: int = 0) -> Any:
        assert main([*words, "--bootstrap-server", self.first.bootstrap, "-o", "json"]) == code
        return json.loads(self.capsys.readouterr().out)

    def commit(self, group: str) -> None:
        self.kraft("groups", "reset-offsets", group, "-t", "t", "--to-earliest", "--execute")

    def reasons(self) -> dict[str, str]:
        """Remedies of what health finds, by code."""
        main(["cluster", "health", "--bootstrap-server", self.first.bootstrap, "-o", "json"])
        found = json.loads(self.capsys.readouterr().out)["reasons"]
        return {each["code"]: each["remedy"] for each in found}

    def copies(self, topic: str) -> set[int]:
        [described] = self.kraft("topics", "describe", topic)["topics"]
        return {len(each["replicas"]) for each in described["partitions"]}


@pytest.fixture
def growing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Growing]:
    with ExitStack() as stack:
        grown = Growing(tmp_path, capsys, stack)
        grown.kraft("topics", "create", "t", "-p", "1")
        yield grown


def test_the_first_consumer_after_brokers_joined_replicates_its_offsets_topic(growing: Growing) -> None:
    growing.join(2, 3)
    growing.commit("g")
    assert growing.copies("__consumer_offsets") == {3}
    assert growing.reasons() == {}


def test_an_offsets_topic_with_too_few_replicas_is_reported_and_fixed_by_one_command(growing: Growing) -> None:
    growing.commit("g")
    assert growing.copies("__consumer_offsets") == {1}
    assert growing.reasons() == {}
    growing.join(2, 3)
    until(lambda: "internal_topic_few_copies" in growing.reasons(), "the finding", SECONDS_MAX)
    command = growing.reasons()["internal_topic_few_copies"].split("`")[1]
    assert command == "kraft topics alter __consumer_offsets --replication-factor 3"
    growing.kraft(*shlex.split(command)[1:])
    until(lambda: growing.reasons() == {}, "a healthy cluster", SECONDS_MAX)
    assert growing.copies("__consumer_offsets") == {3}
    [group] = growing.kraft("groups", "describe", "g")["groups"]
    assert [each["committed_offset"] for each in group["offsets"]] == [0]


def test_a_replication_factor_above_the_broker_count_is_rejected_without_a_change(growing: Growing) -> None:
    assert main(["topics", "alter", "t", "-r", "3", "--bootstrap-server", growing.first.bootstrap]) == 1
    assert "t: 3 copies do not fit on the brokers that are up (1)" in growing.capsys.readouterr().err
    growing.join(2)
    altered = growing.kraft("topics", "alter", "t", "-r", "2", "-c", "min.insync.replicas=2")
    assert (altered["replication_factor"], altered["configs"]) == (2, {"min.insync.replicas": "2"})
    assert growing.copies("t") == {2}
    until(lambda: growing.reasons() == {}, "a healthy cluster", SECONDS_MAX)
    growing.kraft("topics", "alter", "t", "-r", "1")
    until(lambda: growing.copies("t") == {1}, "one copy", SECONDS_MAX)
