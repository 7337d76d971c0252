"""What the Spark harness makes of rounds that prove nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraft.testing.node_process import NodeFailed

harness = pytest.importorskip("jepsen.spark.__main__")


class Node:
    """A process that runs or does not."""

    def __init__(self, runs: bool) -> None:
        self.process = SimpleNamespace(poll=lambda: None if runs else 9)
        self.starts = 0

    def start(self) -> None:
        self.starts += 1


@pytest.mark.parametrize("problem", [AssertionError("nothing bit"), TimeoutError("stuck"), NodeFailed("it did not serve")])
def test_a_round_that_proves_nothing_is_invalid_and_the_next_one_runs(problem: Exception) -> None:
    nodes = {1: Node(runs=True), 2: Node(runs=False)}
    told = harness.Told(SimpleNamespace(nodes=nodes))

    def broken() -> Any:
        raise problem

    told.of("round 1", broken, [])
    told.of("round 2", lambda: [harness.Verdict("kraft", checked=3)], ["a fault"])
    assert (told.invalid, told.done, [each.checked for each in told.verdicts]) == (1, 1, [3])
    assert (nodes[1].starts, nodes[2].starts) == (0, 2), "what is down is started before a round"
