"""The hash of a simulation's trace: equal for equal calls and for no others, whoever watches."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

from kraft.world.simulated.trace import CALLS_PER_UPDATE, Trace


class Code(IntEnum):
    """A number with a name, which is no plain number to marshal."""

    NONE = 0


Call = tuple[float, object, str, tuple[object, ...]]
CALLS: tuple[Call, ...] = tuple(
    (number / 7, str(number % 3), "send", (f"1>{number}", number, number % 2 == 0, None))
    for number in range(2 * CALLS_PER_UPDATE + 3)
)


def digest(calls: tuple[Call, ...], path: str | None = None) -> str:
    with Trace(path) as trace:
        for call in calls:
            trace.record(*call)
        assert trace.calls == len(calls)
        return trace.hexdigest()


def test_equal_calls_have_equal_hashes_with_and_without_the_text(tmp_path: Path) -> None:
    built_elsewhere = tuple(
        (time, "".join(list(str(node))), "".join(["se", "nd"]), (str(facts[0]) + "", *facts[1:]))
        for time, node, _, facts in CALLS
    )
    path = tmp_path / "trace"
    assert digest(CALLS) == digest(built_elsewhere) == digest(CALLS, str(path))
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(CALLS)
    assert lines[1] == "0.142857143 1 send ('1>1', 1, False, None)"


def test_each_part_of_each_call_counts() -> None:
    time, node, operation, facts = CALLS[-1]
    others: list[Call] = [
        (time + 1e-12, node, operation, facts),
        (time, "other", operation, facts),
        (time, node, "receive", facts),
        (time, node, operation, (*facts, 0)),
        (time, node, operation, facts[:-1]),
    ]
    assert len({digest(CALLS), *(digest((*CALLS[:-1], other)) for other in others)}) == 1 + len(others)
    assert digest(CALLS[1::-1]) != digest(CALLS[:2])


def test_a_fact_of_a_type_of_its_own_counts_too() -> None:
    assert digest(((0.0, "1", "answer", (Code.NONE,)),)) != digest(((0.0, "1", "answer", (1,)),))
