"""What verbs ask, answered by a scripted cluster in simulated time instead of a real one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
import typer

from kraft.cli.admin.running import complain
from kraft.common.errors import KraftError
from kraft.rpc_client.cluster import Cluster
from kraft.world.simulated import Universe
from tests.unit.rpc_client.scripted_cluster import Answer, ScriptedCluster

Events = Callable[[ScriptedCluster], Awaitable[None]]


def asker(leaders: dict[str, list[int]], answer: Answer, meanwhile: Events | None = None) -> Callable[..., Any]:
    """In place of `running.ask`. `meanwhile` runs beside the question."""

    def ask(_bootstrap: str, _timeout: float, question: Callable[[Cluster], Awaitable[Any]]) -> Any:
        outcome: list[Any] = []

        async def main(universe: Universe) -> None:
            cluster = ScriptedCluster(universe, leaders, answer)
            async with trio.open_nursery() as nursery:
                if meanwhile is not None:
                    nursery.start_soon(meanwhile, cluster)
                try:
                    outcome.append((await question(cluster), None))
                except* KraftError as problems:
                    outcome.append((None, problems.exceptions[0]))
                nursery.cancel_scope.cancel()

        Universe(1).run(main)
        [(answered, problem)] = outcome
        while isinstance(problem, ExceptionGroup):
            problem = problem.exceptions[0]
        if problem is not None:
            raise typer.Exit(complain(problem)) from problem
        return answered

    return ask
