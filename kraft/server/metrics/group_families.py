"""Metrics of the groups that a node coordinates: their number by protocol and state, gathered for each scrape, and
counters of their events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import trio

from kraft.common.metrics import Family, LabelValues, MetricsRegistry
from kraft.coordinator.group.activity import CLASSIC, CONSUMER, SETTLE_BOUNDS, SHARE, STREAMS, GroupActivity
from kraft.coordinator.group.classic.classic_group import ClassicGroupState
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroupState
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.coordinator.group.share.share_group import EMPTY, STABLE
from kraft.coordinator.group.streams.streams_group import StreamsGroupState
from kraft.server.metrics.group_lag_families import Largest
from kraft.world.turns import Turn, sorted_in_turns

GROUPS_A_SLICE: Final = 500
DEAD: Final = "Dead"
"""Kafka's third state of a share group. No group is in it."""
MEMBERS_A_GROUP: Final = 10
"""This number of members of a consumer or streams group counts as one more group in a slice, because the state of the
group is derived from its members."""
MEMBERS_MAX: Final = 1000
"""The number of groups whose member counts are exported, unless the counts of all groups are requested."""
LEFT_OUT: Final = "Groups whose members are not counted in series of their own. /metrics?by=partition has all."
PREFIX: Final = "kafka_server_group_coordinator_metrics_"
CLASSIC_PREFIX: Final = "kafka_coordinator_group_groupmetadatamanager_numgroups"


def register_group_activity(registry: MetricsRegistry, activity: GroupActivity) -> None:
    registry.counters(
        f"{PREFIX}consumer_group_rebalance_count",
        "Times that the epoch of a consumer group (KIP-848) rose.",
        (),
        lambda: [((), activity.rebalances[CONSUMER])],
    )
    registry.counters(
        f"{PREFIX}share_group_rebalance_count",
        "Times that the epoch of a share group (KIP-932) rose.",
        (),
        lambda: [((), activity.rebalances[SHARE])],
    )
    registry.counters(
        f"{PREFIX}streams_group_rebalance_count",
        "Times that the epoch of a streams group (KIP-1071) rose.",
        (),
        lambda: [((), activity.rebalances[STREAMS])],
    )
    registry.counters(
        "kraft_classic_group_rebalance_count",
        "Rebalances of classic groups that began.",
        (),
        lambda: [((), activity.rebalances[CLASSIC])],
    )
    registry.counters(
        "kraft_group_members_fenced_total",
        "Members removed because a deadline passed, by kind of deadline.",
        ("protocol", "deadline"),
        lambda: sorted(activity.fenced.items()),
    )
    for protocol, histogram in activity.settle_seconds.items():
        registry.register_histogram(
            f"kraft_{protocol}_group_settle_seconds",
            "Time from a change of the group until every member has its target assignment.",
            histogram,
            SETTLE_BOUNDS,
        )


async def group_families(shards: Sequence[GroupShardState], shown: Collection[str] | None) -> list[Family]:
    """The number of groups by state, and the member counts of groups. Member counts are exported for at most
    MEMBERS_MAX groups: first those in `shown`, then the largest ones. If `shown` is None they are exported for all
    groups. The same limit applies to share groups separately. Yields after every slice."""
    classic = dict.fromkeys(ClassicGroupState, 0)
    consumer = dict.fromkeys(ConsumerGroupState, 0)
    share = dict.fromkeys((EMPTY, STABLE, DEAD), 0)
    streams = dict.fromkeys(StreamsGroupState, 0)
    seen = 0
    members: dict[str, int] = {}
    share_members: dict[str, int] = {}
    for shard in shards:
        for group in shard.groups.values():  # unordered: they are counted
            classic[group.state] += 1
            members[group.group_id] = len(group.members)
            if (seen := seen + 1) % GROUPS_A_SLICE == 0:
                await trio.lowlevel.checkpoint()
        for consumers in shard.consumer_groups.values():  # unordered: they are counted
            consumer[consumers.state] += 1
            members[consumers.group_id] = len(consumers.members)
            before, seen = seen, seen + 1 + len(consumers.members) // MEMBERS_A_GROUP
            if before // GROUPS_A_SLICE != seen // GROUPS_A_SLICE:
                await trio.lowlevel.checkpoint()
        for application in shard.streams_groups.values():  # unordered: they are counted
            streams[application.state] += 1
            members[application.group_id] = len(application.members)
            before, seen = seen, seen + 1 + len(application.members) // MEMBERS_A_GROUP
            if before // GROUPS_A_SLICE != seen // GROUPS_A_SLICE:
                await trio.lowlevel.checkpoint()
        for shares in shard.share_groups.values():  # unordered: they are counted
            share[shares.state] += 1
            share_members[shares.group_id] = len(shares.members)
            if (seen := seen + 1) % GROUPS_A_SLICE == 0:
                await trio.lowlevel.checkpoint()
    told = await _told(members, shown)
    told_shares = await _told(share_members, None if shown is None else ())
    protocols = [
        ((CLASSIC,), sum(classic.values())),
        ((CONSUMER,), sum(consumer.values())),
        ((SHARE,), sum(share.values())),
        ((STREAMS,), sum(streams.values())),
    ]
    streams_states = [((state.value.lower(),), count) for state, count in streams.items()]
    share_states = [((state.lower(),), count) for state, count in share.items()]
    states = [((state.value.lower(),), count) for state, count in consumer.items()]
    found = [
        _gauge(f"{PREFIX}group_count", "Groups that are coordinated here, by protocol.", ("protocol",), protocols),
        _gauge(f"{PREFIX}consumer_group_count", "Consumer groups (KIP-848) by state.", ("state",), states),
        _gauge(f"{PREFIX}share_group_count", "Share groups (KIP-932) by state.", ("state",), share_states),
        _gauge(f"{PREFIX}streams_group_count", "Streams groups (KIP-1071) by state.", ("state",), streams_states),
        _gauge("kraft_sharegroup_members", "Members of a share group.", ("sharegroup",), told_shares),
        _gauge("kraft_sharegroup_members_left_out", LEFT_OUT, (), [((), len(share_members) - len(told_shares))]),
        _gauge("kafka_consumergroup_members", "Members of a group.", ("consumergroup",), told),
        _gauge("kraft_consumergroup_members_left_out", LEFT_OUT, (), [((), len(members) - len(told))]),
        _gauge(CLASSIC_PREFIX, "Classic groups that are coordinated here.", (), [((), sum(classic.values()))]),
    ]
    for state, count in classic.items():
        name = CLASSIC_PREFIX + state.value.lower()
        found.append(_gauge(name, f"Classic groups in the state {state.value}.", (), [((), count)]))
    return found


async def _told(members: Mapping[str, int], shown: Collection[str] | None) -> list[tuple[LabelValues, float]]:
    """The member counts, sorted by group."""
    if shown is None or len(members) <= MEMBERS_MAX:
        return [((group_id,), members[group_id]) for group_id in await sorted_in_turns(members)]
    most: Largest[str] = Largest(MEMBERS_MAX)
    turn = Turn()
    for group_id, count in members.items():
        most.offer(group_id, count)
        if turn.is_over():
            await turn.next()
    first = [group_id for group_id in shown if group_id in members]
    chosen = list(dict.fromkeys([*first, *most.keys()]))[:MEMBERS_MAX]
    return [((group_id,), members[group_id]) for group_id in sorted(chosen)]


def _gauge(name: str, help_text: str, labels: tuple[str, ...], series: Iterable[tuple[LabelValues, float]]) -> Family:
    family = Family(name, "gauge", help_text, labels)
    family.read = list(series).__iter__
    return family
