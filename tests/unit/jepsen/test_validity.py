"""A run that looked at nothing of importance is not ok, whatever it did besides."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from jepsen.checker.operations import (
    OK,
    Commit,
    Committed,
    FaultInjected,
    FinalRead,
    ListOffset,
    Operation,
    Poll,
    ReplicaContent,
    TopicChange,
    TopicSeen,
)
from jepsen.history import METADATA, PowerLoss, RunHistory
from jepsen.judges.validity import leader_changes
from jepsen.judges.verdict import judge
from jepsen.nemesis.injection import Injection, NotNow
from jepsen.nemesis.membership import transfer
from jepsen.nemesis.plans import FAULTS, Step
from jepsen.nemesis.runner import Nemesis
from tests.unit.jepsen.histories import PLACE, final, load, phases, poll, run, sample, send

SUCCEEDED: dict[str, Any] = {"process": "c", "began": 6.0, "ended": 6.1, "outcome": OK}


def reasons(operations: list[Operation], workload: str = "producers") -> list[str]:
    judged = run(*operations)
    judged.facts.workload = workload
    verdict = judge(judged)
    assert verdict.findings == ()
    return list(verdict.reasons)


def without(kind: type[Operation]) -> list[Operation]:
    return [each for each in load() if not isinstance(each, kind)]


def test_a_partition_without_a_final_read_makes_a_run_invalid() -> None:
    assert reasons(without(FinalRead)) == ["events-0 was not read in the end"]


def test_replicas_that_were_not_compared_make_a_run_invalid() -> None:
    assert reasons(without(ReplicaContent)) == [
        "no node's metadata log was compared",
        "0 replicas of events-0 were compared, and there are 3",
    ]


@pytest.mark.parametrize("start", [0, 2])
def test_a_tiered_topic_that_is_entirely_local_makes_a_run_invalid(start: int) -> None:
    operations = load()
    for content in operations:
        if isinstance(content, ReplicaContent) and content.topic == PLACE["topic"]:
            content.start = start
    told = "events-0 has no records that are in the object store alone"
    assert (told in reasons(operations, "tiered")) == (start == 0)


def test_a_replica_left_out_of_the_comparison_makes_a_run_invalid() -> None:
    two = [
        each
        for each in load()
        if not (isinstance(each, ReplicaContent) and each.process == "3" and each.place != METADATA)
    ]
    assert reasons(two) == ["2 replicas of events-0 were compared, and there are 3"]


@pytest.mark.parametrize("end", [0, 9])
def test_metadata_logs_without_common_offsets_make_a_run_invalid(end: int) -> None:
    operations = load()
    for each in operations:
        if isinstance(each, ReplicaContent) and each.place == METADATA:
            each.start = each.end = end
    assert reasons(operations) == ["no node's metadata log was compared"]


def test_readers_without_records_until_healing_make_a_run_invalid() -> None:
    operations = without(Poll)
    everything = [(number, f"v{number}") for number in range(100)]
    assert reasons([*operations, poll(0, *everything, began=25.0)]) == ["nothing was read under faults"]
    assert reasons([*operations, poll(0, *everything, began=6.0)]) == []


def test_reads_of_records_lost_to_a_later_power_failure_count_as_reads() -> None:
    taken = [send("a", 0), poll(0, (0, "a")), final(), *phases()]
    losses = [PowerLoss(at=10.0, nodes=[1, 2, 3])]
    assert "nothing was read under faults" not in judge(run(*taken, losses=losses, flush=False)).reasons
    del taken[1]
    assert "nothing was read under faults" in judge(run(*taken, losses=losses, flush=False)).reasons


def test_topics_without_a_final_check_make_a_run_invalid() -> None:
    made = TopicChange(topic="x", partitions=1, **SUCCEEDED)
    assert reasons([*load(), made]) == ["1 topics were changed and not looked at in the end, among them x"]
    assert reasons([*load(), made, TopicSeen(topic="x", partitions=1, **SUCCEEDED)]) == []


@pytest.mark.parametrize(
    ("workload", "operations"),
    [
        (
            "groups",
            [
                Commit(group="g", offset=1, **PLACE, **SUCCEEDED),
                Committed(group="g", offset=1, **PLACE, **{**SUCCEEDED, "began": 7.0, "ended": 7.1}),
            ],
        ),
        (
            "topics",
            [TopicChange(topic="x", partitions=1, **SUCCEEDED), TopicSeen(topic="x", partitions=1, **SUCCEEDED)],
        ),
        ("offsets", [ListOffset(offset=99, epoch=1, **PLACE, **SUCCEEDED)]),
    ],
)
def test_a_workload_without_a_successful_operation_of_its_own_is_invalid(
    workload: str, operations: list[Operation]
) -> None:
    assert len(reasons(load(), workload)) == (2 if workload == "groups" else 1)
    assert reasons([*load(), *operations], workload) == []
    assert len(reasons([*load(), *operations], "queue")) == (2 if workload == "groups" else 3)


def test_offset_lookups_answered_without_an_epoch_are_not_judged() -> None:
    assert reasons([*load(), ListOffset(offset=99, **PLACE, **SUCCEEDED)], "offsets") == [
        "the workload offsets had no list_offset that succeeded"
    ]


def test_leader_changes_before_the_faults_do_not_count() -> None:
    early: RunHistory = run(*load(), samples=[sample(1.0), sample(2.0, 1), sample(3.0, 2), sample(30.0, 2)])
    assert leader_changes(early) == 0
    assert leader_changes(run(*load(), samples=[sample(1.0), sample(3.0, 1), sample(30.0, 2)])) == 1


def test_a_quorum_without_an_initial_report_has_not_changed_its_leader() -> None:
    silent = sample(5.0)
    silent.controller, silent.controller_epoch = -1, -1
    assert leader_changes(run(*load(), samples=[silent, sample(6.0)])) == 0


class Notes:
    """What a nemesis needs of a recorder."""

    def __init__(self) -> None:
        self.faults: list[FaultInjected] = []

    def now(self) -> float:
        return 1.0

    def begin(self, operation: FaultInjected) -> FaultInjected:
        return operation

    def done(self, operation: FaultInjected) -> None:
        self.faults.append(operation)


@pytest.mark.parametrize(("plan", "told"), [("power-all", ["not done: nobody is free"]), ("swarm", [])])
def test_a_planned_fault_that_is_never_injected_is_reported(
    monkeypatch: pytest.MonkeyPatch, plan: str, told: list[str]
) -> None:
    """A swarm draws many, of which some have nobody to be done to."""

    def nobody(context: object) -> Injection:
        raise NotNow("nobody is free")

    monkeypatch.setitem(FAULTS, "power-all", nobody)
    notes = Notes()
    context: Any = SimpleNamespace(
        cluster=SimpleNamespace(network=None, store=None), recorder=notes, chance=random.Random(1), busy=set()
    )
    nemesis = Nemesis(context, plan, flush=True)
    nemesis._stopped.set()
    nemesis._begin(Step(fault="power-all", hold=1.0, rest=1.0))
    assert [fault.role for fault in notes.faults] == told
    assert not any(fault.bit for fault in notes.faults)


@pytest.mark.parametrize("code", [0, 41])
def test_a_leader_transfer_took_effect_only_if_the_cluster_accepted_it(code: int) -> None:
    cluster = SimpleNamespace(ask=lambda node, request, seconds: SimpleNamespace(error_code=code))
    context: Any = SimpleNamespace(cluster=cluster, pick=lambda role: 1)
    assert transfer(context).end() == (code == 0)
