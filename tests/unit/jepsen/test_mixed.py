"""A cluster of both programs: whose a node is, and how it changes."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jepsen import targets
from jepsen.checker.operations import OK, FaultInjected
from jepsen.history import MIXED, Sample
from jepsen.judges.verdict import judge
from jepsen.nemesis.injection import Injection, NotHere, NotNow
from jepsen.nemesis.plans import FAULTS, ROLL, Step, steps
from jepsen.nemesis.plans import MIXED as OF_MIXED
from jepsen.nemesis.rolling import roll
from jepsen.nemesis.runner import Nemesis, roll_after
from jepsen.node import NodeFailed
from tests.unit.jepsen.histories import load, run


@pytest.fixture
def mixed(monkeypatch: pytest.MonkeyPatch) -> targets.MixedTarget:
    monkeypatch.setattr(targets, "jars", lambda name: Path("/jars"))
    return targets.MixedTarget(Path("/ours"), seed=1)


class Machine:
    """A node that ends and starts as it is told."""

    def __init__(self, program: targets.Program, code: int = 0, serves: bool = True) -> None:
        self.program, self.code, self.serves = program, code, serves
        self.alive, self.paused = True, False
        self.told: list[str] = []

    def await_ready(self) -> None:
        if not self.serves:
            raise NodeFailed("it does not serve")

    def stop(self) -> int:
        self.told.append("stop")
        return self.code

    def kill(self) -> None:
        self.told.append("kill")

    def launch(self) -> None:
        self.told.append(f"launch {self.program.name}")


def cluster(target: targets.Target, **other: Any) -> Any:
    return SimpleNamespace(target=target, nodes={n: Machine(target.program(n), **other) for n in (1, 2, 3, 4, 5)})


def context(of: Any, seed: int = 1) -> Any:
    nodes = of.nodes
    return SimpleNamespace(cluster=of, chance=random.Random(seed), free=lambda: [n for n in nodes if nodes[n].alive])


def test_two_of_five_nodes_are_kafkas_and_the_seed_draws_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "jars", lambda name: Path("/jars"))
    drawn = {tuple(sorted(targets.MixedTarget(Path("/ours"), seed).kafkas)) for seed in range(60)}
    assert {len(each) for each in drawn} == {2}
    assert len(drawn) == 10, "each pair of five"
    again = targets.MixedTarget(Path("/ours"), 7)
    assert again.kafkas == targets.MixedTarget(Path("/ours"), 7).kafkas
    assert {again.program(number).name for number in again.kafkas} == {"kafka"}
    assert {again.program(number).name for number in {1, 2, 3, 4, 5, 6} - again.kafkas} == {"kraft"}


def test_a_node_is_rolled_in_both_directions_and_stopped_or_killed(mixed: targets.MixedTarget) -> None:
    seen = set()
    for seed in range(40):
        of = cluster(mixed)
        injection = roll(context(of, seed))
        [number] = injection.busy
        before, after = mixed.program(number), of.nodes[number].program
        assert {before.name, after.name} == {"kafka", "kraft"}
        end, launch = of.nodes[number].told
        assert launch == f"launch {after.name}"
        assert injection.end()
        seen.add((after.name, end))
    assert seen == {("kafka", "stop"), ("kafka", "kill"), ("kraft", "stop"), ("kraft", "kill")}


def test_a_roll_took_effect_only_if_the_other_program_serves(mixed: targets.MixedTarget) -> None:
    of = cluster(mixed)
    injection = roll(context(of))
    [number] = injection.busy
    of.nodes[number].serves = False
    assert not injection.end()


def test_a_stop_with_another_exit_code_than_that_of_an_orderly_end_is_no_roll(mixed: targets.MixedTarget) -> None:
    ends = set()
    for seed in range(20):
        of = cluster(mixed, code=1)
        injection = roll(context(of, seed))
        [number] = injection.busy
        ends.add((of.nodes[number].told[0], injection.end()))
    assert ends == {("stop", False), ("kill", True)}


def test_where_all_nodes_run_one_program_none_is_rolled(mixed: targets.MixedTarget) -> None:
    with pytest.raises(NotHere):
        roll(context(cluster(mixed.kafka)))
    of = cluster(mixed)
    for machine in of.nodes.values():
        machine.alive = False
    with pytest.raises(NotNow):
        roll(context(of))


def test_a_swarm_on_both_programs_kills_pauses_and_cuts_and_always_kills_leaders() -> None:
    swarms = [list(islice(steps("swarm", random.Random(seed), True, mixed=True), 100)) for seed in range(60)]
    assert {step.fault for swarm in swarms for step in swarm} == OF_MIXED - {
        "unreachable-leader",
        "unreachable-controller",
    }
    assert all("kill-leader" in {step.fault for step in swarm} for swarm in swarms)


@pytest.mark.parametrize("plan", ["swarm", "kills"])
def test_a_node_is_rolled_once_when_half_of_the_time_is_over(monkeypatch: pytest.MonkeyPatch, plan: str) -> None:
    """It is tried again at the next step if no node was free."""
    tried: list[float] = []
    clock = SimpleNamespace(seconds=0.0)

    def one(context: object) -> Injection:
        clock.seconds += 1.0
        return Injection(kind="kill", role="", busy=frozenset(), end=lambda: True)

    def rolling(context: object) -> Injection:
        tried.append(clock.seconds)
        if len(tried) < 3:
            raise NotNow("no node is free")
        return Injection(kind="roll", role="", busy=frozenset({2}), end=lambda: True)

    monkeypatch.setitem(FAULTS, "kill-leader", one)
    monkeypatch.setitem(FAULTS, ROLL.fault, rolling)
    recorder = SimpleNamespace(now=lambda: clock.seconds, begin=lambda fault: fault, done=lambda fault: None)
    of: Any = SimpleNamespace(
        cluster=SimpleNamespace(network=None, store=None), recorder=recorder, chance=random.Random(1), busy=set()
    )
    nemesis = Nemesis(of, plan, flush=True, is_mixed=True, roll_after=5.0)
    nemesis._steps = iter([Step(fault="kill-leader", hold=0.0, rest=0.0)] * 12)
    waits = SimpleNamespace(is_set=lambda: False, wait=lambda seconds=0.0: clock.__dict__.update(seconds=clock.seconds))
    nemesis._stopped = waits  # type: ignore[assignment]
    monkeypatch.setattr(nemesis, "_step", lambda step: nemesis._begin(step))
    nemesis._run()
    assert tried == [5.0, 6.0, 7.0]


def test_a_node_is_rolled_in_a_plan_that_has_no_steps_or_whose_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    rolled = Injection(kind="roll", role="", busy=frozenset({2}), end=lambda: True)
    monkeypatch.setitem(FAULTS, ROLL.fault, lambda context: rolled)
    told: list[FaultInjected] = []
    recorder = SimpleNamespace(now=lambda: 2.0, begin=lambda fault: fault, done=told.append)
    of: Any = SimpleNamespace(
        cluster=SimpleNamespace(network=None, store=None), recorder=recorder, chance=random.Random(1), busy=set()
    )
    nemesis = Nemesis(of, "calm", flush=True, is_mixed=True, roll_after=5.0)

    def wait(seconds: float = 0.0) -> bool:
        waited.append(seconds)
        return True

    nemesis._stopped = SimpleNamespace(is_set=lambda: True, wait=wait)  # type: ignore[assignment]
    monkeypatch.setattr(nemesis, "_until_it_works", lambda: None)
    nemesis._run()
    assert waited[0] == 5.0
    assert [(fault.kind, fault.bit) for fault in told] == [("roll", True)]


@pytest.mark.parametrize(("bit", "told"), [(True, []), (False, ["no node changed its program"])])
def test_a_run_on_both_programs_counts_only_if_a_node_changed_its_own(bit: bool, told: list[str]) -> None:
    rolled = FaultInjected(process="nemesis", began=6.0, ended=7.0, outcome=OK, kind="roll", bit=bit)
    judged = run(*load(), rolled)
    judged.facts.target = MIXED
    assert [each for each in judge(judged).reasons if "program" in each] == told


def test_as_many_first_nodes_are_kafkas_as_the_run_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "jars", lambda name: Path("/jars"))
    assert len(targets.MixedTarget(Path("/ours"), 7, kafkas=3).kafkas) == 3


def test_a_steady_cluster_is_not_rolled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert roll_after(MIXED, "steady", 40.0) is None
    assert roll_after(MIXED, "mixed", 40.0) == 20.0
    assert roll_after("kraft", "mixed", 40.0) is None


@pytest.mark.parametrize(
    ("leaders", "told"),
    [
        ((1, 3), []),
        ((1, 2), ["the quorum was led by nodes of one program alone"]),
        ((3,), ["the quorum was led by nodes of one program alone"]),
    ],
)
def test_a_steady_run_counts_only_if_nodes_of_both_programs_led_the_quorum(
    leaders: tuple[int, ...], told: list[str]
) -> None:
    judged = run(*load())
    judged.facts.target, judged.facts.plan, judged.facts.kafkas = MIXED, "steady", [1, 2]
    judged.samples[:] = [Sample(at=6.0 + turn, controller=leader) for turn, leader in enumerate(leaders)]
    assert [each for each in judge(judged).reasons if "program" in each] == told
