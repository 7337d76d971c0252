"""The lags of all groups in one call, and moving a group's offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from kraft.protocol.error_codes import ErrorCode
from kraft_http.deps import Cluster, GroupIdPath, PageQuery, Writable, unanswered
from kraft_http.errors import ApiProblem, documented, not_found
from kraft_http.kafka.client import Kafka, KafkaProblem
from kraft_http.kafka.group_lags import GroupLag, group_lags
from kraft_http.kafka.groups import Group, commit_offsets, describe_group, fetch_commits, find_coordinator, list_groups
from kraft_http.kafka.offsets import EARLIEST, LATEST, Partition, leaders_of, list_offsets
from kraft_http.kafka.topics import describe_topic, partition_of
from kraft_http.models.groups import (
    GroupLagData,
    GroupLagList,
    OffsetResetData,
    OffsetResetList,
    ResetOffsetsBody,
    ResetTopic,
)
from kraft_http.routers.groups import STATES

router = APIRouter(prefix="/v3/clusters/{cluster_id}/consumer-groups", tags=["Consumer groups"])

PAGE_SIZE_DEFAULT = 100
TOPICS_SHOWN_MAX = 100


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
        (group.group_id, coordinator_id)
        for group, coordinator_id in await list_groups(cluster.kafka)
        if (q is None or q in group.group_id)
        and (state is None or state.upper() == STATES.get(group.group_state, "UNKNOWN"))
    ]
    shown, metadata = page.cut(listed, lambda group: group[0], cluster.url)
    data = [
        _lag_data(lag) for lag in await group_lags(cluster.kafka, dict(shown)) if topic is None or topic in lag.topics
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
        coordinator_id=lag.group.coordinator_id,
        topics=list(lag.topics[:TOPICS_SHOWN_MAX]),
        topics_count=len(lag.topics),
        total_lag=lag.total,
        max_lag=lag.worst[1] if lag.worst else None,
        max_lag_topic_name=lag.worst[0][0] if lag.worst else None,
        max_lag_partition_id=lag.worst[0][1] if lag.worst else None,
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
    group = await _group(cluster.kafka, group_id, may_be_new=body.topics is not None)
    if group.members and not body.validate_only:
        names = ", ".join(member.member_id for member in group.members[:10])
        raise ApiProblem(
            409,
            f"Group {group_id} has {len(group.members)} members, which commit offsets of their own: {names}.",
            hint="Stop the group's consumers first.",
        )
    commits = {(commit.topic, commit.partition): commit.offset for commit in await fetch_commits(cluster.kafka, group)}
    leaders = await _wanted(cluster.kafka, body.topics, commits)
    if not leaders:
        raise not_found(f"A commit of group {group_id} that could be moved")
    starts = await list_offsets(cluster.kafka, leaders, EARLIEST)
    ends = await list_offsets(cluster.kafka, leaders, LATEST)
    at_time = (
        await list_offsets(cluster.kafka, leaders, body.value)
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
        await commit_offsets(
            cluster.kafka, group, {(move.topic_name, move.partition_id): move.new_offset for move in moves}
        )
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


async def _group(kafka: Kafka, group_id: str, *, may_be_new: bool) -> Group:
    """A group that does not exist yet may be given its first offsets, if the topics are named."""
    try:
        return await describe_group(kafka, group_id)
    except KafkaProblem as problem:
        if problem.code != ErrorCode.GROUP_ID_NOT_FOUND or not may_be_new:
            raise
    return Group(
        group_id=group_id,
        type="classic",
        state="Empty",
        protocol_type="",
        assignor="",
        coordinator_id=await find_coordinator(kafka, group_id),
        epoch=None,
        assignment_epoch=None,
        members=(),
    )


async def _wanted(
    kafka: Kafka, topics: Sequence[ResetTopic] | None, commits: Mapping[Partition, int]
) -> dict[Partition, int]:
    """The partitions to move, with their leaders. Raises KafkaProblem for a topic or partition that is missing."""
    leaders: dict[Partition, int] = {}
    if topics is None:
        for name in sorted({topic for topic, _ in commits}):
            try:
                of_topic = leaders_of(await describe_topic(kafka, name))
            except KafkaProblem as problem:
                if problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                continue  # It was deleted; nobody can go on there.
            leaders.update({place: leader for place, leader in of_topic.items() if place in commits})
        return leaders
    for wanted in topics:
        described = await describe_topic(kafka, wanted.topic_name)
        of_topic = leaders_of(described)
        for index in wanted.partitions or [partition for _, partition in of_topic]:
            place = (wanted.topic_name, partition_of(described, index).partition_index)
            leaders[place] = of_topic[place]
    return leaders
