"""The groups that use a topic, from their coordinators."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from kraft_http.ports import TopicGroups

from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import KraftError
from kraft.common.status_keys import TOPIC_GROUPS
from kraft.server.facts.status_questions import ANSWER_SECONDS_MAX, ASKED_AT_ONCE, ask_status
from kraft.world.turns import Turn, sorted_in_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraft.coordinator.group.shard_state import GroupShardState
    from kraft.server.node import Node

GROUPS_MAX: Final = 2_000
"""Limit of group ids that a coordinator lists: the first in sort order. The count is complete."""


async def own_topic_groups(node: Node, topic: str) -> dict[str, Any] | None:
    """The document of `kraft.status.topic.groups`; None from a node without a broker role."""
    if node.broker is None:
        return None
    found = await groups_of_topic(node.broker.groups.snapshots(), topic)
    return {"groups": found[:GROUPS_MAX], "left_out": max(0, len(found) - GROUPS_MAX)}


async def groups_of_topic(shards: Sequence[GroupShardState], topic: str) -> list[str]:
    """The ids of the shards' groups that have committed offsets for the topic, or whose members may be consuming it,
    sorted. Yields to other tasks."""
    found: dict[str, None] = {}
    turn = Turn()
    for state in shards:
        for group_id, offsets in state.offsets.items():
            for place in offsets:
                if turn.is_over():
                    await turn.next()
                if place.topic == topic:
                    found[group_id] = None
                    break
        for groups in (state.groups, state.consumer_groups, state.streams_groups):
            for group_id, group in groups.items():
                if turn.is_over():
                    await turn.next()
                if group.members and group.is_subscribed_to(topic):
                    found[group_id] = None
    return await sorted_in_turns(found)


async def gather_topic_groups(node: Node, topic: str, may_see: Callable[[str], bool] | None) -> TopicGroups:
    """The groups of the topic for which `may_see` is true (None: all), from every live broker. Brokers that do not
    answer in time are named."""
    brokers = node.shared.loader.image.cluster.brokers
    live = [broker_id for broker_id, broker in brokers.items() if not broker.fenced]
    by_broker: dict[int, dict[str, Any] | None] = {}
    room = trio.Semaphore(ASKED_AT_ONCE)
    async with trio.open_nursery() as asking_nursery:
        for broker_id in live:
            if broker_id == node.config.node_id:
                by_broker[broker_id] = await own_topic_groups(node, topic)
            else:
                asking_nursery.start_soon(partial(_ask, node, broker_id, topic, by_broker, room))
    coordinators: dict[str, int] = {}
    left_out = 0
    for broker_id in sorted(by_broker):
        document = by_broker[broker_id]
        if document is not None:
            left_out += document["left_out"]
            coordinators |= {
                group_id: broker_id for group_id in document["groups"] if may_see is None or may_see(group_id)
            }
    return TopicGroups(
        coordinators=dict(sorted(coordinators.items())),
        left_out=left_out,
        silent=tuple(broker_id for broker_id in live if by_broker.get(broker_id) is None),
    )


async def _ask(
    node: Node, broker_id: int, topic: str, by_broker: dict[int, dict[str, Any] | None], room: trio.Semaphore
) -> None:
    try:
        async with room:
            with node.world.clock.move_on_after(ANSWER_SECONDS_MAX):
                by_broker[broker_id] = await ask_status(node.remote, broker_id, ResourceType.TOPIC, topic, TOPIC_GROUPS)
    except (KraftError, ConnectionError, TimeoutError, ValueError):
        return  # It is named among those that are silent.
