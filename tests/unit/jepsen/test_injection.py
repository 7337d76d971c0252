"""How faults show that they bit."""

from __future__ import annotations

from jepsen.nemesis.injection import grown


def test_a_counter_has_grown_once_it_is_above_what_it_was_when_the_fault_began() -> None:
    count = 5
    bit = grown(lambda: count)
    assert not bit()
    count = 6
    assert bit()
    assert not grown(lambda: count)()
