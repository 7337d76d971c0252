"""What makes a simulated run count, and which ends of nodes are findings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from jepsen.checker.operations import OK, Commit, FaultInjected, Phase, Send, Unexpected
from jepsen.simulation.cluster import ClusterRun
from jepsen.simulation.single_node import SingleNodeRun
from kraft.world.simulated import Universe

PLACE: dict[str, Any] = {"topic": "events", "partition": 0, "outcome": OK}


def test_a_cluster_run_without_an_acknowledged_commit_counts_for_nothing() -> None:
    run = ClusterRun(1)
    run.leader_changes = 2
    for at, phase in enumerate(("calm", "chaos", "healed", "drained")):
        run.recorder.add(Phase(process="harness", began=at, name=phase))
        run.recorder.add(
            Send(process="p", began=at, ended=at + 0.5, values=[f"{at}:{number}" for number in range(100)], **PLACE)
        )
    for kind in ("kill", "pause", "cut"):
        run.recorder.add(FaultInjected(process="1", began=1.0, kind=kind))
    assert run.invalid() == "no commit was acknowledged"
    run.recorder.add(Commit(process="c", began=1.0, ended=2.0, group="g", offset=1, **PLACE))
    assert run.invalid() == ""


@pytest.mark.parametrize("asked", [False, True])
def test_a_node_that_ends_without_being_asked_is_a_finding(monkeypatch: pytest.MonkeyPatch, asked: bool) -> None:
    async def ends(config: object, world: object, *, task_status: trio.TaskStatus[Any]) -> None:
        stopped = trio.Event()
        task_status.started(SimpleNamespace(begin_shutdown=stopped.set))
        if asked:
            await stopped.wait()

    monkeypatch.setattr("jepsen.simulation.run.run_node", ends)
    run = SingleNodeRun(1)

    async def main(universe: Universe) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.keep_alive, "1", run.config)
            await universe.sleep(0.2)
            assert run.stop_node("1") == asked
            await universe.sleep(0.2)
            nursery.cancel_scope.cancel()

    run.universe.run(main)
    assert [each.what for each in run.recorder.history.of(Unexpected)] == (
        [] if asked else ["the node ended, and nobody had asked it to"]
    )
