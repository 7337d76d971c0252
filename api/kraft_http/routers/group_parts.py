"""What the endpoints of consumer, share and streams groups have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Protocol, TypeVar

from fastapi import Depends, Query

from kraft.admin.groups import ListedGroup
from kraft.common.ids import TopicPartition
from kraft_http.models.common import CollectionMetadata
from kraft_http.models.groups import PARTITIONS_SHOWN_MAX, AssignedPartition, OffsetResetData
from kraft_http.requests.deps import ClusterContext, Page
from kraft_http.requests.errors import not_found
from kraft_http.requests.links import restore_slashes


class HasMemberId(Protocol):
    @property
    def member_id(self) -> str: ...


class Described(Protocol):
    @property
    def group_id(self) -> str: ...


M = TypeVar("M", bound=HasMemberId)
G = TypeVar("G", bound=Described)

_STATES: Final = {
    "PreparingRebalance": "PREPARING_REBALANCE",
    "CompletingRebalance": "COMPLETING_REBALANCE",
    "NotReady": "NOT_READY",
    "Assigning": "ASSIGNING",
    "Reconciling": "RECONCILING",
    "Stable": "STABLE",
    "Dead": "DEAD",
    "Empty": "EMPTY",
}


def state_name(state: str) -> str:
    """The name in bodies of a group state; UNKNOWN for a state of a newer release."""
    return _STATES.get(state, "UNKNOWN")


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """The groups of a list that the parameters request. None selects all."""

    text: str | None
    state: str | None

    def matches(self, group: ListedGroup) -> bool:
        return (self.text is None or self.text in group.group_id) and (
            self.state is None or self.state.upper() == state_name(group.state)
        )


async def group_filter(
    q: Annotated[str | None, Query(description="Only groups whose id contains this text.")] = None,
    state: Annotated[str | None, Query(description="Only groups in this state.", examples=["STABLE"])] = None,
) -> GroupFilter:
    return GroupFilter(q, state)


GroupFilterQuery = Annotated[GroupFilter, Depends(group_filter)]


def shown_partitions(partitions: Iterable[TopicPartition]) -> list[AssignedPartition]:
    """The first PARTITIONS_SHOWN_MAX partitions, in order."""
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


async def describe_page(
    cluster: ClusterContext,
    page: Page,
    listed: Sequence[ListedGroup],
    describe: Callable[[list[str], int], Awaitable[list[G]]],
) -> tuple[list[G], CollectionMetadata]:
    """The descriptions of the groups on the page, and the collection's metadata. `describe` is called once for each
    coordinator, with ids of groups and the coordinator. Groups of a coordinator that does not answer are left out."""
    shown, metadata = page.cut(listed, lambda group: group.group_id, cluster.url)

    async def ask(coordinator: int) -> list[G]:
        return await describe([group.group_id for group in shown if group.coordinator == coordinator], coordinator)

    answered = await cluster.kafka.ask_brokers(ask, sorted({group.coordinator for group in shown}))
    found = {group.group_id: group for groups in answered for group in groups}
    return [found[each.group_id] for each in shown if each.group_id in found], metadata


def new_offsets(moves: Iterable[OffsetResetData]) -> dict[TopicPartition, int]:
    """The offsets to which a reset moves the group."""
    return {TopicPartition(move.topic_name, move.partition_id): move.new_offset for move in moves}
