"""What makes a simulated run count, and which ends of nodes are findings."""

from __future__ import annotations

import errno
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from jepsen.checker.operations import OK, Commit, FaultInjected, Phase, Send, Unexpected
from jepsen.simulation.cluster import ClusterRun
from jepsen.simulation.single_node import SingleNodeRun
from kraft.common.errors import StorageError
from kraft.world.simulated import Fault, Universe

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
def test_a_node_that_ends_unasked_is_a_finding(monkeypatch: pytest.MonkeyPatch, asked: bool) -> None:
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


@pytest.mark.parametrize(
    ("fault", "error", "explained"),
    [
        ("sync", OSError(errno.EIO, "broken"), True),
        ("sync", StorageError("broken"), True),
        ("sync", OSError(errno.ENOSPC, "full"), False),
        ("open", OSError(errno.EIO, "broken"), False),
        ("sync", ValueError("no disk's"), False),
    ],
)
def test_a_node_may_end_only_by_an_error_of_its_disk_in_this_life(
    fault: str, error: Exception, explained: bool
) -> None:
    """The disk is aimed at; whether the process meets that is another matter."""
    run = SingleNodeRun(1)
    disk = run.universe.disk("1")
    disk.faults.append(Fault(fault, error=errno.EIO))
    run.universe.world_for("1")
    with suppress(OSError):
        disk.check_faults("sync", "/data/x.log")
    run._ended_by_itself("1", error)
    assert [each.process for each in run.recorder.history.of(Unexpected)] == ([] if explained else ["1"])
    disk.restart()
    run.universe.world_for("1")
    run._ended_by_itself("1", error)
    assert run.recorder.history.of(Unexpected), "the next process has met nothing"
