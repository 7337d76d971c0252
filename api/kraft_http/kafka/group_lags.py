"""The lags of many groups in a few requests: one of each kind for every broker, however many groups it coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kraft.protocol.error_codes import ErrorCode
from kraft_http.kafka.client import Kafka, KafkaProblem, ask_brokers, give_way, of_each
from kraft_http.kafka.groups import Commit, Group, describe_groups, fetch_commits_of
from kraft_http.kafka.offsets import LATEST, Partition, leaders_of, list_offsets
from kraft_http.kafka.topics import describe_topics

_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_UNTOLD = (*_GONE, ErrorCode.LEADER_NOT_AVAILABLE)
COMMITS_A_STEP: Final = 5_000
"""Commits that are summed up before other requests get a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """A group and how far behind it is. Without a commit whose lag can be told, `total` is None."""

    group: Group
    topics: tuple[str, ...]
    total: int | None
    worst: tuple[Partition, int] | None


async def group_lags(kafka: Kafka, coordinators: Mapping[str, int]) -> list[GroupLag]:
    """Groups by id, each with the coordinator that lists it. Groups that have gone, and those of a broker that does
    not answer (`kafka.silent`), are left out. Partitions whose leader does not answer count for nothing."""

    async def ask(coordinator_id: int) -> list[tuple[Group, list[Commit]]]:
        ids = [group_id for group_id, at in coordinators.items() if at == coordinator_id]
        try:
            groups = await describe_groups(kafka, ids, coordinator_id)
            commits = await fetch_commits_of(kafka, [group.group_id for group in groups], coordinator_id)
        except KafkaProblem as problem:
            if problem.code in _UNTOLD:
                return []
            raise
        return [(group, commits.get(group.group_id, [])) for group in groups]

    told = await ask_brokers(kafka, ask, sorted(set(coordinators.values())))
    found = sorted((each for of_one in told for each in of_one), key=lambda each: each[0].group_id)
    ends = await _ends(kafka, [commits for _, commits in found])
    lags = []
    since_step = 0
    for group, commits in found:
        since_step += len(commits)
        if since_step > COMMITS_A_STEP:
            since_step = 0
            await give_way()
        lags.append(_group_lag(group, commits, ends))
    return lags


def _group_lag(group: Group, commits: Sequence[Commit], ends: Mapping[Partition, int]) -> GroupLag:
    behind = [
        ((commit.topic, commit.partition), max(0, ends[commit.topic, commit.partition] - commit.offset))
        for commit in commits
        if (commit.topic, commit.partition) in ends
    ]
    return GroupLag(
        group=group,
        topics=tuple(sorted({commit.topic for commit in commits})),
        total=sum(lag for _, lag in behind) if behind else None,
        worst=max(behind, key=lambda each: each[1]) if behind else None,
    )


async def _ends(kafka: Kafka, commits: Sequence[Sequence[Commit]]) -> dict[Partition, int]:
    """The end of every partition that has a commit and can be told of, each leader asked once."""
    wanted = {(commit.topic, commit.partition) for of_group in commits for commit in of_group}
    leaders: dict[int, dict[Partition, int]] = {}

    async def describe(topic: str) -> dict[Partition, int]:
        try:
            [described] = await describe_topics(kafka, [topic])
        except KafkaProblem as problem:
            if problem.code in _GONE:
                return {}
            raise
        return leaders_of(described)

    for of_topic in await of_each(describe, sorted({topic for topic, _ in wanted})):
        for partition, leader in of_topic.items():
            if leader >= 0 and partition in wanted:
                leaders.setdefault(leader, {})[partition] = leader

    async def ask(leader: int) -> dict[Partition, int]:
        try:
            return await list_offsets(kafka, leaders[leader], LATEST)
        except KafkaProblem as problem:
            if problem.code in _UNTOLD or problem.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                return {}
            raise

    ends: dict[Partition, int] = {}
    for of_leader in await ask_brokers(kafka, ask, sorted(leaders)):
        ends.update(of_leader)
    return ends
