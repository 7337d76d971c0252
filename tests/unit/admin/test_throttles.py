"""Which replicas a throttle lists, and what becomes of lists that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from kraft.admin import throttles
from kraft.admin.configs import APPEND, BROKER, DELETE, SET, TOPIC, Resource
from kraft.admin.throttles import (
    ALL,
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    PAIRS_MAX,
    RATES,
    REPLICAS,
    Throttle,
    ThrottledReplicas,
    begin_moves,
    cancel_departure,
    cancel_moves,
    remove_throttle,
    set_throttle,
    throttled_pairs,
)
from kraft.common.ids import TopicPartition

Changes = Mapping[Resource, Sequence[tuple[str, int, str | None]]]
PORT: Any = None


def alterations(monkeypatch: pytest.MonkeyPatch, lists: Mapping[str, Mapping[str, str]]) -> list[Changes]:
    """What is altered from now on, in order, in a cluster of brokers 1 and 2 whose topics have these `lists`."""
    altered: list[Changes] = []

    async def brokers(_: object) -> Any:
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=1), SimpleNamespace(node_id=2)])

    async def topics(_: object) -> Any:
        return [SimpleNamespace(name=name) for name in lists]

    async def describe(_: object, resources: Sequence[Resource], __: object) -> Any:
        return [
            (each, [SimpleNamespace(name=key, value=value, source="topic") for key, value in lists[each.name].items()])
            for each in resources
        ]

    async def alter(_: object, changes: Changes) -> None:
        altered.append(changes)

    for name, fake in (
        ("describe_cluster", brokers),
        ("list_topics", topics),
        ("describe_many", describe),
        ("alter_each", alter),
    ):
        monkeypatch.setattr(throttles, name, fake)
    return altered


def test_throttled_replicas_are_added_to_those_already_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where all of a topic are."""
    altered = alterations(monkeypatch, {"a": {LEADER_REPLICAS: "7:1", FOLLOWER_REPLICAS: ALL}, "b": {}})
    one = ThrottledReplicas([1], [2])
    trio.run(set_throttle, PORT, 1000, {TopicPartition("a", 0): one, TopicPartition("b", 0): one})
    rates = [(key, SET, "1000") for key in RATES]
    assert altered == [
        {Resource(BROKER, "1"): rates, Resource(BROKER, "2"): rates},
        {
            Resource(TOPIC, "a"): [(LEADER_REPLICAS, APPEND, "0:1")],
            Resource(TOPIC, "b"): [(LEADER_REPLICAS, APPEND, "0:1"), (FOLLOWER_REPLICAS, APPEND, "0:2")],
        },
    ]


def test_a_throttle_is_removed_replica_lists_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """With those of topics that nodes may not tell of yet."""
    altered = alterations(monkeypatch, {"a": {LEADER_REPLICAS: "7:1"}, "b": {}, "c": {}})
    trio.run(remove_throttle, PORT, ["c"])
    lists, rates = [(key, DELETE, None) for key in REPLICAS], [(key, DELETE, None) for key in RATES]
    assert altered == [
        {Resource(TOPIC, "a"): lists, Resource(TOPIC, "c"): lists},
        {Resource(BROKER, "1"): rates, Resource(BROKER, "2"): rates},
    ]


def told(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> list[object]:
    """Parts of the module that answer so from now on; which topics a throttle is removed from."""
    removed: list[object] = []

    def answering(answer: Any) -> Any:
        async def ask(*_: object) -> Any:
            return answer

        return ask

    async def remove(_: object, topics: Sequence[str] = ()) -> None:
        removed.append(list(topics))

    for name, answer in answers.items():
        monkeypatch.setattr(throttles, name, answering(answer))
    monkeypatch.setattr(throttles, "remove_throttle", remove)
    return removed


@pytest.mark.parametrize(
    ("was_set", "errors", "removed"),
    [(False, ["A", "B"], [["t"]]), (False, ["A", ""], []), (True, ["A", "B"], []), (False, [""], [])],
)
def test_a_throttle_stays_during_moves_and_if_it_was_set_before(
    was_set: bool, errors: list[str], removed: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = told(
        monkeypatch,
        describe_throttle=Throttle({1: 1000} if was_set else {}, (), ()),
        throttle_targets=["t"],
        alter_moves=[SimpleNamespace(error=error) for error in errors],
    )
    trio.run(begin_moves, PORT, {TopicPartition("t", 0): [1]}, 1000)
    assert found == removed


@pytest.mark.parametrize(
    ("rates", "leaving", "moves", "goes"),
    [
        ({1: 1000}, (), (), True),
        ({}, (), (), False),
        ({1: 1000}, (2,), (), False),
        ({1: 1000}, (), ("one",), False),
    ],
)
def test_the_throttle_is_removed_with_the_last_move(
    rates: dict[int, int], leaving: tuple[int, ...], moves: Sequence[str], goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while a broker leaves, of which more is to move."""
    found = told(monkeypatch, describe_throttle=Throttle(rates, (), leaving), alter_moves=[], list_moves=moves)
    trio.run(cancel_moves, PORT, [TopicPartition("t", 0)])
    assert bool(found) is goes


@pytest.mark.parametrize(("leaving", "goes"), [((2,), True), ((2, 3), False), ((), True)])
def test_cancelling_a_decommissioning_removes_the_throttle_unless_another_broker_leaves(
    leaving: tuple[int, ...], goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may not know yet that it stays."""
    throttle = Throttle({1: 1000}, (), leaving)
    found = told(monkeypatch, describe_throttle=throttle, want_state=None, list_moves=())
    trio.run(cancel_departure, PORT, 2)
    assert bool(found) is goes


def test_throttled_replicas_are_listed_as_partition_and_broker_in_topic_configs() -> None:
    pairs = throttled_pairs(
        {
            TopicPartition("b", 0): ThrottledReplicas([1], []),
            TopicPartition("a", 1): ThrottledReplicas([3], [4]),
            TopicPartition("a", 0): ThrottledReplicas([1, 2], [4]),
        }
    )
    assert pairs == {
        "a": {LEADER_REPLICAS: "0:1,0:2,1:3", FOLLOWER_REPLICAS: "0:4,1:4"},
        "b": {LEADER_REPLICAS: "0:1"},
    }


def test_a_long_list_of_throttled_replicas_becomes_a_wildcard() -> None:
    most = {TopicPartition("a", index): ThrottledReplicas([1], [2]) for index in range(PAIRS_MAX)}
    assert throttled_pairs(most)["a"][LEADER_REPLICAS].count(":") == PAIRS_MAX
    assert throttled_pairs(most | {TopicPartition("a", PAIRS_MAX): ThrottledReplicas([1], [])})["a"] == {
        LEADER_REPLICAS: "*",
        FOLLOWER_REPLICAS: ",".join(f"{index}:2" for index in range(PAIRS_MAX)),
    }
