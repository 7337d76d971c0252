"""The broker's side of incremental fetch sessions (KIP-227). Pure.

A session keeps the partitions of a fetcher and what each was last sent. So an unchanged partition costs nothing on the
wire, in either direction. `fetch_session_handler` is the fetcher's side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.world.steps import Steps

if TYPE_CHECKING:
    from kraft.replication.sessions.consumer_due import ConsumerDue
    from kraft.replication.sessions.due_partitions import DuePartitions

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1

SESSION_VERSION = 7
TOPIC_ID_VERSION = 13

MENTIONS_A_TURN = 1000
"""Partitions of a request that are processed between two yields."""


class PartitionKey(NamedTuple):
    """A partition, with its topic by id (v13 and later) or by name. The other field is empty."""

    topic_id: bytes
    topic: str
    partition: int


class CachedPartition:
    """A partition of a fetch session: the fetcher's request for it, and the offsets last sent."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "told_log_start_offset",
        "turn",
    )

    def __init__(
        self,
        key: PartitionKey,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int,
        log_start_offset: int,
        last_fetched_epoch: int,
    ) -> None:
        self.key = key
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.log_start_offset = log_start_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.high_watermark = -1
        self.told_log_start_offset = -1
        self.turn = 0
        """Its position in the fetch order of the session."""

    def would_differ(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether these offsets differ from those last sent."""
        return high_watermark != self.high_watermark or log_start_offset != self.told_log_start_offset

    def send_again(self) -> None:
        """Include the partition in the next response, with both offsets. After a response with a diverging epoch, the
        fetcher truncates its log and ignores the offsets."""
        self.high_watermark = self.told_log_start_offset = -1

    def differs(self, high_watermark: int, log_start_offset: int, has_news: bool) -> bool:
        """Whether an incremental response must include this partition. Records the high watermark and log start offset
        as sent."""
        changed = has_news or high_watermark != self.high_watermark or log_start_offset != self.told_log_start_offset
        self.high_watermark = high_watermark
        self.told_log_start_offset = log_start_offset
        return changed


class FetchSession:
    """The partitions of a session in fetch order. `epoch` is the session epoch expected in the next request."""

    __slots__ = (
        "_turns",
        "consumer_due",
        "due",
        "epoch",
        "id",
        "last_used",
        "partitions",
        "privileged",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, privileged: bool, uses_topic_ids: bool, now: float) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH + 1
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.last_used = now
        self.partitions: dict[PartitionKey, CachedPartition] = {}
        self.due: DuePartitions | None = None
        """A follower's due partitions."""
        self.consumer_due: ConsumerDue | None = None
        """The due partitions of a consumer with many partitions."""
        self._turns = 0

    def update(self, wanted: Sequence[CachedPartition], forgotten: Sequence[PartitionKey]) -> None:
        """Apply an incremental request: add or change the `wanted` partitions, and remove the `forgotten` ones."""
        for partition in wanted:
            known = self.partitions.get(partition.key)
            if known is not None:
                # With another leader epoch the fetcher started over: it may have dropped the last response.
                if known.current_leader_epoch == partition.current_leader_epoch:
                    partition.high_watermark = known.high_watermark
                    partition.told_log_start_offset = known.told_log_start_offset
                partition.turn = known.turn
            else:
                partition.turn = self._next_turn()
            self.partitions[partition.key] = partition
        for key in forgotten:
            self.partitions.pop(key, None)

    def moved_to_end(self, key: PartitionKey) -> None:
        """Move a partition that returned data to the end of the fetch order, so that it does not starve the others."""
        partition = self.partitions.pop(key, None)
        if partition is not None:
            partition.turn = self._next_turn()
            self.partitions[key] = partition

    def _next_turn(self) -> int:
        self._turns += 1
        return self._turns

    def close(self) -> None:
        """End the session."""
        if self.consumer_due is not None:
            self.consumer_due.close()

    def __len__(self) -> int:
        return len(self.partitions)

    def __iter__(self) -> Iterator[CachedPartition]:
        return iter(list(self.partitions.values()))


class FetchSessionCache:
    """All sessions of a broker, bounded by `max.incremental.fetch.session.cache.slots`.

    A full cache evicts a session that was idle for `idle_seconds`. For a follower it may also evict a consumer's
    session. If there is none to evict, the fetcher continues without a session (id 0), which every client supports.
    """

    __slots__ = ("_idle_seconds", "_next_id", "_sessions", "_slots", "evictions")

    def __init__(self, slots: int, first_id: int, idle_seconds: float = 120.0) -> None:
        self._slots = slots
        self._idle_seconds = idle_seconds
        self._sessions: dict[int, FetchSession] = {}
        self._next_id = max(1, first_id & 0x7FFFFFFF)
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, privileged: bool, uses_topic_ids: bool, now: float) -> FetchSession | None:
        if len(self._sessions) >= self._slots and not self._evict(privileged, now):
            return None
        while self._next_id in self._sessions:
            self._next_id = self._next_id % EPOCH_MAX + 1
        session = FetchSession(self._next_id, privileged, uses_topic_ids, now)
        self._next_id = self._next_id % EPOCH_MAX + 1
        self._sessions[session.id] = session
        return session

    def _evict(self, for_privileged: bool, now: float) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now - oldest.last_used <= self._idle_seconds:
            if not for_privileged:
                return False
            oldest = next((session for session in self._sessions.values() if not session.privileged), None)
            if oldest is None:
                return False
        self.close(oldest.id)
        self.evictions += 1
        return True

    def use(self, session_id: int, epoch: int, uses_topic_ids: bool, now: float) -> FetchSession:
        """Return the session of an incremental request. Raises ApiError FETCH_SESSION_ID_NOT_FOUND,
        INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            raise ApiError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                f"fetch session {session_id} is not known; it may have been evicted",
            )
        self._sessions[session_id] = session  # Most recently used last.
        if session.epoch != epoch:
            raise ApiError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session_id} expects epoch {session.epoch}, not {epoch}",
            )
        if session.uses_topic_ids != uses_topic_ids:
            raise ApiError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                f"fetch session {session_id} was created {'with' if session.uses_topic_ids else 'without'} topic ids",
            )
        session.epoch = session.epoch % EPOCH_MAX + 1
        session.last_used = now
        return session

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()


class RequestedSession(NamedTuple):
    """The session and partitions of one Fetch.

    `session` is None for a Fetch without a session. `mentioned` are the partitions that the request names. `wanted` are
    the partitions to serve: in a session, all of it. The response to an `incremental` request leaves out unchanged
    partitions.
    """

    session: FetchSession | None
    wanted: list[CachedPartition] | FetchSession
    mentioned: list[CachedPartition]
    incremental: bool


def resolve_session(
    request: FetchRequest,
    mentioned: list[CachedPartition],
    version: int,
    sessions: FetchSessionCache,
    *,
    is_follower: bool,
    now: float,
) -> RequestedSession:
    """Return the session of a Fetch. Creates or closes a session as the request says. Raises ApiError like
    `FetchSessionCache.use`."""
    by_id = version >= TOPIC_ID_VERSION
    wanted = mentioned
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != INVALID_SESSION_ID:
            sessions.close(request.session_id)
        if request.session_epoch == FINAL_EPOCH or version < SESSION_VERSION or not wanted:
            return RequestedSession(None, wanted, wanted, False)
        made = sessions.create(is_follower, by_id, now)
        if made is None:
            return RequestedSession(None, wanted, wanted, False)
        made.update(wanted, ())
        return RequestedSession(made, made, wanted, False)
    session = sessions.use(request.session_id, request.session_epoch, by_id, now)
    forgotten = [
        PartitionKey(topic.topic_id, topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    session.update(wanted, forgotten)
    if not session.partitions:
        sessions.close(session.id)
        return RequestedSession(None, wanted, wanted, False)
    return RequestedSession(session, session, wanted, True)


def partitions_of(request: FetchRequest) -> Steps[list[CachedPartition]]:
    """The partitions that a Fetch names, each once: the last mention counts. Yields after each MENTIONS_A_TURN."""
    found: dict[PartitionKey, CachedPartition] = {}
    left = MENTIONS_A_TURN
    for topic in request.topics:
        for wanted in topic.partitions:
            key = PartitionKey(topic.topic_id, topic.topic, wanted.partition)
            found[key] = CachedPartition(
                key,
                wanted.fetch_offset,
                wanted.partition_max_bytes,
                wanted.current_leader_epoch,
                wanted.log_start_offset,
                wanted.last_fetched_epoch,
            )
            left -= 1
            if not left:
                left = MENTIONS_A_TURN
                yield None
    return list(found.values())
