"""The lags of all groups in one call, and moving a group's offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request

from kraft.admin.errors import Refused
from kraft.admin.group_lags import GroupLag, group_lags, groups_of_topic
from kraft.admin.groups import Member, commit_offsets, committed_offsets, describe_group
from kraft.admin.offsets import EARLIEST, LATEST, offsets_at_leaders
from kraft.admin.topics import describe_topic
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft_http.asking import Kafka
from kraft_http.deps import (
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
from kraft_http.errors import ApiProblem, documented, not_found
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
from kraft_http.ports import AdminPort
from kraft_http.routers.groups import STATES, list_consumers_groups

router = APIRouter(prefix="/v3/clusters/{cluster_id}/consumer-groups", tags=["Consumer groups"])

topic_router = APIRouter(tags=["Consumer groups"])

PAGE_SIZE_DEFAULT = 100
LOOKED_AT_MAX = 2_000
TOPICS_SHOWN_MAX = 100
_HAS_MEMBERS = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH)
"""What a coordinator answers to a commit from outside for a group that has members."""


@router.get("/-/lag-summary", summary="List groups with their total lag", responses=documented(404))
async def list_group_lags(
    cluster: Cluster,
    page: PageQuery,
    q: Annotated[str | None, Query(description="Only groups whose id contains this.")] = None,
    state: Annotated[str | None, Query(description="Only groups in this state.", examples=["STABLE"])] = None,
    topic: Annotated[
        str | None,
        Query(description="Only groups with a commit for this topic. A page may then be short and have a next one."),
    ] = None,
) -> GroupLagList:
    """Always in pages: of 100 groups unless page_size says otherwise."""
    page = page.or_of(PAGE_SIZE_DEFAULT)
    listed = [
        group
        for group in await list_consumers_groups(cluster.kafka)
        if (q is None or q in group.group_id) and (state is None or state.upper() == STATES.get(group.state, "UNKNOWN"))
    ]
    shown, metadata = page.cut(listed, lambda group: group.group_id, cluster.url)
    coordinators = {group.group_id: group.coordinator for group in shown}
    data = [
        _lag_data(lag) for lag in await group_lags(cluster.kafka, coordinators) if topic is None or topic in lag.topics
    ]
    return GroupLagList(
        kind="KafkaConsumerGroupLagList", metadata=metadata, data=data, unanswered_brokers=unanswered(cluster.kafka)
    )


def _lag_data(lag: GroupLag) -> GroupLagData:
    return GroupLagData(
        consumer_group_id=lag.group.group_id,
        state=STATES.get(lag.group.state, "UNKNOWN"),
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
    """Groups that have committed offsets for it, or whose members have partitions of it, with their lag there. Every
    coordinator is asked which of its groups these may be, and about those, a hundred at a time; the answer is kept for
    two seconds."""
    cluster = await cluster_context(request, port, port.identity.cluster_id)
    topic = await describe_topic(cluster.kafka, topic_name)  # Raises where there is none, or none that may be seen.
    key = ("groups", port.permissions(), topic_name, topic.topic_id)
    return await recent.of(key, lambda: _topic_groups(port, cluster, topic_name))


async def _topic_groups(port: AdminPort, cluster: ClusterContext, topic_name: str) -> TopicGroupList:
    told = await port.topic_groups(topic_name)
    cluster.kafka.silent |= dict.fromkeys(told.silent, "it does not tell which groups it coordinates")
    coordinators = dict(list(told.coordinators.items())[:LOOKED_AT_MAX])
    found = await groups_of_topic(cluster.kafka, topic_name, coordinators)
    return TopicGroupList(
        topic_name=topic_name,
        data=[
            TopicGroupData(
                consumer_group_id=each.group.group_id,
                state=STATES.get(each.group.state, "UNKNOWN"),
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
    """New offsets are kept within each partition's first and next offset. With `validate_only`, the default, nothing
    is written. A group with members is refused with 409."""
    members = await _members(cluster.kafka, group_id, may_be_new=body.topics is not None)
    if members and not body.validate_only:
        names = ", ".join(member.member_id for member in members[:10])
        raise ApiProblem(
            409,
            f"Group {group_id} has {len(members)} members, which commit offsets of their own: {names}.",
            hint="Stop the group's consumers first.",
        )
    committed = await committed_offsets(cluster.kafka, group_id)
    commits = {partition: at.offset for partition, at in committed.items()}
    leaders = await _wanted(cluster.kafka, body.topics, commits)
    if not leaders:
        raise not_found(f"A commit of group {group_id} that could be moved")
    starts = await offsets_at_leaders(cluster.kafka, leaders, EARLIEST)
    ends = await offsets_at_leaders(cluster.kafka, leaders, LATEST)
    at_time = (
        await offsets_at_leaders(cluster.kafka, leaders, body.value)
        if body.to == "timestamp" and body.value is not None
        else {}
    )
    moves = [
        OffsetResetData(
            topic_name=place[0],
            partition_id=place[1],
            current_offset=commits.get(place),
            new_offset=new_offset(body, commits.get(place), starts[place], ends[place], at_time.get(place, -1)),
            log_start_offset=starts[place],
            log_end_offset=ends[place],
        )
        for place in sorted(leaders)
    ]
    if not body.validate_only:
        offsets = {TopicPartition(move.topic_name, move.partition_id): move.new_offset for move in moves}
        await _commit(cluster.kafka, group_id, offsets)
    return OffsetResetList(consumer_group_id=group_id, validate_only=body.validate_only, data=moves)


def new_offset(body: ResetOffsetsBody, current: int | None, start: int, end: int, at_time: int) -> int:
    """Where a group goes on in one partition, from `start` to `end`. `at_time` is the offset at the timestamp asked
    for, -1 when no record is that young. A shift without a commit counts from the start."""
    if body.to == "earliest":
        return start
    if body.to == "latest":
        return end
    if body.to == "timestamp":
        return at_time if at_time >= 0 else end
    assert body.value is not None
    wanted = body.value if body.to == "offset" else (start if current is None else current) + body.value
    return max(start, min(end, wanted))


async def _members(kafka: Kafka, group_id: str, *, may_be_new: bool) -> tuple[Member, ...]:
    """A group that does not exist yet may be given its first offsets, if the topics are named. Raises Refused."""
    try:
        return (await describe_group(kafka, group_id)).members
    except Refused as problem:
        if problem.code != ErrorCode.GROUP_ID_NOT_FOUND or not may_be_new:
            raise
        return ()


async def _commit(kafka: Kafka, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Raises Refused, with NON_EMPTY_GROUP when a member has joined meanwhile."""
    try:
        await commit_offsets(kafka, group_id, offsets)
    except Refused as problem:
        if problem.code in _HAS_MEMBERS:
            raise Refused(ErrorCode.NON_EMPTY_GROUP, f"group {group_id}") from problem
        raise


async def _wanted(
    kafka: Kafka, topics: Sequence[ResetTopic] | None, commits: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The partitions to move, with their leaders. Raises Refused for a topic or partition that is missing."""
    leaders: dict[TopicPartition, int] = {}
    if topics is None:
        for name in sorted({topic for topic, _ in commits}):
            try:
                of_topic = (await describe_topic(kafka, name)).leaders()
            except Refused as problem:
                if problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                continue  # It was deleted; nobody can go on there.
            leaders.update({place: leader for place, leader in of_topic.items() if place in commits})
        return leaders
    for wanted in topics:
        described = await describe_topic(kafka, wanted.topic_name)
        of_topic = described.leaders()
        for index in wanted.partitions or [partition for _, partition in of_topic]:
            place = TopicPartition(wanted.topic_name, described.partition(index).index)
            leaders[place] = of_topic[place]
    return leaders
