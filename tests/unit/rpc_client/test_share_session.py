"""The share session of a client: what it sends, and that every acknowledgement is applied or reported."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kraft.common.errors import ApiError, KraftError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from kraft.protocol.messages.share_acknowledge_response import PartitionData as AcknowledgedPartition
from kraft.protocol.messages.share_acknowledge_response import (
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kraft.protocol.messages.share_fetch_request import ShareFetchRequest
from kraft.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.rpc_client.share_session import (
    ACCEPT,
    EPOCH_MAX,
    FINAL_EPOCH,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    AcquiredRecord,
    LockState,
    Place,
    Request,
    ShareSession,
)

TOPIC = b"topic-id-of-jobs"
P0, P1 = (TOPIC, 0), (TOPIC, 1)
LOCK_MS = 30_000
Acquired = list[tuple[int, int, int]]
"""First and last offset, and delivery count."""


def session() -> ShareSession:
    return ShareSession("workers", "member-1")


def ask(share: ShareSession, *wanted: Place, now: float = 0.0, **options: Any) -> Request | None:
    return share.next_request(wanted or (P0,), now, **{"records_max": 100, "wait_ms": 500, **options})


def batch(*offsets: int) -> bytes:
    return build_batch([Record(each, 0, None, b"%d" % each) for each in offsets], leader_epoch=3)


def brought(
    acquired: Acquired = (),  # type: ignore[assignment]
    records: bytes = b"",
    *,
    place: Place = P0,
    code: int = 0,
    acknowledge_code: int = 0,
) -> ShareFetchResponse:
    """A response to a ShareFetch with one partition."""
    data = PartitionData(
        partition_index=place[1],
        error_code=code,
        acknowledge_error_code=acknowledge_code,
        records=records,
        acquired_records=[
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in acquired
        ],
    )
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=LOCK_MS,
        responses=[ShareFetchableTopicResponse(topic_id=place[0], partitions=[data])],
    )


def applied(*places: Place, code: int = 0, lock_ms: int = LOCK_MS) -> ShareAcknowledgeResponse:
    """A response to a ShareAcknowledge of these partitions."""
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=[
            ShareAcknowledgeTopicResponse(
                topic_id=topic_id, partitions=[AcknowledgedPartition(partition_index=index, error_code=code)]
            )
            for topic_id, index in places
        ],
    )


def acknowledged(request: Request | None) -> dict[int, list[tuple[int, int, list[int]]]]:
    """The acknowledgements of a request by partition: first and last offset, and types."""
    assert request is not None
    return {
        each.partition_index: [
            (one.first_offset, one.last_offset, one.acknowledge_types) for one in each.acknowledgement_batches
        ]
        for topic in request.topics
        for each in topic.partitions
        if each.acknowledgement_batches
    }


def holding(*offsets: int) -> tuple[ShareSession, list[AcquiredRecord]]:
    """A session that has acquired these offsets of the first partition, without gaps between them, at time 0."""
    share = session()
    ask(share)
    found = share.on_fetch(brought([(offsets[0], offsets[-1], 1)], batch(*offsets)), 0.0).acquired
    return share, found


def test_the_first_fetch_lists_all_partitions_and_later_ones_only_changes() -> None:
    share = session()
    first = ask(share, P0, P1)
    assert isinstance(first, ShareFetchRequest)
    assert (first.share_session_epoch, first.group_id, first.member_id) == (0, "workers", "member-1")
    assert [each.partition_index for each in first.topics[0].partitions] == [0, 1]
    share.on_fetch(brought(), 0.0)
    second = ask(share, P0, P1)
    assert isinstance(second, ShareFetchRequest)
    assert (second.share_session_epoch, second.topics, second.forgotten_topics_data) == (1, [], [])
    share.on_fetch(brought(), 0.0)
    third = ask(share, P1)
    assert isinstance(third, ShareFetchRequest)
    assert third.share_session_epoch == 2
    assert [(each.topic_id, each.partitions) for each in third.forgotten_topics_data] == [(TOPIC, [0])]


def test_acquired_records_have_their_delivery_count_and_other_records_of_the_batch_are_left_out() -> None:
    share = session()
    ask(share)
    result = share.on_fetch(brought([(4, 5, 1), (7, 7, 3)], batch(3, 4, 5, 6, 7, 8)), 0.0)
    assert [(each.record.offset, each.delivery_count) for each in result.acquired] == [(4, 1), (5, 1), (7, 3)]
    assert {each.leader_epoch for each in result.acquired} == {3}
    assert share.held_count == 3


def test_acknowledgements_go_with_the_next_fetch_as_ranges_of_one_type() -> None:
    share, records = holding(0, 1, 2, 3)
    for each, kind in zip(records, (ACCEPT, ACCEPT, RELEASE, ACCEPT), strict=True):
        share.acknowledge(each.lock, kind)
    request = ask(share)
    assert isinstance(request, ShareFetchRequest)
    assert acknowledged(request) == {0: [(0, 1, [ACCEPT]), (2, 2, [RELEASE]), (3, 3, [ACCEPT])]}
    share.on_fetch(brought(), 0.0)
    assert not share.failures
    assert share.settled_count == share.queued_count == 4


def test_flushed_acknowledgements_go_by_a_request_that_does_not_wait() -> None:
    share, records = holding(0)
    share.acknowledge(records[0].lock, REJECT)
    request = ask(share, flushes=True)
    assert isinstance(request, ShareAcknowledgeRequest)
    assert (request.share_session_epoch, request.is_renew_ack) == (1, False)
    share.on_acknowledge(applied(P0), 0.0)
    assert share.epoch == 2
    assert ask(share, flushes=True, records_max=0) is None


def test_acknowledgements_of_a_partition_that_is_not_fetched_any_more_do_not_fetch_it_again() -> None:
    share, records = holding(0)
    share.acknowledge(records[0].lock, ACCEPT)
    request = ask(share, P1)
    assert isinstance(request, ShareAcknowledgeRequest)
    assert acknowledged(request) == {0: [(0, 0, [ACCEPT])]}


def test_a_renewal_goes_by_a_request_without_a_fetch_and_moves_the_deadline() -> None:
    share, records = holding(0)
    share.acknowledge(records[0].lock, RENEW)
    request = ask(share, now=20.0)
    assert isinstance(request, ShareAcknowledgeRequest)
    assert request.is_renew_ack
    share.on_acknowledge(applied(P0), 20.0)
    share.expire(49.9)
    assert share.held_count == 1
    share.acknowledge(records[0].lock, ACCEPT)
    assert acknowledged(ask(share, now=49.9)) == {0: [(0, 0, [ACCEPT])]}


def test_a_failed_renewal_loses_the_lock_and_is_reported() -> None:
    share, records = holding(0)
    share.acknowledge(records[0].lock, RENEW)
    ask(share)
    share.on_acknowledge(applied(P0, code=ErrorCode.INVALID_RECORD_STATE), 0.0)
    assert (share.held_count, records[0].lock.state) == (0, LockState.LOST)
    share.acknowledge(records[0].lock, ACCEPT)
    assert share.failures[P0].acknowledgements == 2


def test_an_acknowledgement_replaces_a_renewal_that_was_not_sent() -> None:
    share, records = holding(0)
    share.acknowledge(records[0].lock, RENEW)
    share.acknowledge(records[0].lock, ACCEPT)
    request = ask(share)
    assert isinstance(request, ShareFetchRequest)
    assert acknowledged(request) == {0: [(0, 0, [ACCEPT])]}
    share.on_fetch(brought(), 0.0)
    assert share.settled_count == share.queued_count


def test_renewals_that_the_broker_does_not_know_fail_and_the_other_acknowledgements_are_sent() -> None:
    share, records = holding(0, 1)
    share.acknowledge(records[0].lock, RENEW)
    share.acknowledge(records[1].lock, ACCEPT)
    ask(share)
    share.refuse_renewals(KraftError("not known"))
    assert (share.failures[P0].acknowledgements, records[0].lock.state) == (1, LockState.HELD)
    assert acknowledged(ask(share)) == {0: [(1, 1, [ACCEPT])]}


def test_a_record_is_acknowledged_once() -> None:
    share, records = holding(0)
    share.acknowledge(records[0].lock, ACCEPT)
    with pytest.raises(KraftError, match="offset 0 is acknowledged already"):
        share.acknowledge(records[0].lock, RELEASE)


def test_acknowledgements_of_a_lost_session_are_reported_as_failed() -> None:
    share, records = holding(0, 1, 2)
    share.acknowledge(records[0].lock, ACCEPT)
    ask(share)  # Offset 0 is in flight.
    share.acknowledge(records[1].lock, ACCEPT)
    share.lose(KraftError("the connection is closed"))
    assert share.failures[P0][:3] == (2, 0, 1)
    share.acknowledge(records[2].lock, ACCEPT)
    assert share.failures[P0][:3] == (3, 0, 2)
    assert share.settled_count == share.queued_count == 3
    request = ask(share)
    assert isinstance(request, ShareFetchRequest)
    assert (request.share_session_epoch, acknowledged(request)) == (0, {})
    assert [each.partition_index for each in request.topics[0].partitions] == [0]


@pytest.mark.parametrize("code", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH])
def test_a_session_that_the_broker_does_not_know_begins_again(code: int) -> None:
    share, records = holding(0)
    share.acknowledge(records[0].lock, ACCEPT)
    ask(share)
    with pytest.raises(ApiError, match="share session of group workers"):
        share.on_fetch(ShareFetchResponse(error_code=code), 0.0)
    assert (share.epoch, share.failures[P0].acknowledgements) == (0, 1)


def test_a_rejected_acknowledgement_is_reported_and_one_that_the_response_leaves_out_as_well() -> None:
    share, records = holding(0, 1)
    share.acknowledge(records[0].lock, ACCEPT)
    ask(share)
    share.on_fetch(brought(acknowledge_code=ErrorCode.NOT_LEADER_OR_FOLLOWER), 0.0)
    problem = share.failures.pop(P0).problem
    assert isinstance(problem, ApiError)
    assert problem.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    share.acknowledge(records[1].lock, ACCEPT)
    ask(share, flushes=True)
    share.on_acknowledge(applied(), 0.0)
    assert "does not mention" in str(share.failures[P0].problem)


def test_an_expired_acknowledgement_is_reported_and_not_sent_with_the_others() -> None:
    share, records = holding(0)
    ask(share)
    later = share.on_fetch(brought([(1, 1, 1)], batch(1)), 20.0).acquired
    for each in (*records, *later):
        share.acknowledge(each.lock, ACCEPT)
    assert acknowledged(ask(share, now=30.0)) == {0: [(1, 1, [ACCEPT])]}
    assert share.failures[P0][:3] == (1, 0, 0)
    assert "share.record.lock.duration.ms" in str(share.failures[P0].problem)


def test_a_record_whose_lock_ended_is_not_in_flight_any_more() -> None:
    share, records = holding(0, 1)
    share.expire(29.9)
    assert share.held_count == 2
    share.expire(30.0)
    assert (share.held_count, records[0].lock.state) == (0, LockState.LOST)


def test_acquired_offsets_without_a_record_are_acknowledged_as_gaps() -> None:
    share = session()
    ask(share)
    result = share.on_fetch(brought([(2, 9, 1)], batch(3, 4, 7)), 0.0)
    assert [each.record.offset for each in result.acquired] == [3, 4, 7]
    assert acknowledged(ask(share)) == {0: [(2, 2, [GAP]), (5, 6, [GAP]), (8, 9, [GAP])]}


def test_records_from_a_damaged_batch_on_are_released_and_the_damage_is_reported() -> None:
    damaged = bytearray(batch(2, 3))
    damaged[-2] ^= 1
    share = session()
    ask(share)
    result = share.on_fetch(brought([(0, 3, 1)], batch(0, 1) + bytes(damaged)), 0.0)
    assert [each.record.offset for each in result.acquired] == [0, 1]
    assert P0 in result.damaged
    assert acknowledged(ask(share)) == {0: [(2, 3, [RELEASE])]}


def test_the_last_request_sends_acknowledgements_without_renewals_and_ends_the_session() -> None:
    share, records = holding(0, 1, 2)
    share.acknowledge(records[0].lock, ACCEPT)
    share.acknowledge(records[1].lock, RENEW)
    request = share.last_request(0.0)
    assert request is not None
    assert (request.share_session_epoch, request.is_renew_ack) == (FINAL_EPOCH, False)
    assert acknowledged(request) == {0: [(0, 0, [ACCEPT])]}
    share.on_acknowledge(applied(P0), 0.0, ends=True)
    assert (share.epoch, share.held_count, share.failures) == (0, 0, {})
    assert share.settled_count == share.queued_count
    assert share.last_request(0.0) is None


def test_a_session_without_partitions_and_records_ends() -> None:
    share, records = holding(0)
    assert share.next_request((), 0.0) is None  # The record is held.
    share.acknowledge(records[0].lock, ACCEPT)
    share.next_request((), 0.0)
    share.on_acknowledge(applied(P0), 0.0)
    last = share.next_request((), 0.0)
    assert isinstance(last, ShareAcknowledgeRequest)
    assert last.share_session_epoch == FINAL_EPOCH
    share.on_acknowledge(applied(), 0.0, ends=True)
    assert share.next_request((), 0.0) is None


def test_a_full_consumer_fetches_nothing() -> None:
    share, _ = holding(0)
    assert ask(share, records_max=0) is None


def test_the_epoch_after_the_largest_is_one() -> None:
    share, _ = holding(0)
    share.epoch = EPOCH_MAX
    ask(share)
    share.on_fetch(brought(), 0.0)
    assert share.epoch == 1


@pytest.mark.parametrize("seed", range(30))
def test_each_acknowledgement_is_applied_once_or_reported(seed: int) -> None:
    """Whatever fails in between: rejected partitions, lost sessions, expired locks."""
    chance = random.Random(seed)
    share = session()
    now, offset, made, accepted = 0.0, 0, 0, 0
    held: list[AcquiredRecord] = []
    reported = 0
    for _ in range(300):
        now += chance.choice((0.0, 1.0, 12.0))
        for each in [each for each in held if chance.random() < 0.4]:
            held.remove(each)
            share.acknowledge(each.lock, chance.choice((ACCEPT, RELEASE, REJECT)))
            made += 1
        request = ask(share, now=now, flushes=chance.random() < 0.3)
        assert request is not None
        count = sum(last - first + 1 for first, last, _ in acknowledged(request).get(0, ()))
        fate = chance.choice(("applied", "applied", "applied", "rejected", "lost"))
        code = ErrorCode.INVALID_RECORD_STATE if fate == "rejected" else 0
        if fate == "lost":
            share.lose(KraftError("the connection is closed"))
        elif isinstance(request, ShareAcknowledgeRequest):
            share.on_acknowledge(applied(P0, code=code), now)
        else:
            acquired = [(offset, offset + 2, 1)]
            found = brought(acquired, batch(offset, offset + 1, offset + 2), acknowledge_code=code)
            held += share.on_fetch(found, now).acquired
            offset += 3
        accepted += count if fate == "applied" else 0
        reported += sum(each.acknowledgements for each in share.failures.values())
        share.failures.clear()
    share.lose(KraftError("closed"))
    reported += sum(each.acknowledgements for each in share.failures.values())
    assert accepted + reported == made
    assert share.settled_count == share.queued_count


def test_a_session_of_offsets_only_has_every_acquired_offset_whatever_the_data_holds() -> None:
    share = ShareSession("workers", "member-1", offsets_only=True)
    ask(share)
    result = share.on_fetch(brought([(0, 1, 1), (4, 6, 2)], b"not a batch"), 0.0)
    assert [(each.record.offset, each.delivery_count) for each in result.acquired] == [
        (0, 1),
        (1, 1),
        (4, 2),
        (5, 2),
        (6, 2),
    ]
    assert {each.record.value for each in result.acquired} == {None}
    assert not result.damaged
    assert share.held_count == 5
    assert not share.has_queued
    for each in result.acquired[:4]:
        share.acknowledge(each.lock, ACCEPT)
    assert acknowledged(ask(share)) == {0: [(0, 1, [ACCEPT]), (4, 5, [ACCEPT])]}
