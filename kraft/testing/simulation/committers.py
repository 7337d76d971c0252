"""Committers of a simulated run: consumers without a membership that commit growing offsets and ask for them again."""

from __future__ import annotations

import trio

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kraft.testing.simulation.coordinators import find_coordinator
from kraft.testing.simulation.history import Commits, History, Partition
from kraft.testing.simulation.producers import TRY_AGAIN
from kraft.testing.simulation.session import Refused, Session, Unanswered

COMMIT_VERSIONS = (2, 9)  # By topic name, as are the fetches.
NO_OFFSET = -1


class Committer:
    """Alone with its group and partition, so what it fetches is what it last committed, or something whose fate it never learned."""

    def __init__(self, session: Session, history: History, group: str, partition: Partition) -> None:
        self._session = session
        self._history = history
        self.commits = Commits(group, partition)
        history.commits.append(self.commits)
        self._next = 0
        self.stopping = trio.Event()

    async def run(self) -> None:
        while not self.stopping.is_set():
            await self._commit()
            if self._session.chance.random() < 0.5:
                await self.verify()
            await self._session.pause(0.2)

    async def _commit(self) -> None:
        self._next += 1
        topic, index = self.commits.partition
        part = OffsetCommitRequestPartition(partition_index=index, committed_offset=self._next)
        request = OffsetCommitRequest(group_id=self.commits.group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[part])])
        try:
            response = await self._session.call(request, *COMMIT_VERSIONS)
        except Unanswered:
            self.commits.unknown.append(self._next)
            await self._session.pause(0.5)
            return
        code = response.topics[0].partitions[0].error_code
        if code == ErrorCode.NONE:
            self.commits.acknowledged = self._next
            self.commits.acknowledgements += 1
        elif code in TRY_AGAIN:
            self.commits.unknown.append(self._next)
            await find_coordinator(self._session, self.commits.group)
            await self._session.pause(0.5)
        else:
            raise Refused("OffsetCommit", code)

    async def verify(self) -> bool:
        """Compare what the coordinator has with what it acknowledged; False if it does not answer."""
        commits = self.commits
        topic, index = commits.partition
        old = OffsetFetchRequestTopic(name=topic, partition_indexes=[index])
        new = OffsetFetchRequestTopics(name=topic, partition_indexes=[index])
        by_group = self._session.chance.random() < 0.5
        if by_group:
            request, versions = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=commits.group, topics=[new])]), (8, 9)
        else:
            request, versions = OffsetFetchRequest(group_id=commits.group, topics=[old]), (1, 7)
        try:
            response = await self._session.call(request, *versions)
        except Unanswered:
            return False
        answer = response.groups[0] if by_group else response
        if answer.error_code in TRY_AGAIN or not answer.topics:
            return False
        found = answer.topics[0].partitions[0]
        if found.error_code in TRY_AGAIN:
            return False
        if answer.error_code or found.error_code:
            raise Refused("OffsetFetch", answer.error_code or found.error_code)
        if found.committed_offset not in (commits.acknowledged if commits.acknowledged >= 0 else NO_OFFSET, *commits.unknown):
            self._history.violation(f"{commits.group} committed {commits.acknowledged} of {topic}-{index} and is told {found.committed_offset}")
        return True
