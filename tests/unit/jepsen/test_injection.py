"""How faults show that they bit."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from jepsen.nemesis.injection import Context, NotHere, NotNow, grown


def test_a_counter_has_grown_once_it_is_above_what_it_was_when_the_fault_began() -> None:
    count = 5
    bit = grown(lambda: count)
    assert not bit()
    count = 6
    assert bit()
    assert not grown(lambda: count)()


def context(*replicas: list[int]) -> Context:
    nodes = {number: SimpleNamespace(alive=True, paused=False) for number in (1, 2, 3)}
    partitions = {f"events-{index}": [each[0], 0, each, each] for index, each in enumerate(replicas)}
    observer = SimpleNamespace(latest=SimpleNamespace(partitions=partitions, controller=1))
    return Context(cluster=SimpleNamespace(nodes=nodes), observer=observer, recorder=None, chance=random.Random(1))  # type: ignore[arg-type]


def test_a_follower_is_sought_where_there_are_some() -> None:
    assert context([1, 2], [1]).pick("follower") == 2


def test_where_no_partition_can_have_a_follower_that_is_no_failure_of_the_plan() -> None:
    with pytest.raises(NotHere):
        context([1], [2]).pick("follower")


def test_followers_that_are_not_free_are_one() -> None:
    busy = context([1, 2])
    busy.busy.add(2)
    with pytest.raises(NotNow) as refused:
        busy.pick("follower")
    assert not isinstance(refused.value, NotHere)
