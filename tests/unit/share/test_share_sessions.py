"""Share sessions: how they begin, go on and end."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.share.share_sessions import EPOCH_MAX, FINAL_EPOCH, Place, SessionKey, ShareSession, ShareSessions

A, B = SessionKey("g", "a"), SessionKey("g", "b")
ONE, TWO, THREE = (b"t" * 16, 0), (b"t" * 16, 1), (b"u" * 16, 0)


def fetch(
    sessions: ShareSessions,
    epoch: int,
    *partitions: Place,
    key: SessionKey = A,
    forgotten: tuple[Place, ...] = (),
    acknowledges: bool = False,
    connection: str = "c1",
) -> ShareSession | None:
    return sessions.fetch(key, epoch, partitions, forgotten, acknowledges=acknowledges, connection=connection)


def code(action: object, *args: object, **kwargs: object) -> int:
    with pytest.raises(ApiError) as refused:
        action(*args, **kwargs)  # type: ignore[operator]  # A function of the module.
    return refused.value.code


def test_requests_name_only_changes_and_each_raises_the_session_epoch() -> None:
    sessions = ShareSessions(10)
    session = fetch(sessions, 0, ONE, TWO)
    assert session is not None
    assert fetch(sessions, 1, THREE, forgotten=(ONE,)) is session
    assert list(session.partitions) == [TWO, THREE]
    sessions.acknowledge(A, 2)
    assert fetch(sessions, 3) is session
    assert list(session.partitions) == [TWO, THREE]


def test_a_request_of_another_epoch_is_rejected_and_changes_nothing() -> None:
    sessions = ShareSessions(10)
    session = fetch(sessions, 0, ONE)
    assert session is not None
    for epoch in (2, 5):
        assert code(fetch, sessions, epoch, TWO) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert code(sessions.acknowledge, A, epoch) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert code(sessions.acknowledge, A, 0) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert (list(session.partitions), session.epoch) == ([ONE], 1)


def test_a_request_without_a_session_gets_an_error() -> None:
    sessions = ShareSessions(10)
    for epoch in (1, FINAL_EPOCH):
        assert code(fetch, sessions, epoch) == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert code(sessions.acknowledge, A, epoch) == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_first_request_with_acknowledgements_is_rejected() -> None:
    sessions = ShareSessions(10)
    assert code(fetch, sessions, 0, ONE, acknowledges=True) == ErrorCode.INVALID_REQUEST
    assert len(sessions) == 0


def test_a_restarted_session_replaces_the_earlier_one() -> None:
    sessions = ShareSessions(1)
    fetch(sessions, 0, ONE)
    again = fetch(sessions, 0, TWO)
    assert again is not None
    assert list(again.partitions) == [TWO]
    assert code(fetch, sessions, 0, ONE, key=B) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert fetch(sessions, FINAL_EPOCH) is None
    assert sessions.end(A)
    assert again.is_over
    assert fetch(sessions, 0, ONE, key=B) is not None


def test_the_sessions_of_a_connection_end_with_it() -> None:
    sessions = ShareSessions(10)
    fetch(sessions, 0, ONE)
    fetch(sessions, 0, TWO, key=B)
    fetch(sessions, 0, THREE, key=SessionKey("h", "c"), connection="c2")
    assert sessions.connection_ended("c1") == [A, B]
    assert sessions.connection_ended("c1") == []
    assert len(sessions) == 1


def test_partitions_that_had_records_go_behind_the_others() -> None:
    session = ShareSession("c1", (ONE, TWO, THREE))
    session.served([ONE])
    assert list(session.partitions) == [TWO, THREE, ONE]


def test_the_epoch_after_the_last_is_the_first() -> None:
    sessions = ShareSessions(10)
    session = fetch(sessions, 0, ONE)
    assert session is not None
    session.epoch = EPOCH_MAX
    fetch(sessions, EPOCH_MAX)
    assert session.epoch == 1
