"""What a power loss may take, and what it may not."""

from __future__ import annotations

from jepsen.history import PowerLoss
from jepsen.judges.allowances import allow
from jepsen.judges.verdict import judge
from tests.unit.jepsen.histories import final, poll, report, run, sample, send

ALL = [PowerLoss(at=10.0, nodes=[1, 2, 3, 4, 5])]


def test_a_loss_is_allowed_under_default_settings_when_every_in_sync_replica_lost_power_later() -> None:
    assert allow(run(send("a", 0), final(), losses=ALL, flush=False)).lost == ["a"]


def test_nothing_is_allowed_to_be_lost_when_every_append_is_flushed() -> None:
    assert allow(run(send("a", 0), final(), losses=ALL)).lost == []


def test_nothing_may_be_lost_while_one_in_sync_replica_kept_its_power() -> None:
    assert allow(run(send("a", 0), final(), losses=[PowerLoss(at=10.0, nodes=[1, 2])], flush=False)).lost == []


def test_a_small_in_sync_set_is_enough_to_lose_by() -> None:
    alone = [sample(5.0, in_sync=[1, 2])]
    assert allow(
        run(send("a", 0), final(), losses=[PowerLoss(at=10.0, nodes=[1, 2])], samples=alone, flush=False)
    ).lost == ["a"]


def test_power_that_failed_before_takes_nothing_that_came_after() -> None:
    assert allow(run(send("a", 0, began=11.0), final(), losses=ALL, samples=[sample(11.0)], flush=False)).lost == []


def test_losses_one_after_the_other_add_up() -> None:
    one_by_one = [PowerLoss(at=10.0 + node, nodes=[node]) for node in (1, 2, 3)]
    assert allow(run(send("a", 0), final(), losses=one_by_one, flush=False)).lost == ["a"]


def test_an_unclean_election_may_lose() -> None:
    assert allow(run(send("a", 0), final(), reports=[report({1: (0, 1)})])).lost == ["a"]


def test_what_was_read_from_a_leader_that_was_lost_may_be_acknowledged_at_another_place() -> None:
    read, found = poll(3, (3, "a")), final((0, "a"), (1, "b"), (2, "c"), (3, "d"))
    sends = [send(value, offset) for offset, value in enumerate("abcd")]
    assert judge(run(*sends, read, found, reports=[report({1: (3, 4)})])).findings == ()
    read, found = poll(3, (3, "a")), final((0, "a"), (1, "b"), (2, "c"), (3, "d"))
    assert judge(run(*[send(value, offset) for offset, value in enumerate("abcd")], read, found)).findings


def test_what_was_read_and_never_acknowledged_may_go_with_the_power() -> None:
    judged = run(send("a", 0), poll(0, (0, "a"), (1, "ghost")), final((0, "a")), losses=ALL)
    assert allow(judged).reads == 1
    assert judged.operations.operations[1].records == [(0, "a", -1)]  # type: ignore[attr-defined]


def test_what_was_read_may_not_go_for_nothing() -> None:
    assert allow(run(poll(0, (0, "ghost")), final())).reads == 0


def test_an_acknowledged_record_that_is_nowhere_is_a_finding() -> None:
    findings = judge(run(send("a", 0), final(), losses=ALL)).findings
    assert any("a was acknowledged and is nowhere" in finding for finding in findings)


def test_an_acknowledgement_without_an_offset_is_held_to_the_place_in_the_log() -> None:
    assert judge(run(send("a", -1), final((0, "a")))).findings == ()
    assert judge(run(send("a", -1), final())).lost == 1
