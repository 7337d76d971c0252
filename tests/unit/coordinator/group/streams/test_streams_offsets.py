"""Who may commit and fetch offsets of a streams group: members with the current epoch, and with an older one for tasks
that they have kept (KIP-1251)."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.coordinator.group.offsets.offset_commit import commit_offsets
from kraft.coordinator.group.offsets.txn_offset_commit import MEMBER_ERRORS_VERSION, commit_transactional_offsets
from kraft.coordinator.group.streams.offsets import check_commit, check_fetch, check_transactional_commit
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordinator.group.streams.applications import Application
from tests.unit.coordinator.group_host import commit_request

NAMED, WITH_IDS = 9, 10
GENERATIONS_ONLY = 8


def shared() -> tuple[Application, int]:
    """Two members have a partition of "t" each. Returns the first one's epoch before the second one joined."""
    made = Application()
    made.join("a")
    before = made.epochs["a"]
    made.join("b")
    made.settle("a", "b")
    assert made.epochs["a"] > before
    return made, before


def commit(made: Application, partition: int, member: str, epoch: int, version: int = NAMED) -> int:
    """The error code of an OffsetCommit of a partition of "t", or of the whole request."""
    request = commit_request("g", {("t", partition): 7}, member, epoch)
    topic_id = made.host.topics.topic_id("t")
    assert topic_id is not None
    request.topics[0].topic_id = topic_id  # The service resolves names.
    try:
        response = made.host.run(lambda draft: commit_offsets(draft, request, version))[1]
    except ApiError as refused:
        return refused.code
    return int(response.topics[0].partitions[0].error_code)


def test_a_member_commits_with_its_epoch() -> None:
    made, _ = shared()
    assert commit(made, 0, "a", made.epochs["a"]) == ErrorCode.NONE
    assert commit(made, 1, "a", made.epochs["a"]) == ErrorCode.NONE, "Kafka does not look whose partition it is"
    assert len(made.host.offsets("g")) == 2


def test_an_older_epoch_commits_partitions_of_tasks_that_the_member_has_kept() -> None:
    made, before = shared()
    [kept] = made.active("a")["0"]
    assert commit(made, kept, "a", before) == ErrorCode.NONE
    assert commit(made, 1 - kept, "a", before) == ErrorCode.STALE_MEMBER_EPOCH
    assert [place.partition for place in made.host.offsets("g")] == [kept]


def test_an_older_epoch_commits_no_partition_of_a_task_assigned_later() -> None:
    made, before = shared()
    [given] = made.active("b")["0"]
    assert commit(made, given, "b", before) == ErrorCode.STALE_MEMBER_EPOCH


def test_one_partition_that_may_not_be_committed_refuses_the_whole_request() -> None:
    made, before = shared()
    request = commit_request("g", {("t", 0): 7, ("t", 1): 7}, "a", before)
    with pytest.raises(ApiError) as refusal:
        made.host.run(lambda draft: commit_offsets(draft, request, NAMED))
    assert refusal.value.code == ErrorCode.STALE_MEMBER_EPOCH
    assert not made.host.offsets("g")


def test_one_partition_that_may_not_be_committed_refuses_the_whole_commit_of_a_transaction() -> None:
    made, before = shared()
    parts = [TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in (0, 1)]
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        generation_id_or_member_epoch=before,
        member_id="a",
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=parts)],
    )
    with pytest.raises(ApiError) as refusal:
        made.host.run(
            lambda draft: commit_transactional_offsets(draft, request, made.host.topics, MEMBER_ERRORS_VERSION)
        )
    assert refusal.value.code == ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("member", "more", "version", "code"),
    [
        ("a", 1, NAMED, ErrorCode.STALE_MEMBER_EPOCH),
        ("nobody", 0, NAMED, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 0, GENERATIONS_ONLY, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_other_commits_are_refused(member: str, more: int, version: int, code: int) -> None:
    made, _ = shared()
    assert commit(made, 0, member, made.epochs["a"] + more, version) == code
    assert not made.host.offsets("g")


def test_a_commit_without_a_member_needs_a_group_without_members() -> None:
    made, _ = shared()
    assert commit(made, 0, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    made.leave("a")
    made.leave("b")
    assert commit(made, 0, "", -1) == ErrorCode.NONE


def test_a_transaction_without_a_member_may_commit() -> None:
    """Its producer fences others by its own epoch."""
    made, _ = shared()

    def check(member: str, epoch: int, *, knows_epochs: bool = True) -> object:
        return check_transactional_commit(
            made.group, member, None, epoch, knows_epochs=knows_epochs, topic_name=made.host.topics.topic_name
        )

    assert check("", -1) is None
    assert check("a", made.epochs["a"]) is None
    for knows_epochs, code in ((True, ErrorCode.STALE_MEMBER_EPOCH), (False, ErrorCode.ILLEGAL_GENERATION)):
        with pytest.raises(ApiError) as refusal:
            check("a", made.epochs["a"] + 1, knows_epochs=knows_epochs)
        assert refusal.value.code == code
    partition_check = check("a", -1)
    assert callable(partition_check)
    assert partition_check(b"t".ljust(16, b"."), 0) == ErrorCode.STALE_MEMBER_EPOCH


def test_members_fetch_offsets_with_their_epoch() -> None:
    made, before = shared()
    group, epoch = made.group, made.epochs["a"]
    assert check_fetch(group, None, -1) == ErrorCode.NONE
    assert check_fetch(group, "a", epoch) == ErrorCode.NONE
    assert check_fetch(group, "a", before) == ErrorCode.STALE_MEMBER_EPOCH
    assert check_fetch(group, "nobody", epoch) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_epoch_without_a_member_fetches_nothing() -> None:
    made, _ = shared()
    for epoch in (0, made.epochs["a"]):
        assert check_fetch(made.group, None, epoch) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_check_of_an_older_epoch_takes_topic_ids() -> None:
    made, before = shared()
    [kept] = made.active("a")["0"]
    check = check_commit(made.group, "a", before, WITH_IDS, made.host.topics.topic_name)
    assert check is not None
    known = made.host.topics.topic_id("t")
    assert known is not None
    assert [check(topic, kept) for topic in (known, b"x" * 16)] == [ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH]
