"""Sizes and traffic of topics, for lists: summed over the partitions that each broker leads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from kraft_http.ports import ListedTopic, TierFacts, TopicFacts, TopicFactsPage

from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import KraftError
from kraft.common.internal_topics import INTERNAL_TOPICS
from kraft.common.status_keys import TOPIC_FACTS
from kraft.server.facts.status_questions import ANSWER_SECONDS_MAX, ASKED_AT_ONCE, ask_statuses
from kraft.server.history.history import NO_LAG, TOPIC_SERIES
from kraft.world.turns import TURN_PARTITIONS, Turn

if TYPE_CHECKING:
    from kraft.metadata.image.topics_image import TopicsImage
    from kraft.replication.partition import Partition
    from kraft.replication.tiers.partition_tier import PartitionTier
    from kraft.server.node import Node

SUMS: Final = ("records", "leader_bytes", "replica_bytes", *TOPIC_SERIES, *NO_LAG._fields)
"""Fields of the brokers' documents that are summed up. Documents of earlier releases lack some."""


async def list_topics(topics: TopicsImage, may_see: Callable[[str], bool] | None) -> list[ListedTopic]:
    """The topics for which `may_see` is true (None: all), sorted by name. Of each topic only the first partition is
    read."""
    listed = []
    turn = Turn()
    for topic in topics.topics_by_name():
        if turn.is_over():
            await turn.next()
        if may_see is None or may_see(topic.name):
            first = topic.partitions.get(0)
            listed.append(
                ListedTopic(
                    name=topic.name,
                    topic_id=topic.id,
                    is_internal=topic.name in INTERNAL_TOPICS,
                    partitions_count=len(topic.partitions),
                    replication_factor=0 if first is None else len(first.replicas),
                )
            )
    return listed


def own_topic_facts(node: Node, topic: str) -> dict[str, Any]:
    """The document of `kraft.status.topic`:

    - offsets in use and bytes of the partitions that this broker leads, and bytes of all that it hosts;
    - the traffic per second of the last ten seconds;
    - of the groups coordinated here, how many have committed offsets for the topic, and their total lag (0 if no
      history is kept);
    - `tiers`: the tiered partitions that this broker leads, with the fields of `kraft_http.ports.TierFacts`.
    """
    records = leader_bytes = replica_bytes = 0
    tiers: list[dict[str, Any]] = []
    found = node.shared.loader.image.topics.by_name(topic)
    if node.broker is not None and found is not None:
        for index in found.partitions:
            partition = node.broker.replicas.find(topic, index)
            if partition is None:
                continue
            replica_bytes += partition.log.size
            if partition.is_leader:
                records += partition.log.log_end_offset - partition.log.log_start_offset
                leader_bytes += partition.log.size
                if partition.tier is not None:
                    tiers.append(_tier(partition, partition.tier))
    rates = dict.fromkeys(TOPIC_SERIES, 0.0) if node.history is None else node.history.latest_of_topic(topic)
    behind = NO_LAG if node.history is None else node.history.topic_lags.get(topic, NO_LAG)
    sums = {"records": records, "leader_bytes": leader_bytes, "replica_bytes": replica_bytes}
    return {**sums, **rates, **behind._asdict(), "tiers": tiers}


def _tier(partition: Partition, tier: PartitionTier) -> dict[str, Any]:
    return {
        "partition": partition.index,
        "local_bytes": partition.log.size,
        "remote_bytes": tier.remote_bytes,
        "copy_lag_bytes": tier.copy_lag_bytes,
        "copy_lag_segments": tier.copy_lag_segments,
        "last_error": tier.last_error or None,
    }


async def gather_topic_facts(node: Node, topics: Sequence[str]) -> TopicFactsPage:
    """Gather the facts of those of `topics` that exist. Brokers that do not answer in time are named in the result."""
    image = node.shared.loader.image
    names = [name for name in topics if image.topics.by_name(name) is not None]
    live = [broker_id for broker_id, broker in image.cluster.brokers.items() if not broker.fenced]
    by_broker: dict[int, dict[str, Any]] = {}
    room = trio.Semaphore(ASKED_AT_ONCE)
    async with trio.open_nursery() as asking_nursery:
        for broker_id in live if names else ():
            if broker_id == node.config.node_id:
                by_broker[broker_id] = await _own(node, names)
            else:
                asking_nursery.start_soon(partial(_ask, node, broker_id, names, by_broker, room))
    facts = []
    for name in names:
        documents = [document for _, answer in sorted(by_broker.items()) if (document := answer.get(name)) is not None]
        sums = {key: sum(document.get(key, 0) for document in documents) for key in SUMS}
        tiers = [_known_facts(tier) for document in documents for tier in document.get("tiers", ())]
        facts.append(TopicFacts(name=name, **sums, tiers=tuple(sorted(tiers, key=lambda tier: tier.partition))))
    silent = tuple(broker_id for broker_id in live if names and broker_id not in by_broker)
    return TopicFactsPage(topics=tuple(facts), silent=silent)


def _known_facts(tier: dict[str, Any]) -> TierFacts:
    """The facts of a tiered partition, without fields that a broker of a later release adds."""
    return TierFacts(**{field.name: tier[field.name] for field in fields(TierFacts)})


async def _own(node: Node, names: Sequence[str]) -> dict[str, Any]:
    """This node's document for each topic."""
    documents: dict[str, Any] = {}
    turn = Turn(TURN_PARTITIONS)
    for name in names:
        topic = node.shared.loader.image.topics.by_name(name)
        if turn.is_over(1 if topic is None else len(topic.partitions)):
            await turn.next()
        documents[name] = own_topic_facts(node, name)
    return documents


async def _ask(
    node: Node, broker_id: int, names: Sequence[str], by_broker: dict[int, dict[str, Any]], room: trio.Semaphore
) -> None:
    try:
        async with room:
            with node.world.clock.move_on_after(ANSWER_SECONDS_MAX):
                by_broker[broker_id] = await ask_statuses(
                    node.remote, broker_id, ResourceType.TOPIC, names, TOPIC_FACTS
                )
    except (KraftError, ConnectionError, TimeoutError, ValueError):
        return  # It is named among those that are silent.
