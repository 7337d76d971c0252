"""The last hour of a topic, a group, a broker or the whole cluster, summed from what every live node keeps."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from kraft_http.ports import HistoryPage

from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import ApiError, KraftError
from kraft.common.status_keys import HISTORY
from kraft.protocol.error_codes import ErrorCode
from kraft.server.facts.status_questions import ANSWER_SECONDS_MAX, ASKED_AT_ONCE, ask_status
from kraft.server.history.history import merged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraft.server.node import Node

CLUSTER: Final = "cluster"
BROKER: Final = "broker"
TOPIC: Final = "topic"
GROUP: Final = "group"
SUMMED: Final = ("records_in", "bytes_in", "bytes_out", "requests", "connections")
"""Series that are summed up over the cluster."""
_RESOURCES: Final = {TOPIC: ResourceType.TOPIC, GROUP: ResourceType.GROUP}


async def gather_history(node: Node, kind: str, name: str) -> HistoryPage:
    """Gather the history of `name`, which is empty for the cluster. Nodes that do not answer in time are left out, and
    named in the result. Raises ApiError for a topic or broker that does not exist."""
    own_id, image = node.config.node_id, node.shared.loader.image
    if kind == TOPIC and image.topics.by_name(name) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    if kind == BROKER and int(name) not in image.cluster.brokers:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {name}")
    live = [broker_id for broker_id, broker in image.cluster.brokers.items() if not broker.fenced]
    wanted = [int(name)] if kind == BROKER else live
    by_node: dict[int, Any] = {}
    room = trio.Semaphore(ASKED_AT_ONCE)
    async with trio.open_nursery() as asking_nursery:
        for node_id in wanted:
            if node_id == own_id:
                by_node[node_id] = own_history(node, kind, name)
            else:
                asking_nursery.start_soon(partial(_ask, node, node_id, kind, name, by_node, room))
    answers = [document for _, document in sorted(by_node.items()) if document is not None]
    found = merged(answers)
    series: Mapping[str, list[float]] = found["series"]
    if kind == CLUSTER:
        series = {key: series[key] for key in SUMMED if key in series}
    return HistoryPage(
        times_ms=tuple(found["times_ms"]),
        series={key: tuple(values) for key, values in series.items()},
        silent=tuple(node_id for node_id in wanted if by_node.get(node_id) is None),
    )


def own_history(node: Node, kind: str, name: str) -> dict[str, Any] | None:
    """This node's history; None if it keeps none, as without an HTTP admin."""
    if node.history is None:
        return None
    if kind == TOPIC:
        return node.history.of_topic(name)
    return node.history.of_group(name) if kind == GROUP else node.history.of_node()


async def _ask(node: Node, node_id: int, kind: str, name: str, by_node: dict[int, Any], room: trio.Semaphore) -> None:
    resource = (_RESOURCES.get(kind, ResourceType.BROKER), name if kind in _RESOURCES else str(node_id))
    try:
        async with room:
            with node.world.clock.move_on_after(ANSWER_SECONDS_MAX):
                by_node[node_id] = await ask_status(node.remote, node_id, *resource, HISTORY)
    except (KraftError, ConnectionError, TimeoutError, ValueError):
        return  # It is named among those that are silent.
