"""The total sizes of a broker's log directories, without a list of their replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import KraftError
from kraft.common.status_keys import LOG_DIRS
from kraft.server.facts.status_questions import ANSWER_SECONDS_MAX, ask_status
from kraft.world.turns import TURN_PARTITIONS, Turn

if TYPE_CHECKING:
    from kraft.server.node import Node


async def own_log_dir_sizes(node: Node) -> dict[str, int] | None:
    """The document of `kraft.status.log.dirs`: bytes by path, future replicas included; None on a node without a broker
    role. Yields to other tasks."""
    if node.broker is None:
        return None
    sizes: dict[str, int] = {}
    turn = Turn(TURN_PARTITIONS)
    for directory in node.broker.replicas.logs.directories:
        sizes[directory.path] = 0
        for log in list(directory.logs.values()):
            if turn.is_over():
                await turn.next()
            sizes[directory.path] += log.size
    for move in node.broker.replicas.directories.mover.moves():
        sizes[move.target.path] += move.future.size
    return sizes


async def gather_log_dir_sizes(node: Node, broker_id: int) -> dict[str, int] | None:
    """The sizes of a broker's log directories; None if it does not answer in time."""
    if broker_id == node.config.node_id:
        return await own_log_dir_sizes(node)
    sizes: dict[str, int] | None = None
    try:
        with node.world.clock.move_on_after(ANSWER_SECONDS_MAX):
            sizes = await ask_status(node.remote, broker_id, ResourceType.BROKER, str(broker_id), LOG_DIRS)
    except (KraftError, ConnectionError, TimeoutError, ValueError):
        return None
    return sizes
