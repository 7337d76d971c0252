"""How fast replicas are copied while partitions move, as kafka-reassign-partitions has it (KIP-73).

A throttle is a rate of each broker, and the replicas of topics that are held to it. Both are dynamic keys, so the
cluster remembers them, any node tells them, and nobody takes them away but who is asked to. Rates are set first and
removed last: wherever a topic lists replicas because of a throttle, a rate tells of it. A rate that is set for all
brokers at once (the broker without a name) is no throttle of moves and stays.
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
"""Replicas listed one by one in a topic. Beyond, all of the topic are held to the rate: brokers go through these lists
at every fetch."""


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """Brokers that may send a partition, and those that may take it."""

    senders: Sequence[int]
    takers: Sequence[int]


@dataclass(frozen=True, slots=True)
class Throttle:
    """What is set now, of brokers that answer."""

    rates: Mapping[int, int]
    """Bytes a second, the lower of what a broker may send and take, in order of broker."""
    topics: tuple[str, ...]
    """Those that list throttled replicas of their own; looked for only where there is a rate."""
    leaving: tuple[int, ...]
    """Brokers that are being decommissioned: more of their replicas may begin to move."""

    @property
    def is_set(self) -> bool:
        return bool(self.rates)


async def visible_throttle(port: AdminTransport) -> Throttle | None:
    """The throttle as `describe_throttle` gives it; None for a caller who may not see configurations."""
    try:
        return await describe_throttle(port)
    except Refused as problem:
        if problem.code not in _FORBIDDEN:
            raise
        return None


async def describe_throttle(port: AdminTransport) -> Throttle:
    """Asks every live broker for its own keys; those that do not answer are left out. Raises Refused."""

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
    """Topics with a list of throttled replicas of their own, and which of the lists hold all replicas."""
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
    """Hold the replicas to a rate, beside those that are held already, and set the rate of every broker that is
    registered. Raises Refused."""
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
    """The lists of each topic, by key: partition:broker pairs, or `*` where there are more than PAIRS_MAX."""
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
    """Hold what a decommissioning of the broker copies to a rate. The controller decides where to when it begins a
    move, so every broker that may be chosen is a taker. Raises Refused; no throttle is left then that was not there
    before."""
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
    """Hold moves that are about to begin to a rate; `targets` are the replicas wanted. What there is not is left out.
    Returns the topics that there are. Raises Refused."""
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
    """Hold everything that moves, and what decommissionings have yet to move, to a rate: another one than before, or
    the first. Raises Refused; no throttle is left then that was not there before."""
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
    """Take the lists away from all topics, then the rates from all brokers, those that are down too. `topics` are some
    that have lists since a moment, which nodes may not tell yet. Raises Refused."""
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
    """Whether a throttle was set before. If not, none is left where what is done within is refused, as far as the
    caller may take it away: it may be allowed to alter brokers and not topics, or neither to begin moves."""
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
    """Begin moves to the replicas given, held to a rate if there is one. Where none begins, no throttle is left that
    was not there before. Raises Refused for the request as a whole."""
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
    """End moves, all of them without `places`: partitions have the replicas that they had. With the last one goes the
    throttle, if the caller may alter it. Raises Refused for the request as a whole."""
    ended = [move.partition for move in await list_moves(port)] if places is None else places
    outcomes = await alter_moves(port, dict.fromkeys(ended)) if ended else []
    if not keep_throttle:
        await _remove_if_done(port)
    return outcomes


async def cancel_departure(port: AdminTransport, broker_id: int) -> list[Outcome]:
    """Keep a broker that is being decommissioned, with the replicas that are on their way from it; what has moved
    stays where it is. The wish goes first: the controller would begin these moves again. Raises Refused."""
    await want_state(port, broker_id, None)
    ended = [move.partition for move in await list_moves(port) if broker_id in move.removing]
    outcomes = await alter_moves(port, dict.fromkeys(ended)) if ended else []
    await _remove_if_done(port, staying=broker_id)
    return outcomes


async def _remove_if_done(port: AdminTransport, staying: int | None = None) -> None:
    """Remove the throttle if one is set, the caller may, nothing moves, and no broker is leaving; `staying` is one that
    may not know yet that it stays. Raises Refused."""
    try:
        throttle = await describe_throttle(port)
        if throttle.is_set and not any(each != staying for each in throttle.leaving) and not await list_moves(port):
            await remove_throttle(port)
    except Refused as problem:
        if problem.code not in _FORBIDDEN:
            raise
