"""A group that commits offsets of a recreated topic, by id and by name. Its offsets grow through all incarnations, so
that each offset belongs to one incarnation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import trio

from jepsen.checker.errors import is_definite
from jepsen.checker.operations import Commit, Committed
from jepsen.simulation.clients.coordinators import find_coordinator
from jepsen.simulation.clients.incarnations import NAME, Incarnation
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
    OffsetFetchRequestTopics,
)

GROUP: Final = "anew"
BY_ID: Final = (10, 10)
COMMIT_BY_NAME: Final = (2, 9)
FETCH_BY_NAME: Final = (8, 9)
NOBODY: Final = -1
PAUSE_SECONDS_MAX: Final = 0.8


class IncarnationCommitter:
    """Checks first that the group has no committed offset in the new incarnation. Then it commits, and fetches the
    committed offset at random times.

    `offsets` are the next offsets of the group. `sent` is called with every commit by name before the request goes out.
    """

    def __init__(
        self,
        session: Session,
        recorder: Recorder,
        incarnation: Incarnation,
        offsets: Iterator[int],
        sent: Callable[[Commit], None],
        may_vanish: Callable[[], bool],
    ) -> None:
        self._session = session
        self._recorder = recorder
        self._incarnation = incarnation
        self._offsets = offsets
        self._sent = sent
        self._may_vanish = may_vanish
        self.stopping = trio.Event()

    async def run(self) -> None:
        await self.look()
        while not self.stopping.is_set():
            if await self._step(self._commit) and self._session.chance.random() < 0.5:
                await self._step(self._committed)
            await self._session.pause(PAUSE_SECONDS_MAX)
        self._session.close()

    async def look(self) -> None:
        """Fetch the committed offset until the coordinator answers or the committer is stopped."""
        while not self.stopping.is_set() and not await self._step(self._committed):
            pass

    async def _step(self, ask: Callable[[], Any]) -> bool:
        if await ask():
            return True
        await find_coordinator(self._session, GROUP)
        await self._session.pause(0.5)
        return False

    async def _commit(self) -> bool:
        """Commit the next offset. Returns whether the commit was acknowledged."""
        incarnation, session = self._incarnation, self._session
        topic, index = incarnation.place
        made = Commit(
            process=session.name,
            began=self._recorder.now(),
            topic=topic,
            partition=index,
            group=GROUP,
            offset=next(self._offsets),
        )
        self._recorder.add(made)
        parts = [OffsetCommitRequestPartition(partition_index=index, committed_offset=made.offset)]
        try:
            if session.chance.random() < 0.5:
                topics = [OffsetCommitRequestTopic(topic_id=incarnation.topic_id, partitions=parts)]
                response = await session.call(OffsetCommitRequest(group_id=GROUP, topics=topics), *BY_ID)
            else:
                self._sent(made)
                topics = [OffsetCommitRequestTopic(name=NAME, partitions=parts)]
                response = await incarnation.by_name(
                    session, OffsetCommitRequest(group_id=GROUP, topics=topics), *COMMIT_BY_NAME
                )
        except Unanswered:
            made.ended = self._recorder.now()
            return False
        code = response.topics[0].partitions[0].error_code
        if code == ErrorCode.NONE:
            made.ok(self._recorder.now())
            return True
        made.failed(self._recorder.now(), name_of(code), definite=is_definite(name_of(code)))
        if code not in TRY_AGAIN:
            raise Refused("OffsetCommit", code)
        return False

    async def _committed(self) -> bool:
        """Fetch the committed offset of the incarnation; False if the coordinator does not answer. An answer about an
        incarnation that may be deleted is not judged."""
        incarnation, session = self._incarnation, self._session
        topic, index = incarnation.place
        read = Committed(process=session.name, began=self._recorder.now(), topic=topic, partition=index, group=GROUP)
        try:
            if session.chance.random() < 0.5:
                wanted = OffsetFetchRequestTopics(topic_id=incarnation.topic_id, partition_indexes=[index])
                response = await session.call(_fetch(wanted), *BY_ID)
            else:
                response = await incarnation.by_name(
                    session, _fetch(OffsetFetchRequestTopics(name=NAME, partition_indexes=[index])), *FETCH_BY_NAME
                )
        except Unanswered:
            return False
        answer = response.groups[0]
        code = answer.error_code or answer.topics[0].partitions[0].error_code
        if code != ErrorCode.NONE:
            if code not in TRY_AGAIN:
                raise Refused("OffsetFetch", code)
            return False
        read.offset = answer.topics[0].partitions[0].committed_offset
        read.deposed = self._recorder.is_deposed(session.host, GROUP)
        read.ok(self._recorder.now())
        if read.offset != NOBODY or not (incarnation.doomed or self._may_vanish()):
            self._recorder.add(read)
        return True


def _fetch(topic: OffsetFetchRequestTopics) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])])
