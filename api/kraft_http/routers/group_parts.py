"""What the endpoints of consumer groups and of share groups have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from kraft.common.ids import TopicPartition
from kraft_http.models.groups import PARTITIONS_SHOWN_MAX, AssignedPartition, OffsetResetData
from kraft_http.requests.deps import ClusterContext
from kraft_http.requests.errors import not_found
from kraft_http.requests.links import restore_slashes


class HasMemberId(Protocol):
    @property
    def member_id(self) -> str: ...


class Listed(Protocol):
    @property
    def group_id(self) -> str: ...
    @property
    def coordinator(self) -> int: ...


class Described(Protocol):
    @property
    def group_id(self) -> str: ...


M = TypeVar("M", bound=HasMemberId)
G = TypeVar("G", bound=Described)


def shown_partitions(partitions: Iterable[TopicPartition]) -> list[AssignedPartition]:
    """The first partitions, in order, as many as a body has."""
    return [
        AssignedPartition(topic_name=topic, partition_id=partition)
        for topic, partition in sorted(partitions)[:PARTITIONS_SHOWN_MAX]
    ]


def member_of(members: Iterable[M], consumer_id: str, group: str) -> M:
    """The member with an id, in which slashes are encoded. `group` names the group in the error. Raises ApiProblem 404
    without such a member."""
    wanted = restore_slashes(consumer_id)
    for member in members:
        if member.member_id == wanted:
            return member
    raise not_found(f"Consumer {wanted} of {group}")


async def describe_listed(
    cluster: ClusterContext, listed: Sequence[Listed], describe: Callable[[list[str], int], Awaitable[list[G]]]
) -> dict[str, G]:
    """Describe the groups, with one call of `describe` for each coordinator, with ids of groups and the coordinator.
    Groups of a coordinator that does not answer are left out."""

    async def ask(coordinator: int) -> list[G]:
        return await describe([group.group_id for group in listed if group.coordinator == coordinator], coordinator)

    told = await cluster.kafka.ask_brokers(ask, sorted({group.coordinator for group in listed}))
    return {group.group_id: group for groups in told for group in groups}


def new_offsets(moves: Iterable[OffsetResetData]) -> dict[TopicPartition, int]:
    """The offsets to which a reset moves the group."""
    return {TopicPartition(move.topic_name, move.partition_id): move.new_offset for move in moves}
