"""A topic recreated under its name is a topic of its own: what an earlier one held, had committed or left on disks
is seen."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio

from jepsen.checker import check
from jepsen.checker.history import History
from jepsen.checker.operations import OK, Commit, Committed, Operation, Poll, Send, TopicChange, TopicSeen
from jepsen.simulate import RECREATION_SEEDS_MIN, Summary
from jepsen.simulation.clients.incarnations import NAME, Incarnation, name_in_history
from jepsen.simulation.clients.leftovers import leftovers
from jepsen.simulation.clients.session import Unanswered
from kraft.storage.checkpoints import partition_metadata_text
from kraft.storage.log_files import PARTITION_METADATA
from kraft.world.simulated.disk import Disk

FIRST, SECOND = b"1" * 16, b"2" * 16


def about(topic_id: bytes, began: float) -> dict[str, Any]:
    return {
        "process": "c",
        "topic": name_in_history(NAME, topic_id),
        "partition": 0,
        "began": began,
        "ended": began + 1,
        "outcome": OK,
    }


@pytest.mark.parametrize(
    ("rule", "operations"),
    [
        (
            "6 phantom",
            [
                Send(values=["first"], offset=0, **about(FIRST, 1)),
                Poll(position=0, records=[(0, "first", 0)], **about(SECOND, 5)),
            ],
        ),
        (
            "17 committed offset",
            [Commit(group="g", offset=1, **about(FIRST, 1)), Committed(group="g", offset=1, **about(SECOND, 5))],
        ),
        (
            "24 topic",
            [
                TopicChange(
                    process="m", topic=name_in_history(NAME, FIRST), partitions=1, began=1, ended=1, outcome=OK
                ),
                TopicSeen(process="f", topic=name_in_history(NAME, FIRST), partitions=0, began=9, outcome=OK),
            ],
        ),
    ],
)
def test_data_of_a_deleted_topic_in_its_successor_is_a_finding(rule: str, operations: list[Operation]) -> None:
    assert [finding.rule for finding in check(History(operations))] == [rule]


def test_only_recreated_topics_are_renamed_in_the_history() -> None:
    assert name_in_history("events", FIRST) == "events"
    assert name_in_history(NAME, FIRST) != name_in_history(NAME, SECOND)


class OneAnswer:
    """A session that is answered once."""

    host = "node-1"

    async def call(self, request: object, low: int, high: int) -> str:
        return f"{request} {low} {high}"


@pytest.mark.parametrize(
    ("taken", "counts"),
    [([FIRST, FIRST], True), ([FIRST, SECOND], False), ([None, FIRST], False), ([SECOND, SECOND], False)],
)
def test_a_request_by_name_counts_only_if_the_topic_id_was_the_same_before_and_after(
    taken: list[bytes | None], counts: bool
) -> None:
    answers = iter(taken)
    incarnation = Incarnation(1, FIRST, lambda host, name: next(answers))
    session: Any = OneAnswer()

    async def ask() -> None:
        if counts:
            assert await incarnation.by_name(session, "r", 1, 2) == "r 1 2"
        else:
            with pytest.raises(Unanswered, match="another topic"):
                await incarnation.by_name(session, "r", 1, 2)

    trio.run(ask)


def disk_with(*entries: tuple[str, bytes | None]) -> Disk:
    disk = Disk(random.Random(0))
    data = disk.root.names["data"] = disk.new_directory()
    for name, topic_id in entries:
        directory = data.names[name] = disk.new_directory()
        if topic_id is not None:
            file = directory.names[PARTITION_METADATA] = disk.new_file(0)
            file.write(0, partition_metadata_text(topic_id).encode())
    return disk


def test_directories_of_deleted_topics_are_found_on_a_disk() -> None:
    deleted, stray = f"{NAME}-0.{'a' * 32}-delete", f"{NAME}-0.{'b' * 32}-stray"
    disk = disk_with((f"{NAME}-0", FIRST), (deleted, FIRST), (stray, FIRST), ("other-0", FIRST))
    assert list(leftovers(disk, "data", NAME, SECOND)) == [f"{NAME}-0", deleted]
    assert list(leftovers(disk, "data", NAME, FIRST)) == [deleted]
    assert list(leftovers(disk, "data", NAME, None)) == [f"{NAME}-0", deleted]
    assert list(leftovers(disk_with((f"{NAME}-0", None)), "data", NAME, FIRST)) == []


@pytest.mark.parametrize(("recreated", "green"), [(1, True), (0, False)])
def test_a_batch_without_a_recreated_topic_is_not_green(recreated: int, green: bool) -> None:
    summary = Summary("cluster")
    outcome = {"seed": 1, "verdict": "ok", "violations": [], "trace": "t", "seconds": 1.0, "recreated": recreated}
    for _ in range(RECREATION_SEEDS_MIN):
        list(summary.add(outcome, None))
    assert summary.is_green is green
    assert ("too few" in summary.line()) is not green
