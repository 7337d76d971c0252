"""Members of one share group (KIP-932) in a simulated run. They acquire records of several topics, accept, release and
reject them, forget some, acknowledge late and twice, lose their sessions, and leave or vanish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio

from jepsen.checker.operations import Acknowledged, Acquired, Partition
from jepsen.simulation.clients.coordinators import find_coordinator
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, RoamingSession, Unanswered
from jepsen.simulation.clients.share_session import ShareSession
from jepsen.simulation.recorder import Recorder
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.share_acknowledge_request import (
    AcknowledgementBatch as AcknowledgeBatch,
)
from kraft.protocol.messages.share_acknowledge_request import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kraft.protocol.messages.share_fetch_request import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.protocol.records.record_batch import batches

LOCK_SECONDS: Final = 3.0
HEARTBEAT_SECONDS: Final = 1.0
JOINING: Final = 0
LEAVING: Final = -1
FINAL: Final = -1
"""The epoch with which a session ends."""
GAP, ACCEPT, RELEASE, REJECT = range(4)
KINDS: Final = {ACCEPT: "accept", RELEASE: "release", REJECT: "reject"}
NOTHING: Final = -1
"""No acknowledgement: the member forgets the records."""
CHOICES: Final = (ACCEPT, RELEASE, REJECT, NOTHING)
WEIGHTS: Final = (80, 10, 5, 5)
LATE_RATE: Final = 0.05
TWICE_RATE: Final = 0.1
PIGGYBACK_RATE: Final = 0.5
STALE_EPOCH_RATE: Final = 0.03
BYTES_MAX: Final = 1 << 20
RECORDS_MAX: Final = 500
FENCED: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
SESSION_ENDED: Final = (
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
)
PASSING: Final = (
    *TRY_AGAIN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_STATE_EPOCH,
)
REFUSED: Final = (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
"""The member no longer holds the records, or a new leader has not delivered them."""
Range = tuple[int, int, list[int]]
"""First and last offset, and one acknowledgement type or one for each record."""
Chosen = Mapping[Partition, tuple[Acknowledged, list[Range]]]
"""The acknowledgements of one request."""


class Held:
    """The records of one answer that the member has not acknowledged yet."""

    def __init__(self, acquired: Acquired, ranges: Sequence[tuple[int, int]]) -> None:
        self.acquired = acquired
        self.ranges = ranges

    def acknowledgements(self, kind: int) -> list[Range]:
        """Acknowledge all records as `kind`, and offsets without a record as gaps, as clients do."""
        offsets = {offset for offset, _, _ in self.acquired.records}
        found: list[Range] = []
        for first, last in self.ranges:
            types = [kind if offset in offsets else GAP for offset in range(first, last + 1)]
            found.append((first, last, types if len(set(types)) > 1 else types[:1]))
        return found


class ShareMember:
    """A member that joins as a new one each time it was fenced, has left or has vanished."""

    def __init__(
        self,
        sessions: tuple[RoamingSession, RoamingSession],
        recorder: Recorder,
        group: str,
        topics: Mapping[str, int],
        limit: int,
    ) -> None:
        """`sessions` are one for the group's coordinator and one for leaders of partitions. `topics` maps topics to
        their partition counts; the member subscribes to all."""
        self._coordinator, self._session = sessions
        self._recorder = recorder
        self._group = group
        self._places = [(topic, index) for topic, count in topics.items() for index in range(count)]
        self._topics = topics
        self._limit = limit
        self._ids: dict[str, bytes] = {}
        self._lives = 0
        self._id = ""
        self._epoch = JOINING
        self._assigned: list[Partition] = []
        self._share_sessions: dict[str, ShareSession] = {}
        self.stays = False
        """Set for the end of the run: the member accepts everything, and fetches as much as it can."""
        self.busy_at = 0.0
        """Time of the last record or error."""
        self.stopping = trio.Event()

    async def run(self) -> None:
        chance = self._session.chance
        await self._learn_ids()
        while not self.stopping.is_set():
            self._lives += 1
            self._id, self._epoch, self._assigned = f"{self._session.name}-{self._lives}", JOINING, []
            self._share_sessions = {}
            await self._live(chance.randint(5, 40))
            if not self.stopping.is_set() and chance.random() < 0.5:
                await self._leave()
        self._coordinator.close()
        self._session.close()

    async def _live(self, rounds: int) -> None:
        """Heartbeat and work until the member is fenced, or `rounds` times."""
        beat_at = 0.0
        while (self.stays or rounds > 0) and not self.stopping.is_set():
            rounds -= 1
            try:
                if self._recorder.now() >= beat_at:
                    beat_at = self._recorder.now() + HEARTBEAT_SECONDS
                    if not await self._heartbeat():
                        return
            except Unanswered:
                await self._coordinator.pause(0.5)
                await find_coordinator(self._coordinator, self._group)
                continue
            try:
                await self._work()
            except Unanswered:
                self.busy_at = self._recorder.now()
                for share in self._share_sessions.values():
                    if not share.is_open:
                        self._closes(share)
            await self._session.pause(0.3)

    async def _heartbeat(self) -> bool:
        """Send a heartbeat; False if the member is fenced."""
        joins = self._epoch == JOINING
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=self._epoch,
            subscribed_topic_names=list(self._topics) if joins else None,
        )
        response = await self._coordinator.call(request, 1, 1)
        if response.error_code in FENCED:
            return False
        if response.error_code != ErrorCode.NONE:
            if response.error_code not in TRY_AGAIN:
                raise Refused("ShareGroupHeartbeat", response.error_code)
            raise Unanswered("another one coordinates")
        self._epoch = response.member_epoch
        if response.assignment is not None:
            names = {topic_id: name for name, topic_id in self._ids.items()}
            self._assigned = [
                (names[bytes(topic.topic_id)], index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            ]
        return True

    async def _leave(self) -> None:
        """Close the share sessions, and leave the group. A node that does not answer ends the session after its
        timeout."""
        for host, share in sorted(self._share_sessions.items()):
            if share.is_open:
                self._closes(share)
                request = ShareAcknowledgeRequest(
                    group_id=self._group, member_id=self._id, share_session_epoch=FINAL, topics=[]
                )
                try:
                    await self._session.session_to(host).call(request, 1, 2)
                except Unanswered:
                    pass
        try:
            await self._coordinator.call(
                ShareGroupHeartbeatRequest(group_id=self._group, member_id=self._id, member_epoch=LEAVING), 1, 1
            )
        except Unanswered:
            pass

    async def _work(self) -> None:
        """Fetch from one leader, and acknowledge the records."""
        if not self._assigned:
            return
        leaders = await self._session.leaders(self._assigned)
        if not leaders:
            self._session.roam()
            return
        host = self._session.chance.choice(sorted(leaders))
        share = self._share_sessions.get(host)
        if share is None:
            share = self._share_sessions[host] = ShareSession(self._session.session_to(host))
        held = await self._fetch(share, sorted(leaders[host]), {})
        chance = self._session.chance
        if held and not self.stays:
            late = chance.random() < LATE_RATE
            await self._session.world.clock.sleep(LOCK_SECONDS + 1 if late else chance.uniform(0.0, 0.3))
        await self._acknowledge(share, held)

    async def _acknowledge(self, share: ShareSession, held: Sequence[Held]) -> None:
        """Acknowledge records by ShareAcknowledge, or within the next ShareFetch. The records of that fetch are not
        acknowledged."""
        chance = self._session.chance
        for _ in range(2):
            chosen = self._choose(held)
            if not chosen:
                return
            if chance.random() < PIGGYBACK_RATE and not self.stays:
                await self._fetch(share, sorted(share.places), chosen)
            else:
                await self._send(share, chosen)
            if self.stays or chance.random() >= TWICE_RATE:
                return

    def _choose(self, held: Sequence[Held]) -> Chosen:
        chance = self._session.chance
        chosen: dict[Partition, tuple[Acknowledged, list[Range]]] = {}
        for each in held:
            kind = ACCEPT if self.stays else chance.choices(CHOICES, WEIGHTS)[0]
            if kind == NOTHING:
                continue
            acknowledged = self._acknowledged(each.acquired, KINDS[kind])
            chosen[each.acquired.place] = (acknowledged, each.acknowledgements(kind))
        return chosen

    async def _send(self, share: ShareSession, chosen: Chosen) -> None:
        """Send a ShareAcknowledge. Raises Unanswered."""
        topics = [
            AcknowledgeTopic(
                topic_id=self._ids[topic],
                partitions=[
                    AcknowledgePartition(
                        partition_index=index,
                        acknowledgement_batches=[
                            AcknowledgeBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                            for first, last, types in ranges
                        ],
                    )
                ],
            )
            for (topic, index), (_, ranges) in chosen.items()
        ]
        if not share.is_open:
            return  # The session has ended, and with it the locks.
        request = ShareAcknowledgeRequest(
            group_id=self._group, member_id=self._id, share_session_epoch=share.next_epoch(), topics=topics
        )
        self._begin(chosen)
        response = await share.link.call(request, 1, 2)
        if self._has_ended(share, response.error_code, "ShareAcknowledge"):
            return
        for topic in response.responses:
            for part in topic.partitions:
                self._answered(chosen, bytes(topic.topic_id), part.partition_index, part.error_code)

    async def _fetch(
        self,
        share: ShareSession,
        places: Sequence[Partition],
        chosen: Chosen,
    ) -> list[Held]:
        """Send a ShareFetch with acknowledgements. Raises Unanswered."""
        chance = self._session.chance
        if not share.is_open:
            chosen = {}  # The session has ended, and with it the locks.
            self._closes(share)
        epoch = share.next_epoch()
        forgotten = sorted(share.places - set(places))
        wanted = sorted({*chosen, *(place for place in places if place not in share.places)})
        stale = epoch > 1 and not self.stays and not chosen and chance.random() < STALE_EPOCH_RATE
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._id,
            share_session_epoch=epoch - 1 if stale else epoch,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=BYTES_MAX if self.stays else chance.choice((1000, BYTES_MAX)),
            max_records=RECORDS_MAX if self.stays else chance.choice((1, 10, RECORDS_MAX)),
            batch_size=RECORDS_MAX if self.stays else chance.choice((1, 10, RECORDS_MAX)),
            share_acquire_mode=chance.randint(0, 1),
            topics=[
                FetchTopic(
                    topic_id=self._ids[topic],
                    partitions=[
                        FetchPartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                                for first, last, types in (chosen[topic, index][1] if (topic, index) in chosen else ())
                            ],
                        )
                    ],
                )
                for topic, index in wanted
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=self._ids[topic], partitions=[index]) for topic, index in forgotten
            ],
        )
        self._begin(chosen)
        began = self._recorder.now()
        response = await share.link.call(request, 1, 2)
        if self._has_ended(share, response.error_code, "ShareFetch"):
            return []
        if stale:
            raise Refused("ShareFetch with an old session epoch", response.error_code)
        share.places = frozenset(places)
        held = [
            each
            for topic in response.responses
            for part in topic.partitions
            for each in self._take(began, chosen, bytes(topic.topic_id), part)
        ]
        share.held += [each.acquired for each in held]
        return held

    def _take(
        self,
        began: float,
        chosen: Chosen,
        topic_id: bytes,
        part: Any,
    ) -> list[Held]:
        """Record the response for one partition: the results of acknowledgements, and the acquired records."""
        self._answered(chosen, topic_id, part.partition_index, part.acknowledge_error_code)
        place = (self._name(topic_id), part.partition_index)
        if part.error_code != ErrorCode.NONE:
            self.busy_at = self._recorder.now()
            self._session.forget([place])
            if part.error_code not in PASSING:
                raise Refused("ShareFetch", part.error_code)
            return []
        if not part.acquired_records:
            return []
        self.busy_at = self._recorder.now()
        values = {
            record.offset: (record.value or b"").decode()
            for batch in batches(part.records or b"")
            if not batch.is_control
            for record in batch.records()
        }
        ranges = [(each.first_offset, each.last_offset) for each in part.acquired_records]
        records = [
            (offset, values[offset], each.delivery_count)
            for each in part.acquired_records
            for offset in range(each.first_offset, each.last_offset + 1)
            if offset in values
        ]
        acquired = Acquired(
            process=self._session.name,
            began=began,
            topic=place[0],
            partition=place[1],
            group=self._group,
            since=began,
            limit=self._limit,
            lock_seconds=LOCK_SECONDS,
            records=records,
        )
        self._recorder.add(acquired).ok(self._recorder.now())
        return [Held(acquired, ranges)]

    def _begin(self, chosen: Chosen) -> None:
        for acknowledged, _ in chosen.values():
            acknowledged.began = self._recorder.now()
            self._recorder.add(acknowledged)

    def _answered(
        self,
        chosen: Chosen,
        topic_id: bytes,
        index: int,
        code: int,
    ) -> None:
        found = chosen.get((self._name(topic_id), index))
        if found is None:
            return
        if code not in (ErrorCode.NONE, *REFUSED, *PASSING):
            raise Refused("an acknowledgement of a share group", code)
        acknowledged, now = found[0], self._recorder.now()
        if code == ErrorCode.NONE:
            acknowledged.ok(now)
        else:
            acknowledged.failed(now, name_of(code), definite=code in REFUSED)

    def _has_ended(self, share: ShareSession, code: int, what: str) -> bool:
        """Whether the share session has ended. Raises Unanswered for an error that will pass."""
        if code == ErrorCode.NONE:
            share.answered()
            return False
        self.busy_at = self._recorder.now()
        self._closes(share)
        if code in SESSION_ENDED:
            return True
        if code in PASSING:
            raise Unanswered(name_of(code))
        raise Refused(what, code)

    def _closes(self, share: ShareSession) -> None:
        """Record that the records which the node has delivered in the session are released, and reset the session."""
        for acquired in share.held:
            closing = self._acknowledged(acquired, "close")
            self._recorder.add(closing).ok(self._recorder.now())
        share.reset()

    def _acknowledged(self, acquired: Acquired, kind: str) -> Acknowledged:
        return Acknowledged(
            process=self._session.name,
            began=self._recorder.now(),
            topic=acquired.topic,
            partition=acquired.partition,
            group=self._group,
            kind=kind,
            offsets=[offset for offset, _, _ in acquired.records],
        )

    def _name(self, topic_id: bytes) -> str:
        return next(name for name, each in self._ids.items() if each == topic_id)

    async def _learn_ids(self) -> None:
        topics = [MetadataRequestTopic(name=name) for name in self._topics]
        while len(self._ids) < len(self._topics) and not self.stopping.is_set():
            try:
                response = await self._session.call(MetadataRequest(topics=topics), 10, 12)
            except Unanswered:
                await self._session.pause(0.5)
                continue
            self._ids.update((topic.name, bytes(topic.topic_id)) for topic in response.topics if not topic.error_code)
