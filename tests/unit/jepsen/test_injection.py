"""How faults show that they bit."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from jepsen.nemesis.injection import Context, NotHere, NotNow, grown


def test_a_counter_has_grown_when_it_exceeds_its_value_at_the_start_of_the_fault() -> None:
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


def test_a_follower_is_picked_from_partitions_that_have_one() -> None:
    assert context([1, 2], [1]).pick("follower") == 2


def test_a_follower_fault_without_any_follower_is_not_applicable() -> None:
    with pytest.raises(NotHere):
        context([1], [2]).pick("follower")


def test_a_follower_fault_with_only_busy_followers_is_not_possible_now() -> None:
    busy = context([1, 2])
    busy.busy.add(2)
    with pytest.raises(NotNow) as refused:
        busy.pick("follower")
    assert not isinstance(refused.value, NotHere)
