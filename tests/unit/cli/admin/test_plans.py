"""Plans for moving partitions: what is left out is said, and nothing begins that cannot be taken back where that was
asked for."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from kraft.admin.cluster import BrokerState, ClusterDescription
from kraft.admin.metadata import Partition, Topic
from kraft.cli.admin.app import main


def topic(name: str, *replicas: tuple[int, ...]) -> Topic:
    return Topic(
        name, b"", False, tuple(Partition(index, each[0], 0, each, each, ()) for index, each in enumerate(replicas))
    )


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> dict[str, Topic]:
    """The topics of a cluster with brokers 1, 2 and 3."""
    found: dict[str, Topic] = {}

    async def describe_cluster(_: object) -> ClusterDescription:
        return ClusterDescription("c", 1, tuple(BrokerState(node_id, "h", 1, None, False) for node_id in (1, 2, 3)))

    async def describe_topics(_: object, names: list[str]) -> list[Topic]:
        return [found[name] for name in names]

    def ask(_bootstrap: str, _timeout: float, question: Callable[[object], Awaitable[Any]]) -> Any:
        return trio.run(question, None)

    monkeypatch.setattr("kraft.admin.cluster.describe_cluster", describe_cluster)
    monkeypatch.setattr("kraft.admin.topics.describe_topics", describe_topics)
    monkeypatch.setattr("kraft.cli.admin.cluster.reassignments.ask", ask)
    return found


def test_an_impossible_plan_is_reported_with_the_reason(
    topics: dict[str, Topic], capsys: pytest.CaptureFixture[str]
) -> None:
    topics["wide"] = topic("wide", (1, 2, 3), (2, 3, 1))
    topics["narrow"] = topic("narrow", (3,), (1,))
    assert main(["reassignments", "plan", "wide", "narrow", "--broker", "1", "--broker", "2"]) == 0
    told = capsys.readouterr()
    assert [each["topic"] for each in json.loads(told.out)["partitions"]] == ["narrow"]
    assert told.err == "kraft: left out: wide, partitions 0, 1: 3 replicas do not fit on 2 brokers (1, 2)\n"


def test_a_plan_of_which_every_move_is_impossible_is_a_failure(
    topics: dict[str, Topic], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    topics["wide"] = topic("wide", (1, 2, 3), (2, 3, 1))
    undo = tmp_path / "undo.json"
    assert main(["reassignments", "plan", "wide", "--broker", "1", "--undo", str(undo)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "wide, partitions 0, 1: 3 replicas do not fit on 1 broker (1)" in told.err
    assert not undo.exists()


def test_a_plan_for_a_balanced_cluster_is_empty(topics: dict[str, Topic], capsys: pytest.CaptureFixture[str]) -> None:
    topics["even"] = topic("even", (1,), (2,), (3,))
    assert main(["reassignments", "plan", "even"]) == 0
    assert json.loads(capsys.readouterr().out)["partitions"] == []


def test_the_rollback_file_restores_every_replica_list(topics: dict[str, Topic], tmp_path: Path) -> None:
    topics["narrow"] = topic("narrow", (3,), (1,))
    undo = tmp_path / "undo.json"
    assert main(["reassignments", "plan", "narrow", "--broker", "2", "--undo", str(undo)]) == 0
    assert [each["replicas"] for each in json.loads(undo.read_text(encoding="utf-8"))["partitions"]] == [[3], [1]]


def test_an_unwritable_file_is_rejected_before_the_prompt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for undo in (tmp_path, tmp_path / "nowhere" / "undo.json"):
        assert main(["reassignments", "plan", "--undo", str(undo), "-b", "127.0.0.1:1"]) == 2
    kept = tmp_path / "kept.json"
    kept.write_text("kept", encoding="utf-8")
    for undo in (kept, tmp_path / "new.json"):
        assert main(["reassignments", "plan", "--undo", str(undo), "-b", "127.0.0.1:1"]) == 1
    assert kept.read_text(encoding="utf-8") == "kept", "nobody answered: the former one is still of use"
    assert not (tmp_path / "new.json").exists()
    assert capsys.readouterr().out == ""
