"""Plans are drawn from a seed, and name only what there is."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from jepsen.nemesis.network import between
from jepsen.nemesis.plans import AIMED, FAULTS, NAMED, NEED_FLUSH, ONLY_REDUCED, REDUCED, ROLL, STORE_FAULTS, steps


def drawn(seed: int, flush: bool = True, tiered: bool = False) -> list[object]:
    return list(islice(steps("swarm", random.Random(seed), flush, tiered=tiered), 200))


def test_a_swarm_is_determined_by_its_seed() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_every_fault_occurs_in_some_swarm() -> None:
    everything = set(FAULTS) - ONLY_REDUCED - AIMED - {ROLL.fault}
    assert {step.fault for seed in range(60) for step in drawn(seed, tiered=True)} == everything  # type: ignore[attr-defined]
    assert {step.fault for seed in range(60) for step in drawn(seed)} == everything - set(STORE_FAULTS)  # type: ignore[attr-defined]


def test_without_root_a_swarm_kills_pauses_and_partitions_by_proxy() -> None:
    seen = {
        step.fault
        for seed in range(60)
        for step in islice(steps("swarm", random.Random(seed), True, reduced=True, tiered=True), 200)
    }
    assert seen == REDUCED <= set(FAULTS)


def test_without_flush_no_swarm_cuts_the_power_of_a_majority() -> None:
    assert not {step.fault for seed in range(60) for step in drawn(seed, flush=False)} & NEED_FLUSH  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(NAMED))
def test_named_plans_contain_known_faults(name: str) -> None:
    assert all(step.fault in FAULTS for step in NAMED[name])


def test_a_single_fault_is_a_plan() -> None:
    assert next(steps("kill-all", random.Random(1), True)).fault == "kill-all"
    with pytest.raises(KeyError):
        next(steps("no-such-thing", random.Random(1), True))


def test_a_partition_between_nodes_is_mutual_and_never_of_a_node_with_itself() -> None:
    assert sorted(between([1], [1, 2])) == [(1, 2), (2, 1)]
