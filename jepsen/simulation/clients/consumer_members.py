"""Members of one KIP-848 consumer group in a simulated run. They change their subscriptions, take up and revoke
partitions as heartbeats assign them, commit for the partitions they own, and leave or vanish.

Some members sleep longer than their session timeout. Some go on committing under an old member epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import trio

from jepsen.checker.operations import Owned, Partition, Said
from jepsen.simulation.clients.committers import commit, committed
from jepsen.simulation.clients.coordinators import find_coordinator
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, Session, Unanswered
from jepsen.simulation.recorder import Recorder
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kraft.protocol.messages.consumer_group_heartbeat_response import Assignment
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

SESSION_MS: Final = 6_000
REBALANCE_MS: Final = 10_000
HEARTBEAT_SECONDS: Final = 1.0
OVERSLEPT_SECONDS: Final = SESSION_MS / 1000 + 2.0
OVERSLEEP_RATE: Final = 0.03
FORMER_RATE: Final = 0.3
FORMERS_MAX: Final = 4
JOINING: Final = 0
LEAVING: Final = -1
COMMIT_VERSIONS: Final = (9, 9)
"""Earlier versions have no member epochs; later ones have topic ids."""
FENCED: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
NOT_ITS_OWN: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH)
OFFSETS_EACH: Final = 1_000_000  # So that every commit of the group has an offset of its own.

Share = TypeVar("Share", Owned, Said)


class Former(NamedTuple):
    """A member's id, epoch and partitions at an earlier member epoch."""

    member: str
    epoch: int
    owned: tuple[Partition, ...]


class ConsumerMember:
    """A consumer that joins the group as a new member each time it was fenced or has left."""

    def __init__(
        self, session: Session, recorder: Recorder, group: str, topics: Mapping[str, int], number: int
    ) -> None:
        """`topics` maps the topics that may be subscribed to their partition counts."""
        self._session = session
        self._recorder = recorder
        self._group = group
        self._topics = topics
        self._names: dict[bytes, str] = {}
        self._lives = 0
        self._offset = number * OFFSETS_EACH
        self._formers: deque[Former] = deque(maxlen=FORMERS_MAX)
        self._said: tuple[Partition, ...] | None = None
        """The owned partitions in its last heartbeat; None if no response shows that the heartbeat arrived."""
        self.id = ""
        self.epoch = JOINING
        self.subscribed: tuple[str, ...] = ()
        self.owned: tuple[Partition, ...] = ()
        self.stays = False
        """Set for the end of the run: the member neither leaves nor sleeps."""
        self.stopping = trio.Event()

    async def run(self) -> None:
        chance = self._session.chance
        await self._learn_names()
        while not self.stopping.is_set():
            self._lives += 1
            self.id, self.epoch, self.owned = f"{self._session.name}-{self._lives}", JOINING, ()
            self._said = None
            self.subscribed = tuple(name for name in self._topics if chance.random() < 0.7) or tuple(self._topics)
            await self._live(chance.randint(2, 20))
            self._is_over()
            if not self.stopping.is_set() and self.epoch > JOINING and chance.random() < 0.5:
                await self._leave()
        self._session.close()

    async def _live(self, beats: int) -> None:
        """Heartbeat and commit until the member is fenced, or `beats` heartbeats are sent."""
        chance = self._session.chance
        while (self.stays or beats > 0) and not self.stopping.is_set():
            beats -= 1
            try:
                if not await self._heartbeat():
                    return
                await self._commit()
            except Unanswered:
                self._said = None
                await self._session.pause(0.5)
                await find_coordinator(self._session, self._group)
                continue
            overslept = not self.stays and chance.random() < OVERSLEEP_RATE
            await self._session.world.clock.sleep(OVERSLEPT_SECONDS if overslept else HEARTBEAT_SECONDS)
            if overslept:
                await self._commit_of(Former(self.id, self.epoch, self.owned))

    async def _heartbeat(self) -> bool:
        """Send a heartbeat; False if the member is fenced. It has all fields if a response may have been lost, else
        only the changed ones."""
        says_all, said = self._said is None, self.owned
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS if says_all else -1,
            subscribed_topic_names=list(self.subscribed) if says_all else None,
            topic_partitions=self._owned_by_id() if said != self._said else None,
        )
        began = self._recorder.now()
        if request.topic_partitions is not None:
            self._recorder.add(self._share(Said, began, self.epoch, said))
        response = await self._session.call(request, 0, 1)
        if response.error_code in FENCED:
            return False
        if response.error_code != ErrorCode.NONE:
            if response.error_code not in TRY_AGAIN:
                raise Refused("ConsumerGroupHeartbeat", response.error_code)
            raise Unanswered("another one coordinates")
        self._said = said
        before = (self.epoch, self.owned)
        owned = self.owned if response.assignment is None else self._partitions(response.assignment)
        if before != (response.member_epoch, owned):
            self._is_over()
            self.epoch, self.owned = response.member_epoch, owned
            self._was_told(began, self.epoch, owned)
        return True

    def _was_told(self, began: float, epoch: int, owned: tuple[Partition, ...]) -> None:
        self._recorder.add(self._share(Owned, began, epoch, owned)).ok(self._recorder.now())

    def _share(self, kind: type[Share], began: float, epoch: int, owned: tuple[Partition, ...]) -> Share:
        name = self._session.name
        return kind(process=name, began=began, group=self._group, member=self.id, epoch=epoch, partitions=list(owned))

    def _is_over(self) -> None:
        if self.owned:
            self._formers.append(Former(self.id, self.epoch, self.owned))

    async def _commit(self) -> None:
        """Commit for a partition that the member owns, or sometimes for one that it owned under an old epoch."""
        chance = self._session.chance
        if self._formers and chance.random() < FORMER_RATE:
            await self._commit_of(chance.choice(self._formers))
        elif self.owned:
            await self._commit_of(Former(self.id, self.epoch, self.owned))
        if self.owned and chance.random() < 0.3:
            await committed(self._session, self._recorder, self._group, chance.choice(self.owned))

    async def _commit_of(self, member: Former) -> None:
        if not member.owned:
            return
        self._offset += 1
        await commit(
            self._session,
            self._recorder,
            self._group,
            self._session.chance.choice(member.owned),
            self._offset,
            generation=member.epoch,
            member=member.member,
            also=NOT_ITS_OWN,
            versions=COMMIT_VERSIONS,
        )

    async def _leave(self) -> None:
        began = self._recorder.now()
        request = ConsumerGroupHeartbeatRequest(group_id=self._group, member_id=self.id, member_epoch=LEAVING)
        try:
            response = await self._session.call(request, 0, 1)
        except Unanswered:
            return
        if response.error_code == ErrorCode.NONE:
            self._was_told(began, LEAVING, ())
        elif response.error_code not in (*FENCED, *TRY_AGAIN):
            raise Refused("ConsumerGroupHeartbeat to leave", response.error_code)

    async def _learn_names(self) -> None:
        topics = [MetadataRequestTopic(name=name) for name in self._topics]
        while len(self._names) < len(self._topics) and not self.stopping.is_set():
            try:
                response = await self._session.call(MetadataRequest(topics=topics), 10, 12)
            except Unanswered:
                await self._session.pause(0.5)
                continue
            self._names.update((topic.topic_id, topic.name) for topic in response.topics if not topic.error_code)

    def _partitions(self, assignment: Assignment) -> tuple[Partition, ...]:
        return tuple(
            (self._names[topic.topic_id], partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )

    def _owned_by_id(self) -> list[TopicPartitions]:
        found = [
            TopicPartitions(topic_id=topic_id, partitions=[index for topic, index in self.owned if topic == name])
            for topic_id, name in self._names.items()
        ]
        return [topic for topic in found if topic.partitions]


def share_all(members: Sequence[ConsumerMember], topics: Mapping[str, int]) -> bool:
    """Whether all members have the same epoch, and each partition of the subscribed topics is owned by exactly one
    subscriber."""
    wanted = {
        (name, index)
        for name in {name for member in members for name in member.subscribed}
        for index in range(topics[name])
    }
    owned = [place for member in members for place in member.owned]
    return (
        len({member.epoch for member in members}) == 1
        and len(owned) == len(set(owned))
        and set(owned) == wanted
        and all(topic in member.subscribed for member in members for topic, _ in member.owned)
    )
