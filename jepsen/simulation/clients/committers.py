"""Clients of a simulated run that commit and fetch group offsets. Committers are no members of their group and commit
growing offsets. Position readers fetch the offsets of a group whose offsets are committed in transactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from jepsen.checker.errors import is_definite
from jepsen.checker.operations import Commit, Committed, Partition
from jepsen.simulation.clients.coordinators import find_coordinator
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, Session, Unanswered
from jepsen.simulation.recorder import Recorder
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

COMMIT_VERSIONS = (2, 9)  # By topic name, as are the fetches.
NO_GENERATION = -1


class Committer:
    """The only committer of its group and partition, so that the offsets only grow."""

    def __init__(self, session: Session, recorder: Recorder, group: str, place: Partition) -> None:
        self._session = session
        self._recorder = recorder
        self._group = group
        self._place = place
        self._next = 0
        self.stopping = trio.Event()

    async def run(self) -> None:
        while not self.stopping.is_set():
            self._next += 1
            if not await commit(self._session, self._recorder, self._group, self._place, self._next):
                await find_coordinator(self._session, self._group)
                await self._session.pause(0.5)
            if self._session.chance.random() < 0.5:
                await committed(self._session, self._recorder, self._group, self._place)
            await self._session.pause(0.6)
        self._session.close()


class PositionReader:
    """Keeps fetching the offsets of a group that commits in transactions, with require_stable and without. It also asks
    a coordinator that takes over while a transaction is open, or after one was aborted."""

    def __init__(self, session: Session, recorder: Recorder, group: str, place: Partition) -> None:
        self._session = session
        self._recorder = recorder
        self._group = group
        self._place = place
        self.stopping = trio.Event()

    async def run(self) -> None:
        while not self.stopping.is_set():
            stable = self._session.chance.random() < 0.5
            if not await committed(
                self._session, self._recorder, self._group, self._place, stable=stable, may_lag=not stable
            ):
                await find_coordinator(self._session, self._group)
            await self._session.pause(0.6)
        self._session.close()


def position_readers(
    session: Callable[[str], Session], recorder: Recorder, groups: Sequence[str], place: Partition
) -> list[PositionReader]:
    """Make a position reader for each group, each with its own session."""
    return [PositionReader(session(f"position-{group}"), recorder, group, place) for group in groups]


async def commit(
    session: Session,
    recorder: Recorder,
    group: str,
    place: Partition,
    offset: int,
    *,
    generation: int = NO_GENERATION,
    member: str = "",
    also: tuple[int, ...] = (),
    versions: tuple[int, int] = COMMIT_VERSIONS,
) -> bool:
    """Commit an offset. Returns whether the commit was acknowledged. `also` are error codes that a member may legally
    get."""
    topic, index = place
    made = recorder.add(
        Commit(
            process=session.name,
            began=recorder.now(),
            topic=topic,
            partition=index,
            group=group,
            offset=offset,
            generation=generation,
            member=member,
        )
    )
    part = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[part])],
    )
    try:
        response = await session.call(request, *versions)
    except Unanswered:
        made.ended = recorder.now()
        return False
    code = response.topics[0].partitions[0].error_code
    if code == ErrorCode.NONE:
        made.ok(recorder.now())
        return True
    made.failed(recorder.now(), name_of(code), definite=is_definite(name_of(code)))
    if code not in TRY_AGAIN and code not in also:
        raise Refused("OffsetCommit", code)
    return False


async def committed(
    session: Session,
    recorder: Recorder,
    group: str,
    place: Partition,
    *,
    stable: bool = False,
    may_lag: bool = False,
) -> bool:
    """Fetch the committed offset and record it; False if the coordinator does not answer. With `stable` the coordinator
    refuses while an open transaction may change the offset."""
    topic, index = place
    read = recorder.add(
        Committed(
            process=session.name, began=recorder.now(), topic=topic, partition=index, group=group, may_lag=may_lag
        )
    )
    old = OffsetFetchRequestTopic(name=topic, partition_indexes=[index])
    new = OffsetFetchRequestTopics(name=topic, partition_indexes=[index])
    by_group = session.chance.random() < 0.5
    if by_group:
        groups = [OffsetFetchRequestGroup(group_id=group, topics=[new])]
        request, versions = OffsetFetchRequest(groups=groups, require_stable=stable), (8, 9)
    else:
        request = OffsetFetchRequest(group_id=group, topics=[old], require_stable=stable)
        versions = (7, 7) if stable else (1, 7)
    try:
        response = await session.call(request, *versions)
    except Unanswered:
        read.ended = recorder.now()
        return False
    answer = response.groups[0] if by_group else response
    read.ended = recorder.now()
    code = answer.error_code or (
        answer.topics[0].partitions[0].error_code if answer.topics else ErrorCode.NOT_COORDINATOR
    )
    if code != ErrorCode.NONE:
        read.error = name_of(code)
        if code not in TRY_AGAIN and not (stable and code == ErrorCode.UNSTABLE_OFFSET_COMMIT):
            raise Refused("OffsetFetch", code)
        return False
    read.offset = answer.topics[0].partitions[0].committed_offset
    read.deposed = recorder.is_deposed(session.host, group)
    read.ok(recorder.now())
    return True
