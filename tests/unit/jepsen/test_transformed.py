"""Records that were read and written to another topic by transactions are there once, up to where their group is."""

from __future__ import annotations

import pytest

from jepsen.checker.operations import OK, Committed, FinalRead, Operation, Phase
from jepsen.judges.transformed import untrue
from tests.unit.jepsen.histories import run

SOURCE, GROUP = "events", "transformers"


def history(written: list[str], position: int | None, *more: Operation) -> list[Operation]:
    """A source with the records a, b and c, what was written from it, and where the group is."""
    told = {"ended": 95.0, "outcome": OK, "partition": 0, "process": "final"}
    found: list[Operation] = [
        Phase(process="harness", name="healed", began=80.0),
        FinalRead(topic=SOURCE, began=90.0, end=3, records=[(0, "a", 0), (1, "b", 0), (2, "c", 0)], **told),  # type: ignore[arg-type]
        FinalRead(
            topic="outputs",
            began=91.0,
            end=9,
            records=[(index, value, 0) for index, value in enumerate(written)],
            transactional=True,
            **told,  # type: ignore[arg-type]
        ),
    ]
    if position is not None:
        found.append(Committed(topic=SOURCE, began=92.0, group=GROUP, offset=position, **told))  # type: ignore[arg-type]
    return [*found, *more]


@pytest.mark.parametrize(
    ("written", "position"), [(["t.0<a", "t.1<b"], 2), ([], -1), (["x.0", "t.0<a", "t.1<b", "t.2<c"], 3)]
)
def test_transformed_records_up_to_the_committed_position_are_correct(written: list[str], position: int) -> None:
    assert [*untrue(run(*history(written, position)), GROUP, SOURCE)] == []


@pytest.mark.parametrize(
    ("written", "position", "finding"),
    [
        (["t.0<a", "t.1<b", "u.0<a"], 2, "a was written 2 times, as t.0, u.0"),
        (["t.0<a"], 2, "b at events-0 offset 1 was not written, transformers is at 2"),
        (["t.0<a", "t.1<b"], 1, "b at events-0 offset 1 was written, transformers is at 1"),
        ([], None, "it is not told how far transformers is in events-0"),
    ],
)
def test_missing_and_duplicate_transformed_records_are_found(
    written: list[str], position: int | None, finding: str
) -> None:
    assert [*untrue(run(*history(written, position)), GROUP, SOURCE)] == [f"transformed: {finding}"]


def test_group_offsets_from_before_healing_are_ignored_at_the_end() -> None:
    early = Committed(
        process="final", topic=SOURCE, partition=0, began=10.0, ended=11.0, outcome=OK, group=GROUP, offset=0
    )
    assert [*untrue(run(*history(["t.0<a"], 1, early)), GROUP, SOURCE)] == []
