"""Which session a Fetch means, and so what it asks for (KIP-227). A follower's request also makes what it mentions
due."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.replication.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    CachedPartition,
    FetchSession,
    FetchSessionCache,
    PartitionKey,
)

SESSION_VERSION = 7
TOPIC_ID_VERSION = 13


class RequestedSession(NamedTuple):
    """`session` is None where the request stands for itself. `mentioned` is what this request says, `wanted` what it
    is about.

    An incremental answer leaves out what has not changed.
    """

    session: FetchSession | None
    wanted: Iterable[CachedPartition]
    mentioned: list[CachedPartition]
    incremental: bool


def resolve_session(
    request: FetchRequest, version: int, sessions: FetchSessionCache, *, is_follower: bool, now: float
) -> RequestedSession:
    """Raises ApiError as `FetchSessionCache.use` does."""
    by_id = version >= TOPIC_ID_VERSION
    wanted = _mentioned(request)
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


def _mentioned(request: FetchRequest) -> list[CachedPartition]:
    return [
        CachedPartition(
            PartitionKey(topic.topic_id, topic.topic, wanted.partition),
            wanted.fetch_offset,
            wanted.partition_max_bytes,
            wanted.current_leader_epoch,
            wanted.log_start_offset,
            wanted.last_fetched_epoch,
        )
        for topic in request.topics
        for wanted in topic.partitions
    ]
