"""The throttle of replication while partitions move, as kafka-reassign-partitions sets it (KIP-73).

A throttle consists of a rate for each broker, and of topics' lists of throttled replicas. Both are dynamic configs, so
the cluster stores them, any node returns them, and they stay until they are removed. Rates are set first and removed
last: wherever a topic lists replicas because of a throttle, some broker has a rate. A cluster-wide default rate (the
broker without a name) is not a throttle of moves and stays.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from kraft.admin.cluster import describe_cluster
from kraft.admin.configs import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    TOPIC,
    Resource,
    alter_each,
    describe_configs,
    describe_many,
)
from kraft.admin.errors import UNKNOWN_TOPIC, Refused
from kraft.admin.members import want_state
from kraft.admin.moves import Outcome, alter_moves, list_moves
from kraft.admin.topics import list_topics
from kraft.admin.transport import AdminTransport
from kraft.common.broker_state import DECOMMISSION, DESIRED_STATE
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
REPLICAS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
ALL: Final = "*"
_FORBIDDEN: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
PAIRS_MAX: Final = 100
"""Limit of listed replicas of a topic. Beyond it all replicas of the topic are throttled: brokers read these lists at
every fetch."""


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """The brokers that may send a partition's records, and those that may receive them."""

    senders: Sequence[int]
    takers: Sequence[int]


@dataclass(frozen=True, slots=True)
class Throttle:
    """The current throttle, from brokers that answer."""

    rates: Mapping[int, int]
    """Bytes a second by broker: the lower of the limits for sending and receiving."""
    topics: tuple[str, ...]
    """Topics with lists of throttled replicas. Only looked up if there is a rate."""
    leaving: tuple[int, ...]
    """Brokers that are being decommissioned: further moves of their replicas may start."""

    @property
    def is_set(self) -> bool:
        return bool(self.rates)


async def visible_throttle(port: AdminTransport) -> Throttle | None:
    """The throttle of `describe_throttle`; None for a caller who may not describe configs."""
    try:
        return await describe_throttle(port)
    except Refused as problem:
        if problem.code not in _FORBIDDEN:
            raise
        return None


async def describe_throttle(port: AdminTransport) -> Throttle:
    """The throttle, from every live broker's own configs; brokers that do not answer are left out. Raises Refused."""

    async def ask(broker_id: int) -> tuple[int, list[int], bool]:
        resource = Resource(BROKER, str(broker_id))
        settings = await describe_configs(port, resource, (*RATES, DESIRED_STATE))
        own = {each.name: each.value for each in settings if each.source == "broker" and each.value is not None}
        return broker_id, [int(own[key]) for key in RATES if key in own], own.get(DESIRED_STATE) == DECOMMISSION

    told = await port.ask_brokers(ask, await port.broker_ids())
    rates = {broker_id: min(found) for broker_id, found, _ in told if found}
    return Throttle(
        rates,
        tuple(await _listing_topics(port) if rates else ()),
        tuple(broker_id for broker_id, _, is_leaving in told if is_leaving),
    )


async def _listing_topics(port: AdminTransport) -> dict[str, frozenset[str]]:
    """The topics with their own list of throttled replicas, and which of the lists hold all replicas."""
    resources = [Resource(TOPIC, topic.name) for topic in await list_topics(port)]
    own = {
        resource.name: {each.name: each.value or "" for each in settings if each.source == "topic"}
        for resource, settings in await describe_many(port, resources, REPLICAS)
    }
    return {
        name: frozenset(key for key, value in lists.items() if value.strip() == ALL)
        for name, lists in own.items()
        if lists
    }


async def set_throttle(
    port: AdminTransport, bytes_per_second: int, replicas: Mapping[TopicPartition, ThrottledReplicas]
) -> None:
    """Throttle these replicas, in addition to those that are throttled already, and set the rate of every registered
    broker. Raises Refused."""
    brokers = [each.node_id for each in (await describe_cluster(port)).brokers]
    rate: list[tuple[str, int, str | None]] = [(key, SET, str(bytes_per_second)) for key in RATES]
    await alter_each(port, {Resource(BROKER, str(broker_id)): rate for broker_id in brokers})
    listing = await _listing_topics(port)
    changes: dict[Resource, list[tuple[str, int, str | None]]] = {}
    for topic, pairs in throttled_pairs(replicas).items():
        wanted: list[tuple[str, int, str | None]] = [
            (key, SET if value == ALL else APPEND, value)
            for key, value in pairs.items()
            if key not in listing.get(topic, ())
        ]
        if wanted:
            changes[Resource(TOPIC, topic)] = wanted
    await alter_each(port, changes)


def throttled_pairs(replicas: Mapping[TopicPartition, ThrottledReplicas]) -> dict[str, dict[str, str]]:
    """The lists of each topic, by key: partition:broker pairs, or `*` if there are more than PAIRS_MAX."""
    pairs: dict[str, dict[str, list[str]]] = {}
    for (topic, index), each in sorted(replicas.items()):
        for key, brokers in ((LEADER_REPLICAS, each.senders), (FOLLOWER_REPLICAS, each.takers)):
            if brokers:
                listed = pairs.setdefault(topic, {}).setdefault(key, [])
                listed += [f"{index}:{broker_id}" for broker_id in brokers]
    return {
        topic: {key: ",".join(listed) if len(listed) <= PAIRS_MAX else ALL for key, listed in lists.items()}
        for topic, lists in pairs.items()
    }


async def throttle_departure(port: AdminTransport, broker_id: int, bytes_per_second: int) -> None:
    """Throttle the copies of a broker's decommissioning. The controller chooses the targets only when it starts a move,
    so every broker that it may choose counts as a receiver. Raises Refused; then no new throttle is left."""
    replicas = await _departing(port, [broker_id])
    async with _taken_back_if_refused(port, replicas):
        await set_throttle(port, bytes_per_second, replicas)


async def _departing(port: AdminTransport, leaving: Iterable[int]) -> dict[TopicPartition, ThrottledReplicas]:
    wanted = list(leaving)
    if not wanted:
        return {}
    brokers = [each.node_id for each in (await describe_cluster(port)).brokers]
    return {
        TopicPartition(topic.name, each.index): ThrottledReplicas(
            each.replicas, [other for other in brokers if other not in each.replicas and other not in wanted]
        )
        for topic in await list_topics(port)
        for each in topic.partitions
        if any(replica in wanted for replica in each.replicas)
    }


async def throttle_targets(
    port: AdminTransport, bytes_per_second: int, targets: Mapping[TopicPartition, Sequence[int]]
) -> list[str]:
    """Throttle moves that are about to start; `targets` are the wanted replicas. Partitions that do not exist are left
    out. Returns the topics that exist. Raises Refused."""
    topics = {topic.name: topic for topic in await list_topics(port)}
    found: dict[TopicPartition, ThrottledReplicas] = {}
    for place, wanted in targets.items():
        topic = topics.get(place.topic)
        if topic is not None and place.partition < len(topic.partitions):
            held = topic.partitions[place.partition].replicas
            found[place] = ThrottledReplicas(held, [replica for replica in wanted if replica not in held])
    await set_throttle(port, bytes_per_second, found)
    return list(dict.fromkeys(place.topic for place in found))


async def throttle_moves(port: AdminTransport, bytes_per_second: int) -> None:
    """Set or change the throttle of all moves, including those that decommissionings have yet to start. Raises Refused;
    then no new throttle is left."""
    replicas = await _departing(port, (await describe_throttle(port)).leaving)
    for move in await list_moves(port):
        staying = [replica for replica in move.replicas if replica not in move.adding]
        known = replicas.get(move.partition, ThrottledReplicas((), ()))
        replicas[move.partition] = ThrottledReplicas(
            list(dict.fromkeys((*known.senders, *staying))), list(dict.fromkeys((*known.takers, *move.adding)))
        )
    async with _taken_back_if_refused(port, replicas):
        await set_throttle(port, bytes_per_second, replicas)


async def remove_throttle(port: AdminTransport, topics: Iterable[str] = ()) -> None:
    """Remove the lists of all topics, then the rates of all brokers, also of those that are down. `topics` are some
    that got lists just now, which nodes may not show yet. Raises Refused."""
    try:
        await _remove_lists(port, topics)
    except Refused as problem:
        if problem.code not in UNKNOWN_TOPIC:  # Deleted meanwhile.
            raise
    await _remove_rates(port)


async def _remove_lists(port: AdminTransport, topics: Iterable[str]) -> None:
    lists = [(key, DELETE, None) for key in REPLICAS]
    listing = dict.fromkeys((*await _listing_topics(port), *topics))
    await alter_each(port, {Resource(TOPIC, topic): lists for topic in listing})


async def _remove_rates(port: AdminTransport) -> None:
    rates = [(key, DELETE, None) for key in RATES]
    brokers = (await describe_cluster(port)).brokers
    await alter_each(port, {Resource(BROKER, str(each.node_id)): rates for each in brokers})


@asynccontextmanager
async def _taken_back_if_refused(port: AdminTransport, places: Iterable[TopicPartition]) -> AsyncIterator[bool]:
    """Yields whether a throttle was set before. If not, and the code within raises Refused, the new throttle is removed
    as far as the caller may: it may be allowed to alter brokers but not topics, or not to start moves."""
    was_set = (await describe_throttle(port)).is_set
    try:
        yield was_set
    except Refused:
        if not was_set:
            with suppress(Refused):
                await _remove_lists(port, (place.topic for place in places))
            with suppress(Refused):
                await _remove_rates(port)
        raise


async def begin_moves(
    port: AdminTransport, targets: Mapping[TopicPartition, Sequence[int]], bytes_per_second: int | None
) -> list[Outcome]:
    """Start moves to the given replicas, with a throttle if a rate is given. If no move starts, no new throttle is
    left. Raises Refused if the whole request is rejected."""
    if bytes_per_second is None:
        return await alter_moves(port, targets)
    async with _taken_back_if_refused(port, targets) as was_set:
        topics = await throttle_targets(port, bytes_per_second, targets)
        outcomes = await alter_moves(port, targets)
    if not was_set and all(each.error for each in outcomes):
        await remove_throttle(port, topics)
    return outcomes


async def cancel_moves(
    port: AdminTransport, places: Sequence[TopicPartition] | None, *, keep_throttle: bool = False
) -> list[Outcome]:
    """Cancel moves, all of them without `places`: partitions get back their former replicas. After the last one the
    throttle is removed if the caller may alter it. Raises Refused if the whole request is rejected."""
    ended = [move.partition for move in await list_moves(port)] if places is None else places
    outcomes = await alter_moves(port, dict.fromkeys(ended)) if ended else []
    if not keep_throttle:
        await _remove_if_done(port)
    return outcomes


async def cancel_departure(port: AdminTransport, broker_id: int) -> list[Outcome]:
    """Cancel a broker's decommissioning, and the moves of its replicas that are in progress; replicas that have moved
    stay where they are. The desired state is removed first: otherwise the controller would start these moves again.
    Raises Refused."""
    await want_state(port, broker_id, None)
    ended = [move.partition for move in await list_moves(port) if broker_id in move.removing]
    outcomes = await alter_moves(port, dict.fromkeys(ended)) if ended else []
    await _remove_if_done(port, staying=broker_id)
    return outcomes


async def _remove_if_done(port: AdminTransport, staying: int | None = None) -> None:
    """Remove the throttle if one is set, the caller may remove it, and neither moves nor decommissionings are in
    progress. `staying` is a broker whose decommissioning was just cancelled: it is ignored, because its config may
    still be the old one. Raises Refused."""
    try:
        throttle = await describe_throttle(port)
        if throttle.is_set and not any(each != staying for each in throttle.leaving) and not await list_moves(port):
            await remove_throttle(port)
    except Refused as problem:
        if problem.code not in _FORBIDDEN:
            raise
