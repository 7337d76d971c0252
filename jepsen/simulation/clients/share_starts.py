"""A client that asks for the start offsets of a share group, which never go back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jepsen.checker.operations import Partition, ShareStart
from jepsen.simulation.clients.coordinators import find_coordinator
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, RoamingSession, Unanswered
from jepsen.simulation.recorder import Recorder
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)

PASSING: Final = (*TRY_AGAIN, ErrorCode.GROUP_ID_NOT_FOUND)


class ShareStarts:
    """Asks for the start offset of one partition after the other, until `session` is stopped."""

    def __init__(self, session: RoamingSession, recorder: Recorder, group: str, topics: Mapping[str, int]) -> None:
        """`topics` maps topics to their partition counts."""
        self._session = session
        self._recorder = recorder
        self._group = group
        self._places = [(topic, index) for topic, count in topics.items() for index in range(count)]
        self.is_stopping = False

    async def run(self) -> None:
        chance = self._session.chance
        while not self.is_stopping:
            try:
                if not await self._ask(chance.choice(self._places)):
                    await find_coordinator(self._session, self._group)
            except Unanswered:
                await find_coordinator(self._session, self._group)
            await self._session.pause(0.5)
        self._session.close()

    async def _ask(self, place: Partition) -> bool:
        """Record the start offset; False if the node does not coordinate the group. Raises Unanswered, Refused."""
        topic, index = place
        start = self._recorder.add(
            ShareStart(
                process=self._session.name, began=self._recorder.now(), topic=topic, partition=index, group=self._group
            )
        )
        wanted = DescribeShareGroupOffsetsRequestGroup(
            group_id=self._group,
            topics=[DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[index])],
        )
        epoch = self._recorder.share_state_epoch(self._group, place)
        response = await self._session.call(DescribeShareGroupOffsetsRequest(groups=[wanted]), 0, 1)
        (group,) = response.groups
        code = group.error_code or next(part.error_code for topic in group.topics for part in topic.partitions)
        if code != ErrorCode.NONE:
            start.failed(self._recorder.now(), name_of(code), definite=True)
            if code not in PASSING:
                raise Refused("DescribeShareGroupOffsets", code)
            return False
        start.offset = next(part.start_offset for topic in group.topics for part in topic.partitions)
        start.is_current = epoch is not None and epoch == self._recorder.share_state_epoch(self._group, place)
        start.ok(self._recorder.now())
        return True
