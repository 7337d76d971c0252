"""What a power loss may take, and what it may not."""

from __future__ import annotations

from jepsen.history import PowerLoss
from jepsen.judges.allowances import allow
from jepsen.judges.verdict import judge
from tests.unit.jepsen.histories import final, poll, report, run, sample, send

ALL = [PowerLoss(at=10.0, nodes=[1, 2, 3, 4, 5])]


def test_a_loss_is_allowed_under_default_settings_when_every_in_sync_replica_lost_power_later() -> None:
    assert allow(run(send("a", 0), final(), losses=ALL, flush=False)).lost == ["a"]


def test_no_loss_is_allowed_when_every_append_is_flushed() -> None:
    assert allow(run(send("a", 0), final(), losses=ALL)).lost == []


def test_no_loss_is_allowed_while_one_in_sync_replica_kept_its_power() -> None:
    assert allow(run(send("a", 0), final(), losses=[PowerLoss(at=10.0, nodes=[1, 2])], flush=False)).lost == []


def test_a_power_failure_of_a_shrunken_in_sync_set_allows_a_loss() -> None:
    alone = [sample(5.0, in_sync=[1, 2])]
    assert allow(
        run(send("a", 0), final(), losses=[PowerLoss(at=10.0, nodes=[1, 2])], samples=alone, flush=False)
    ).lost == ["a"]


def test_an_earlier_power_failure_allows_no_loss_of_later_records() -> None:
    assert allow(run(send("a", 0, began=11.0), final(), losses=ALL, samples=[sample(11.0)], flush=False)).lost == []


def test_successive_power_failures_add_up() -> None:
    one_by_one = [PowerLoss(at=10.0 + node, nodes=[node]) for node in (1, 2, 3)]
    assert allow(run(send("a", 0), final(), losses=one_by_one, flush=False)).lost == ["a"]


def test_an_unclean_election_allows_a_loss() -> None:
    assert allow(run(send("a", 0), final(), reports=[report({1: (0, 1)})])).lost == ["a"]


def test_a_record_read_from_a_lost_leader_may_be_acknowledged_at_another_offset() -> None:
    read, found = poll(3, (3, "a")), final((0, "a"), (1, "b"), (2, "c"), (3, "d"))
    sends = [send(value, offset) for offset, value in enumerate("abcd")]
    assert judge(run(*sends, read, found, reports=[report({1: (3, 4)})])).findings == ()
    read, found = poll(3, (3, "a")), final((0, "a"), (1, "b"), (2, "c"), (3, "d"))
    assert judge(run(*[send(value, offset) for offset, value in enumerate("abcd")], read, found)).findings


def test_a_record_read_but_never_acknowledged_may_be_lost_with_the_power() -> None:
    judged = run(send("a", 0), poll(0, (0, "a"), (1, "ghost")), final((0, "a")), losses=ALL)
    assert allow(judged).reads == 1
    assert judged.operations.operations[1].records == [(0, "a", -1)]  # type: ignore[attr-defined]


def test_a_read_record_may_not_disappear_without_a_cause() -> None:
    assert allow(run(poll(0, (0, "ghost")), final())).reads == 0


def test_an_acknowledged_record_missing_everywhere_is_a_finding() -> None:
    findings = judge(run(send("a", 0), final(), losses=ALL)).findings
    assert any("a was acknowledged and is nowhere" in finding for finding in findings)


def test_an_acknowledgement_without_an_offset_is_checked_against_the_log() -> None:
    assert judge(run(send("a", -1), final((0, "a")))).findings == ()
    assert judge(run(send("a", -1), final())).lost == 1
