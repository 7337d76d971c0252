"""The fetcher's side of an incremental fetch session (KIP-227). It keeps the fields of each partition's last request,
so that only changes are sent. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from kraft.replication.sessions.fetch_session import EPOCH_MAX, INITIAL_EPOCH, INVALID_SESSION_ID

Key = tuple[bytes, int]
"""Topic id and partition index."""

ISOLATION_READ_UNCOMMITTED: Final = 0


class Wanted(NamedTuple):
    """A follower's request for one partition. `last_fetched_epoch` is -1 for an empty log."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class FetchLimits(NamedTuple):
    """Kafka's replica.fetch.* keys: wait.max.ms, min.bytes, response.max.bytes, max.bytes."""

    wait_ms_max: int
    bytes_min: int
    response_bytes_max: int
    partition_bytes_max: int


class FetchSessionHandler:
    """The fetch session with one leader. `build` makes the next request. `answered` or `broken` must follow."""

    def __init__(self) -> None:
        self._id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._told: dict[Key, Wanted] = {}

    def broken(self) -> None:
        """Drop the session: the response was lost, or the leader does not know the session. The next request names
        every partition."""
        self._id, self._epoch, self._told = INVALID_SESSION_ID, INITIAL_EPOCH, {}

    def build(
        self, wanted: dict[Key, Wanted], forgotten: list[Key], replica: ReplicaState, limits: FetchLimits, wait_ms: int
    ) -> FetchRequest:
        """Return a Fetch for `wanted`: all of them in a new session, else only those that changed since the last
        request. The `forgotten` partitions are removed from the session."""
        told = self._told
        topics: dict[bytes, list[FetchPartition]] = {}
        for key, want in wanted.items():
            if told.get(key) != want:
                told[key] = want
                topics.setdefault(key[0], []).append(_partition(key[1], want, limits))
        leaving: dict[bytes, list[int]] = {}
        for key in forgotten:
            if told.pop(key, None) is not None:
                leaving.setdefault(key[0], []).append(key[1])
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=limits.bytes_min,
            max_bytes=limits.response_bytes_max,
            isolation_level=ISOLATION_READ_UNCOMMITTED,
            session_id=self._id,
            session_epoch=self._epoch,
            replica_state=replica,
            topics=[FetchTopic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in leaving.items()
            ],
        )

    def answered(self, session_id: int) -> bool:
        """Record a response. Returns False if the leader has no room for a session: every request then names all
        partitions."""
        if session_id == INVALID_SESSION_ID:
            self.broken()
            return False
        if session_id != self._id:
            self._id, self._epoch = session_id, INITIAL_EPOCH + 1
        else:
            self._epoch = self._epoch % EPOCH_MAX + 1
        return True


def _partition(index: int, want: Wanted, limits: FetchLimits) -> FetchPartition:
    return FetchPartition(
        partition=index,
        current_leader_epoch=want.leader_epoch,
        fetch_offset=want.fetch_offset,
        last_fetched_epoch=want.last_fetched_epoch,
        log_start_offset=want.log_start_offset,
        partition_max_bytes=limits.partition_bytes_max,
    )
