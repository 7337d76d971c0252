"""Which members of a consumer group may commit, by their epochs (KIP-848, KIP-1251)."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.coordinator.group.consumer.offsets import check_commit, check_transactional_commit
from kraft.protocol.error_codes import ErrorCode
from tests.unit.coordinator.consumers import Consumer, ConsumerHost, settle
from tests.unit.coordinator.fakes import Topics

VERSION = 10


@pytest.fixture
def host() -> ConsumerHost:
    topics = Topics("t")
    topics.counts["t"] = 2
    return ConsumerHost(topics=topics)


def code(host: ConsumerHost, member: Consumer, epoch: int, partition: int) -> int:
    """What a commit of one partition is answered; that of the whole request where it is refused."""
    ((topic_id, _), *_) = member.owned or {(b"", 0)}
    try:
        check = check_commit(host.group, member.member_id, epoch, VERSION)
        return ErrorCode.NONE if check is None else check(topic_id, partition)
    except ApiError as refused:
        return refused.code


def test_a_commit_with_an_older_epoch_is_accepted_for_partitions_owned_since_then(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t").join()
    old = first.epoch
    second = Consumer(host, "b", "t").join()
    settle(host, first, second)
    kept, lost = next(iter(first.has)), next(iter(second.has))
    assert first.epoch > old
    assert code(host, first, first.epoch, kept) == ErrorCode.NONE
    assert code(host, first, old, kept) == ErrorCode.NONE
    assert code(host, first, old, lost) == ErrorCode.STALE_MEMBER_EPOCH
    assert code(host, first, first.epoch + 1, kept) == ErrorCode.STALE_MEMBER_EPOCH


def test_a_commit_with_an_epoch_from_before_another_owner_is_stale(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t").join()
    old = first.epoch
    second = Consumer(host, "b", "t").join()
    settle(host, first, second)
    (lent,) = second.has
    (kept,) = first.has
    second.leave()
    settle(host, first)
    assert first.has == {lent, kept}
    assert code(host, first, old, kept) == ErrorCode.NONE
    assert code(host, first, old, lent) == ErrorCode.STALE_MEMBER_EPOCH, "the other may have committed more since"
    assert code(host, first, first.epoch, lent) == ErrorCode.NONE


def test_a_member_with_pending_revocations_may_commit_for_partitions_that_another_member_owns(
    host: ConsumerHost,
) -> None:
    """It is in the same epoch all the while, as in Kafka: its epoch is what its commits are judged by."""
    host.topics.counts["t"] = 12
    first = Consumer(host, "a", "t").join()
    epoch, all_of_them = first.epoch, first.has
    second = Consumer(host, "b", "t").join()
    beat_until(host, first, has=6)
    given_up = all_of_them - {partition for _, partition in first.assigned}
    third = Consumer(host, "c", "t").join()
    beat_until(host, first, has=4)
    second.beat()
    third.beat()
    taken = min(given_up & (second.has | third.has))
    assert first.epoch == epoch < second.epoch
    assert code(host, first, epoch, taken) == ErrorCode.NONE
    first.beat()
    assert first.epoch > epoch
    assert code(host, first, epoch, taken) == ErrorCode.STALE_MEMBER_EPOCH


def beat_until(host: ConsumerHost, member: Consumer, *, has: int) -> None:
    for _ in range(3):
        host.advance(host.consumer_configs.settings.assignment_interval_ms)
        member.beat()
        if len(member.assigned) == has:
            return
    raise AssertionError(f"it has {len(member.assigned)}")


@pytest.mark.parametrize(
    ("knows_epochs", "refusal"), [(False, ErrorCode.ILLEGAL_GENERATION), (True, ErrorCode.STALE_MEMBER_EPOCH)]
)
def test_a_transactional_commit_with_a_wrong_epoch_is_stale_for_producers_that_know_epochs(
    host: ConsumerHost, knows_epochs: bool, refusal: int
) -> None:
    first = Consumer(host, "a", "t").join()
    old = first.epoch
    second = Consumer(host, "b", "t").join()
    settle(host, first, second)
    ((topic_id, _), *_) = first.owned
    lost = next(iter(second.has))
    check = check_transactional_commit(host.group, first.member_id, None, old, knows_epochs=knows_epochs)
    assert check is not None
    assert check(topic_id, lost) == refusal
    with pytest.raises(ApiError) as newer:
        check_transactional_commit(host.group, first.member_id, None, first.epoch + 1, knows_epochs=knows_epochs)
    assert newer.value.code == refusal
