"""How much lies in log directories."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import trio

from kraft.server.facts.log_dir_sizes import own_log_dir_sizes
from kraft.world.turns import TURN_PARTITIONS


def test_directory_sizes_are_summed_in_steps() -> None:
    logs = {number: SimpleNamespace(size=2) for number in range(4 * TURN_PARTITIONS)}
    full, other = SimpleNamespace(path="/a", logs=logs), SimpleNamespace(path="/b", logs={})
    moves = [SimpleNamespace(target=other, future=SimpleNamespace(size=7))]
    replicas = SimpleNamespace(
        logs=SimpleNamespace(directories=[full, other]),
        directories=SimpleNamespace(mover=SimpleNamespace(moves=lambda: moves)),
    )
    node: Any = SimpleNamespace(broker=SimpleNamespace(replicas=replicas))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async def main() -> dict[str, int] | None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            sizes = await own_log_dir_sizes(node)
            nursery.cancel_scope.cancel()
        return sizes

    assert trio.run(main) == {"/a": 8 * TURN_PARTITIONS, "/b": 7}
    assert turns >= 3


def test_a_node_without_the_broker_role_has_no_directory_sizes() -> None:
    node: Any = SimpleNamespace(broker=None)
    assert trio.run(own_log_dir_sizes, node) is None
