"""Incremental fetch sessions (KIP-227)."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.replication.sessions.consumer_due import ConsumerDue
from kraft.replication.sessions.fetch_session import (
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    CachedPartition,
    FetchSession,
    FetchSessionCache,
    PartitionKey,
    partitions_of,
    resolve_session,
)
from kraft.world.steps import at_once


def wanted(topic: str, partition: int = 0, offset: int = 0) -> CachedPartition:
    return CachedPartition(PartitionKey(bytes(16), topic, partition), offset, 1 << 20, -1, -1, -1)


def made(cache: FetchSessionCache, privileged: bool = False, now: float = 0.0) -> FetchSession:
    session = cache.create(privileged, False, now)
    assert session is not None
    return session


def test_session_epochs_must_be_consecutive() -> None:
    cache = FetchSessionCache(10, 1)
    session = made(cache)
    assert cache.use(session.id, 1, False, 0.0) is session
    assert cache.use(session.id, 2, False, 0.0) is session
    with pytest.raises(ApiError) as refused:
        cache.use(session.id, 2, False, 0.0)
    assert refused.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_session_is_answered_with_fetch_session_id_not_found() -> None:
    with pytest.raises(ApiError) as refused:
        FetchSessionCache(10, 1).use(5, 1, False, 0.0)
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_refuses_a_switch_between_topic_names_and_topic_ids() -> None:
    cache = FetchSessionCache(10, 1)
    session = made(cache)
    with pytest.raises(ApiError) as refused:
        cache.use(session.id, 1, True, 0.0)
    assert refused.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_update_adds_changes_and_removes_partitions() -> None:
    session = made(FetchSessionCache(10, 1))
    session.update([wanted("a"), wanted("b")], ())
    session.update([wanted("b", offset=7), wanted("c")], [PartitionKey(bytes(16), "a", 0)])
    assert [(partition.key.topic, partition.fetch_offset) for partition in session] == [("b", 7), ("c", 0)]


def test_changing_the_fetch_offset_of_a_session_partition_does_not_resend_unchanged_response_fields() -> None:
    session = made(FetchSessionCache(10, 1))
    session.update([wanted("a")], ())
    assert [each.differs(5, 3, False) for each in session] == [True]
    session.update([wanted("a", offset=7)], ())
    assert [each.differs(5, 3, False) for each in session] == [False]


def test_the_last_entry_of_a_partition_named_twice_applies() -> None:
    mentions = [FetchPartition(partition=0, fetch_offset=offset) for offset in (1, 2)]
    request = FetchRequest(topics=[FetchTopic(topic="a", partitions=mentions)])
    assert [each.fetch_offset for each in at_once(partitions_of(request))] == [2]


def test_a_recreated_session_replaces_the_slot_of_the_old_session() -> None:
    cache = FetchSessionCache(1, 1)
    topics = [FetchTopic(topic="a", partitions=[FetchPartition(partition=0, fetch_offset=0)])]
    session_id = INVALID_SESSION_ID
    for _ in range(3):
        request = FetchRequest(session_id=session_id, session_epoch=INITIAL_EPOCH, topics=topics)
        resolved = resolve_session(request, at_once(partitions_of(request)), 12, cache, is_follower=False, now=0.0)
        assert resolved.session is not None
        session_id = resolved.session.id
    assert len(cache) == 1


def test_an_incremental_response_contains_only_changed_partitions() -> None:
    partition = wanted("a")
    assert partition.differs(5, 0, False)
    assert not partition.differs(5, 0, False)
    assert partition.differs(5, 0, True)
    assert partition.differs(6, 0, False)
    assert partition.differs(6, 1, False)


def test_a_partition_with_data_moves_to_the_end_of_the_order() -> None:
    session = made(FetchSessionCache(10, 1))
    session.update([wanted("a"), wanted("b")], ())
    session.moved_to_end(PartitionKey(bytes(16), "a", 0))
    assert [partition.key.topic for partition in session] == ["b", "a"]


def test_a_full_session_cache_evicts_only_idle_or_lower_priority_sessions() -> None:
    cache = FetchSessionCache(1, 1)
    first = made(cache)
    assert cache.create(False, False, 10.0) is None
    first.consumer_due = due = Mock(ConsumerDue)
    follower = made(cache, privileged=True, now=10.0)
    due.close.assert_called_once_with()
    with pytest.raises(ApiError):
        cache.use(first.id, 1, False, 10.0)
    assert cache.create(True, False, 20.0) is None
    assert made(cache, now=200.0) is not follower
    assert len(cache) == 1


def test_session_idle_time_counts_from_the_last_request() -> None:
    cache = FetchSessionCache(1, 1)
    session = made(cache)
    cache.use(session.id, 1, False, 100.0)
    assert cache.create(False, False, 200.0) is None
    assert cache.create(False, False, 221.0) is not None
