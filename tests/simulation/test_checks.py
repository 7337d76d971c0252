"""The checks of a simulated run name each planted anomaly, and nothing in a history without one."""

from __future__ import annotations

import pytest

from kraft.testing.simulation.checks import check
from kraft.testing.simulation.history import FAILED, UNKNOWN, History, Send

PARTITION = ("t", 0)


def send(producer: str, first: int, count: int, offset: int | None, began: float = 0.0, ended: float = 1.0, outcome: str = UNKNOWN) -> Send:
    """Acknowledged at `offset`, or with `outcome`."""
    values = tuple(f"{producer}:{number}" for number in range(first, first + count))
    made = Send(producer, PARTITION, first, values, began, ended)
    if offset is None:
        made.outcome = outcome
    else:
        made.offset = offset
    return made


def history(*sends: Send, power_losses: bool = False) -> History:
    made = History(power_losses=power_losses)
    for each in sends:
        made.sends.append(each)
        if each.offset >= 0:
            made.acknowledge(each, each.offset)
    return made


def log(*values: str) -> dict[int, str]:
    return dict(enumerate(values))


GOOD = (send("a", 0, 2, 0, 0, 1), send("b", 0, 1, 2, 0.5, 1.5), send("a", 2, 1, 3, 2, 3), send("b", 1, 1, None))


@pytest.mark.parametrize("tail", [(), ("b:1",)])
def test_a_good_history_has_nothing_wrong(tail: tuple[str, ...]) -> None:
    made = history(*GOOD)
    made.saw(PARTITION, 0, "a:0", "reader")
    assert check(made, {PARTITION: log("a:0", "a:1", "b:0", "a:2", *tail)}) == []


@pytest.mark.parametrize(
    ("sends", "found", "expected"),
    [
        (GOOD, log("a:0", "a:1", "b:0"), "lost: a:2"),
        (GOOD, log("a:0", "a:1", "b:0", "b:1", "a:2"), "lost: a:2"),
        (GOOD, log("a:0", "a:1", "b:0", "a:2", "b:1", "b:1"), "duplicate: b:1"),
        (GOOD, log("a:0", "a:1", "b:0", "a:2", "c:9"), "phantom: c:9"),
        ((send("a", 0, 1, None, outcome=FAILED),), log("a:0"), "aborted read: a:0"),
        ((send("a", 0, 1, None), send("a", 1, 1, None)), log("a:1", "a:0"), "disorder: a:1 of a is at 0"),
        ((send("a", 0, 2, None),), log("a:0"), "torn batch"),
        ((send("a", 0, 2, None), send("b", 0, 1, None)), log("a:0", "b:0", "a:1"), "torn batch"),
        ((send("a", 0, 1, 1, 0, 1), send("b", 0, 1, 0, 2, 3)), log("b:0", "a:0"), "real-time inversion"),
    ],
)
def test_a_planted_anomaly_is_named(sends: tuple[Send, ...], found: dict[int, str], expected: str) -> None:
    if expected.startswith("disorder"):
        expected = "disorder: "
    assert any(finding.startswith(expected) for finding in check(history(*sends), {PARTITION: found}))


def test_what_was_read_must_stay_unless_power_may_fail_before_it_was_acknowledged() -> None:
    for power_losses, outcome in ((False, ["vanished: a:0"]), (True, [])):
        made = history(send("a", 0, 1, None), power_losses=power_losses)
        made.saw(PARTITION, 0, "a:0", "reader")
        assert [finding[:13] for finding in check(made, {PARTITION: {}})] == outcome
    made = history(send("a", 0, 1, 0), power_losses=True)
    made.saw(PARTITION, 0, "a:0", "reader")
    assert any(finding.startswith("vanished") for finding in check(made, {PARTITION: {}}))


def test_one_offset_with_two_values_is_found_while_reading() -> None:
    made = history(send("a", 0, 1, 0), send("b", 0, 1, None))
    made.saw(PARTITION, 0, "a:0", "reader")
    made.saw(PARTITION, 0, "b:0", "other")
    assert made.violations == ["other reads b:0 at t-0 offset 0, where a:0 was read before"]


def test_members_of_one_generation_are_assigned_by_one_decision() -> None:
    made = History()
    made.assigned(1, "leader", "tag 1", "m1")
    made.assigned(1, "leader", "tag 1", "m2")
    made.assigned(2, "leader", "tag 2", "m1")
    assert not made.violations
    made.assigned(2, "leader", "tag 3", "m2")
    assert len(made.violations) == 1
