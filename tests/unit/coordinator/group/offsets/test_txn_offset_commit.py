"""TxnOffsetCommit through the group coordinator: verified first, pending until the marker, rebuilt from the log."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft.common.errors import ApiError
from kraft.common.internal_topics import OFFSETS_TOPIC
from kraft.coordinator.shard import Marker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kraft.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordinator.group_host import TestCaller
from tests.unit.coordinator.service import CALLER, Service, ask, code_of, commit, committed, neighbour, run, serving

UNSTABLE = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


async def txn_commit(service: Service, offset: int, *, version: int = 5, topic: str = "t", **fields: object) -> int:
    """TxnOffsetCommit of partition 0 by producer 7; the error code."""
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=7,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
            )
        ],
        **fields,  # type: ignore[arg-type]
    )
    response = await service.coordinator.txn_offset_commit(request, TestCaller(version))
    return response.topics[0].partitions[0].error_code


async def end(service: Service, *, committed: bool, epoch: int = 0) -> None:
    partition = service.coordinator.partition_for("g")
    await service.coordinator.complete_transaction(partition, Marker(7, epoch, 1, committed, 0))


async def stable(service: Service) -> tuple[int, int]:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)], require_stable=True)
    (partition,) = (await service.coordinator.offset_fetch(request, CALLER)).groups[0].topics[0].partitions
    return partition.committed_offset, partition.error_code


@pytest.mark.parametrize("commits", [True, False])
def test_transactional_offsets_apply_once_their_transaction_is_committed(commits: bool) -> None:
    async def test() -> None:
        async with serving() as service:
            await commit(service, 3)
            assert await txn_commit(service, 5) == 0
            assert (await committed(service), await stable(service)) == (3, UNSTABLE)
            await end(service, committed=commits)
            outcome = 5 if commits else 3
            assert (await committed(service), await stable(service)) == (outcome, (outcome, 0))

    run(test)


@pytest.mark.parametrize("ended", [False, True])
def test_pending_offsets_are_rebuilt_from_the_log(ended: bool) -> None:
    async def test() -> None:
        async with serving() as service:
            await commit(service, 3)
            await txn_commit(service, 5)
            if ended:
                await end(service, committed=True)
            await service.lead(epoch=2)
            if not ended:
                assert (await committed(service), await stable(service)) == (3, UNSTABLE)
                await end(service, committed=True)
            assert (await committed(service), await stable(service)) == (5, (5, 0))

    run(test)


def test_commits_outside_a_transaction_share_no_batch_with_transactional_ones() -> None:
    """They wait together for a log that is slow."""

    async def test() -> None:
        async with serving() as service, trio.open_nursery() as nursery:
            gate = service.log.gate = trio.Event()
            asked = [ask(nursery, commit(service, 3))]
            await trio.testing.wait_all_tasks_blocked()
            asked.append(ask(nursery, commit(service, 4)))
            await trio.testing.wait_all_tasks_blocked()
            pending = ask(nursery, txn_commit(service, 5))
            await trio.testing.wait_all_tasks_blocked()
            other = neighbour(service, "g")
            asked.append(ask(nursery, commit(service, 6, other)))
            await trio.testing.wait_all_tasks_blocked()
            gate.set()
            await trio.testing.wait_all_tasks_blocked()
            assert (pending.response, [code_of(each.response) for each in asked]) == (0, [0, 0, 0])
            batches = service.log.batches[service.partition("g")]
            assert [(batch.is_transactional, len(batch.entries)) for batch in batches[-2:]] == [(True, 1), (False, 1)]
            await end(service, committed=False)
            await service.lead(epoch=2)
            assert (await committed(service), await committed(service, other)) == (4, 6)

    run(test)


def test_the_transaction_coordinator_verifies_once_per_transaction_and_adds_for_newer_clients() -> None:
    async def test() -> None:
        async with serving() as service:
            for version in (4, 5):
                assert await txn_commit(service, 1, version=version) == 0
                assert await txn_commit(service, 2, version=version) == 0
                await end(service, committed=True)
            assert service.transactions.asked == [("x", 7, 0, False), ("x", 7, 0, True)]

    run(test)


@pytest.mark.parametrize(
    ("theirs", "version", "ours"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NETWORK_EXCEPTION, 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.INVALID_TXN_STATE, 0, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_offsets_are_not_written_without_verification_by_the_transaction_coordinator(
    theirs: int, version: int, ours: int
) -> None:
    async def test() -> None:
        async with serving() as service:
            service.transactions.codes[OFFSETS_TOPIC, service.coordinator.partition_for("g")] = theirs
            assert await txn_commit(service, 5, version=version) == ours
            assert (service.log.appends, await stable(service)) == (0, (-1, 0))

    run(test)


def test_a_verification_that_arrives_after_the_marker_admits_no_offsets() -> None:
    async def test() -> None:
        async with serving() as service, trio.open_nursery() as nursery:
            service.log.gate = trio.Event()
            late = ask(nursery, end(service, committed=False))
            await trio.testing.wait_all_tasks_blocked()
            commit_after = ask(nursery, txn_commit(service, 5))
            await trio.testing.wait_all_tasks_blocked()
            service.log.gate.set()
            await trio.testing.wait_all_tasks_blocked()
            assert not late.scope.cancel_called
            assert commit_after.response == ErrorCode.INVALID_TXN_STATE
            assert await stable(service) == (-1, 0)

    run(test)


def test_invalid_requests_are_refused_without_verification() -> None:
    async def test() -> None:
        async with serving(lead=False) as service:
            assert await txn_commit(service, 5, topic="missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await txn_commit(service, 5) == ErrorCode.NOT_COORDINATOR
            assert not service.transactions.asked
            with pytest.raises(ApiError):
                await end(service, committed=True)

    run(test)


def by_id(topic_id: bytes, *indexes: int) -> TxnOffsetCommitRequestTopic:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in indexes]
    return TxnOffsetCommitRequestTopic(topic_id=topic_id, partitions=partitions)


def test_topics_are_committed_by_id_and_unknown_ids_are_refused() -> None:
    async def test() -> None:
        async with serving() as service:
            known = service.topics.topic_id("t")
            assert known is not None
            request = TxnOffsetCommitRequest(
                transactional_id="x",
                group_id="g",
                producer_id=7,
                topics=[by_id(b"?" * 16, 0), by_id(known, 0, 9), by_id(b"!" * 16, 0)],
            )
            response = await service.coordinator.txn_offset_commit(request, TestCaller(6))
            assert [(topic.topic_id, [each.error_code for each in topic.partitions]) for topic in response.topics] == [
                (b"?" * 16, [ErrorCode.UNKNOWN_TOPIC_ID]),
                (known, [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
                (b"!" * 16, [ErrorCode.UNKNOWN_TOPIC_ID]),
            ]
            await end(service, committed=True)
            assert await committed(service) == 5

    run(test)


def test_offsets_by_id_belong_to_that_topic_when_it_is_recreated_on_the_way() -> None:
    async def test() -> None:
        async with serving() as service, trio.open_nursery() as nursery:
            known = service.topics.topic_id("t")
            assert known is not None
            request = TxnOffsetCommitRequest(
                transactional_id="x", group_id="g", producer_id=7, topics=[by_id(known, 0)]
            )
            service.transactions.gate = trio.Event()
            pending = ask(nursery, service.coordinator.txn_offset_commit(request, TestCaller(6)))
            await trio.testing.wait_all_tasks_blocked()
            service.topics.delete_and_recreate()
            service.transactions.gate.set()
            await trio.testing.wait_all_tasks_blocked()
            assert pending.response.topics[0].partitions[0].error_code == ErrorCode.NONE
            await end(service, committed=True)
            assert await committed(service) == -1, "the offset is of the topic before"

    run(test)
