"""The lags of all groups in one call, and moving a group's offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request, Response

from kraft.admin.errors import Refused
from kraft.admin.group_lags import GroupLag, group_lags, groups_of_topic, share_group_lags
from kraft.admin.groups import (
    Group,
    ListedGroup,
    commit_offsets,
    committed_offsets,
    describe_group,
    is_share_group,
    list_groups,
)
from kraft.admin.offsets import EARLIEST, LATEST, offsets_at_leaders
from kraft.admin.topics import describe_topic
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft_http.models.groups import (
    GroupLagData,
    GroupLagList,
    OffsetResetData,
    OffsetResetList,
    ResetOffsetsBody,
    ResetTopic,
    TopicGroupData,
    TopicGroupList,
)
from kraft_http.node_transport import NodeTransport
from kraft_http.ports import AdminPort
from kraft_http.requests.deps import (
    Cluster,
    ClusterContext,
    GroupIdPath,
    PageQuery,
    Port,
    Recent,
    TopicNamePath,
    Writable,
    cluster_context,
    unanswered,
)
from kraft_http.requests.errors import ApiProblem, documented, not_found
from kraft_http.requests.response_cache import ResponseCache
from kraft_http.routers.group_parts import GroupFilterQuery, new_offsets, state_name
from kraft_http.routers.groups import is_of_consumers

router = APIRouter(prefix="/v3/clusters/{cluster_id}/consumer-groups", tags=["Consumer groups"])

topic_router = APIRouter(tags=["Consumer groups"])

GroupOrder = Literal[
    "consumer_group_id",
    "-consumer_group_id",
    "state",
    "-state",
    "type",
    "-type",
    "members_count",
    "-members_count",
    "topics_count",
    "-topics_count",
    "total_lag",
    "-total_lag",
    "max_lag",
    "-max_lag",
]


def _number_key(number: Callable[[GroupLag], int]) -> Callable[[GroupLag], str]:
    return lambda lag: f"{number(lag):020d} {lag.group.group_id}"


_GROUP_KEYS: Final[dict[str, Callable[[GroupLag], str]]] = {
    "state": lambda lag: f"{lag.group.state} {lag.group.group_id}",
    "type": lambda lag: f"{lag.group.type} {lag.group.group_id}",
    "members_count": _number_key(lambda lag: len(lag.group.members)),
    "topics_count": _number_key(lambda lag: len(lag.topics)),
    "total_lag": _number_key(lambda lag: lag.total or 0),
    "max_lag": _number_key(lambda lag: lag.worst[1] if lag.worst else 0),
}
"""Page tokens compare numbers as text, so a number is formatted such that texts have the order of numbers. The group id
distinguishes equal numbers."""
PAGE_SIZE_DEFAULT = 100
GROUPS_A_STEP = 100
"""Groups requested at a time."""
LOOKED_AT_MAX = 2_000
TOPICS_SHOWN_MAX = 100
_HAS_MEMBERS = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH)
"""Coordinators' errors for a commit from outside to a group with members."""


@router.get("/-/lag-summary", summary="List groups with their total lag", responses=documented(404))
async def list_group_lags(
    cluster: Cluster,
    wanted: GroupFilterQuery,
    page: PageQuery,
    port: Port,
    recent: Recent,
    response: Response,
    topic: Annotated[
        str | None,
        Query(description="Only groups with a commit for this topic. A page can be short although more follow."),
    ] = None,
    sort: Annotated[
        GroupOrder, Query(description="Field to sort by. A leading minus reverses the order.")
    ] = "consumer_group_id",
    include_share_groups: Annotated[
        bool,
        Query(description="Include share groups, with the type SHARE and their id in the same field."),
    ] = False,
) -> GroupLagList:
    """List groups with their lag, always in pages (page_size 100 by default). The header X-Total-Count has the number
    of groups on all pages. Sorting by anything but the id is limited to 2,000 groups (narrow them with `q`): their lags
    are fetched and cached for two seconds. A group without a lag is sorted as one with lag 0."""
    page = page.or_of(PAGE_SIZE_DEFAULT)
    listed = [
        group
        for group in await list_groups(cluster.kafka, partial=True)
        if (is_of_consumers(group) or (include_share_groups and is_share_group(group))) and wanted.matches(group)
    ]
    order, descending = sort.removeprefix("-"), sort.startswith("-")
    total_lag: int | None = None
    known = {group.group_id: group for group in listed}
    if order == "consumer_group_id":
        listed.sort(key=lambda group: group.group_id, reverse=descending)
        shown, metadata = page.cut(listed, lambda group: group.group_id, cluster.url, descending=descending)
        lags = {each.group.group_id: each for each in await _lags(cluster, [each.group_id for each in shown], known)}
        found = [lags[each.group_id] for each in shown if each.group_id in lags]
        found = [lag for lag in found if topic is None or topic in lag.topics]
    else:
        every = await _every_lag(port, recent, cluster, known)
        every = [lag for lag in every if topic is None or topic in lag.topics]
        total_lag = sum(lag.total or 0 for lag in every)
        key = _GROUP_KEYS[order]
        every.sort(key=key, reverse=descending)
        found, metadata = page.cut(every, key, cluster.url, descending=descending)
    response.headers["X-Total-Count"] = str(len(listed) if total_lag is None else len(every))
    return GroupLagList(
        kind="KafkaConsumerGroupLagList",
        metadata=metadata,
        data=[_lag_data(lag) for lag in found],
        total_lag=total_lag,
        unanswered_brokers=unanswered(cluster.kafka),
    )


async def _lags(cluster: ClusterContext, ids: Sequence[str], known: Mapping[str, ListedGroup]) -> list[GroupLag]:
    """The lags of the groups `ids`. All of them must be in `known`. Raises Refused."""
    found: list[GroupLag] = []
    for ask, is_share in ((group_lags, False), (share_group_lags, True)):
        if wanted := {id_: known[id_].coordinator for id_ in ids if is_share_group(known[id_]) == is_share}:
            found += await ask(cluster.kafka, wanted)
    return found


async def _every_lag(
    port: AdminPort, recent: ResponseCache, cluster: ClusterContext, known: Mapping[str, ListedGroup]
) -> list[GroupLag]:
    """The lag of every group. Raises ApiProblem for too many groups."""
    if len(known) > LOOKED_AT_MAX:
        detail = f"{len(known)} groups are too many to compare; {LOOKED_AT_MAX} are allowed."
        raise ApiProblem(400, detail, hint="Narrow them by q.")
    ids = tuple(sorted(known))

    async def ask() -> tuple[list[GroupLag], dict[int, str]]:
        found: list[GroupLag] = []
        for first in range(0, len(ids), GROUPS_A_STEP):
            found += await _lags(cluster, ids[first : first + GROUPS_A_STEP], known)
        return found, dict(cluster.kafka.silent)

    found, silent = await recent.of(("lags", port.permissions(), ids), ask)
    cluster.kafka.silent |= silent
    return list(found)


def _lag_data(lag: GroupLag) -> GroupLagData:
    return GroupLagData(
        consumer_group_id=lag.group.group_id,
        state=state_name(lag.group.state),
        type=lag.group.type.upper(),
        members_count=len(lag.group.members),
        coordinator_id=lag.group.coordinator,
        topics=list(lag.topics[:TOPICS_SHOWN_MAX]),
        topics_count=len(lag.topics),
        total_lag=lag.total,
        max_lag=lag.worst[1] if lag.worst else None,
        max_lag_topic_name=lag.worst[0][0] if lag.worst else None,
        max_lag_partition_id=lag.worst[0][1] if lag.worst else None,
    )


@topic_router.get("/v1/topics/{topic_name}/groups", summary="List the groups of a topic", responses=documented(404))
async def list_topic_groups(request: Request, port: Port, recent: Recent, topic_name: TopicNamePath) -> TopicGroupList:
    """List the groups that have committed offsets for the topic, or whose members have partitions of it, with their lag
    there. Every coordinator is asked for such groups, a hundred at a time; the response is cached for two seconds."""
    cluster = await cluster_context(request, port, port.identity.cluster_id)
    topic = await describe_topic(cluster.kafka, topic_name)  # Raises where there is none, or none that may be seen.
    key = ("groups", port.permissions(), topic_name, topic.topic_id)
    return await recent.of(key, lambda: _topic_groups(port, cluster, topic_name))


async def _topic_groups(port: AdminPort, cluster: ClusterContext, topic_name: str) -> TopicGroupList:
    told = await port.topic_groups(topic_name)
    cluster.kafka.silent |= dict.fromkeys(told.silent, "it does not report which groups it coordinates")
    coordinators = dict(list(told.coordinators.items())[:LOOKED_AT_MAX])
    found = await groups_of_topic(cluster.kafka, topic_name, coordinators)
    return TopicGroupList(
        topic_name=topic_name,
        data=[
            TopicGroupData(
                consumer_group_id=each.group.group_id,
                state=state_name(each.group.state),
                type=each.group.type.upper(),
                members_count=len(each.group.members),
                coordinator_id=each.group.coordinator,
                assigned_partitions_count=each.assigned_partitions,
                committed_partitions_count=each.committed_partitions,
                lag=each.lag,
            )
            for each in found
        ],
        groups_count=len(told.coordinators) + told.left_out,
        looked_at_count=len(coordinators),
        unanswered_brokers=unanswered(cluster.kafka),
    )


@router.post(
    "/{consumer_group_id}/offsets:reset",
    summary="Move a group's offsets, or show what would move",
    dependencies=[Writable],
    responses=documented(400, 403, 404, 409),
)
async def reset_offsets(cluster: Cluster, group_id: GroupIdPath, body: ResetOffsetsBody) -> OffsetResetList:
    """Set a group's offsets. They are limited to each partition's first and next offset. With `validate_only`, the
    default, nothing is written. For a group with members the status is 409. Without `topics` the repartition topics of
    a streams group are left out."""
    group = await _group(cluster.kafka, group_id, may_be_new=body.topics is not None)
    members = () if group is None else group.members
    if members and not body.validate_only:
        names = ", ".join(member.member_id for member in members[:10])
        raise ApiProblem(
            409,
            f"Group {group_id} has {len(members)} members, which commit offsets of their own: {names}.",
            hint="Stop the group's consumers first.",
        )
    committed = await committed_offsets(cluster.kafka, group_id)
    kept = () if group is None or body.topics is not None else group.internal_topics
    commits = {partition: at.offset for partition, at in committed.items() if partition.topic not in kept}
    moves = await plan_reset(cluster.kafka, body, commits)
    if not moves:
        raise not_found(f"A commit of group {group_id} that could be moved")
    if not body.validate_only:
        await _commit(cluster.kafka, group_id, new_offsets(moves))
    return OffsetResetList(consumer_group_id=group_id, validate_only=body.validate_only, data=moves)


async def plan_reset(
    kafka: NodeTransport, body: ResetOffsetsBody, present: Mapping[TopicPartition, int | None]
) -> list[OffsetResetData]:
    """The change of each partition, in order, given the group's present offsets. Raises Refused for a topic or
    partition that does not exist."""
    leaders = await _wanted(kafka, body.topics, present)
    starts = await offsets_at_leaders(kafka, leaders, EARLIEST)
    ends = await offsets_at_leaders(kafka, leaders, LATEST)
    at_time = (
        await offsets_at_leaders(kafka, leaders, body.value)
        if body.to == "timestamp" and body.value is not None
        else {}
    )
    return [
        OffsetResetData(
            topic_name=place[0],
            partition_id=place[1],
            current_offset=present.get(place),
            new_offset=new_offset(body, present.get(place), starts[place], ends[place], at_time.get(place, -1)),
            log_start_offset=starts[place],
            log_end_offset=ends[place],
        )
        for place in sorted(leaders)
    ]


def new_offset(body: ResetOffsetsBody, current: int | None, start: int, end: int, at_time: int) -> int:
    """The group's new offset in one partition, from `start` to `end`. `at_time` is the offset at the requested
    timestamp, -1 if all records are older. A shift without a committed offset counts from `start`."""
    if body.to == "earliest":
        return start
    if body.to == "latest":
        return end
    if body.to == "timestamp":
        return at_time if at_time >= 0 else end
    assert body.value is not None
    wanted = body.value if body.to == "offset" else (start if current is None else current) + body.value
    return max(start, min(end, wanted))


async def _group(kafka: NodeTransport, group_id: str, *, may_be_new: bool) -> Group | None:
    """The group; None if it does not exist and `may_be_new`. Raises Refused."""
    try:
        return await describe_group(kafka, group_id)
    except Refused as problem:
        if problem.code != ErrorCode.GROUP_ID_NOT_FOUND or not may_be_new:
            raise
        return None


async def _commit(kafka: NodeTransport, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit the offsets. Raises Refused, NON_EMPTY_GROUP if a member has joined meanwhile."""
    try:
        await commit_offsets(kafka, group_id, offsets)
    except Refused as problem:
        if problem.code in _HAS_MEMBERS:
            raise Refused(ErrorCode.NON_EMPTY_GROUP, f"group {group_id}") from problem
        raise


async def _wanted(
    kafka: NodeTransport, topics: Sequence[ResetTopic] | None, present: Mapping[TopicPartition, int | None]
) -> dict[TopicPartition, int]:
    """The partitions to reset, with their leaders. Raises Refused for a topic or partition that does not exist."""
    leaders: dict[TopicPartition, int] = {}
    if topics is None:
        for name in sorted({topic for topic, _ in present}):
            try:
                of_topic = (await describe_topic(kafka, name)).leaders()
            except Refused as problem:
                if problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                continue  # The topic was deleted: no consumer can continue there.
            leaders.update({place: leader for place, leader in of_topic.items() if place in present})
        return leaders
    for wanted in topics:
        described = await describe_topic(kafka, wanted.topic_name)
        of_topic = described.leaders()
        for index in wanted.partitions or [partition for _, partition in of_topic]:
            place = TopicPartition(wanted.topic_name, described.partition(index).index)
            leaders[place] = of_topic[place]
    return leaders
