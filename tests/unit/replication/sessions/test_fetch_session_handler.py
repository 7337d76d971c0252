"""The fetcher's end of a fetch session: what is told again, and what is not."""

from __future__ import annotations

from kraft.protocol.messages.fetch_request import FetchRequest, ReplicaState
from kraft.replication.sessions.fetch_session_handler import FetchLimits, FetchSessionHandler, Key, Wanted

TOPIC = bytes(15) + b"\x07"
LIMITS = FetchLimits(500, 1, 10 << 20, 1 << 20)


def want(offset: int) -> Wanted:
    return Wanted(0, offset, 0, 0)


def build(session: FetchSessionHandler, forgotten: list[Key] | None = None, **offsets: int) -> FetchRequest:
    wanted = {(TOPIC, int(name[1:])): want(offset) for name, offset in offsets.items()}
    return session.build(wanted, forgotten or [], ReplicaState(replica_id=2, replica_epoch=5), LIMITS, 500)


def told(request: FetchRequest) -> dict[int, int]:
    return {partition.partition: partition.fetch_offset for topic in request.topics for partition in topic.partitions}


def test_a_new_session_names_all_partitions_and_later_only_changed_ones() -> None:
    session = FetchSessionHandler()
    first = build(session, p0=0, p1=5)
    assert (first.session_id, first.session_epoch, told(first)) == (0, 0, {0: 0, 1: 5})
    session.answered(77)
    second = build(session, p0=3, p1=5)
    assert (second.session_id, second.session_epoch, told(second)) == (77, 1, {0: 3})
    session.answered(77)
    third = build(session, p0=3, p1=5)
    assert (third.session_epoch, third.topics) == (2, [])


def test_a_removed_partition_is_forgotten_once_and_sent_in_full_when_added_again() -> None:
    session = FetchSessionHandler()
    build(session, p0=0, p1=5)
    session.answered(77)
    leaving = build(session, [(TOPIC, 1)], p0=0)
    assert [(topic.topic_id, topic.partitions) for topic in leaving.forgotten_topics_data] == [(TOPIC, [1])]
    session.answered(77)
    assert not build(session, [(TOPIC, 1)], p0=0).forgotten_topics_data
    session.answered(77)
    assert told(build(session, p0=0, p1=5)) == {1: 5}


def test_without_a_session_every_request_names_all_partitions() -> None:
    session = FetchSessionHandler()
    build(session, p0=0)
    session.answered(0)
    again = build(session, p0=0)
    assert (again.session_id, again.session_epoch, told(again)) == (0, 0, {0: 0})


def test_after_a_disconnect_a_new_session_names_all_partitions() -> None:
    session = FetchSessionHandler()
    build(session, p0=0)
    session.answered(77)
    session.broken()
    again = build(session, p0=0)
    assert (again.session_id, again.session_epoch, told(again)) == (0, 0, {0: 0})
