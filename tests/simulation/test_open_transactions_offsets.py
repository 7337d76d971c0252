"""What happens to offsets in an open transaction when their group's coordinator moves, or when the group or its offsets
are deleted before the end. Each is told from what Apache Kafka does."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.simulation.open_transactions import (
    CHANGED,
    GROUP,
    OFFSETS,
    OTHER,
    TRANSACTION_STATE,
    Producer,
    Transactions,
    check_aftermath,
    either_end,
    play,
    settle,
    until_over,
    visible,
)

OTHER_GROUP = "other group"


async def _check_next_offset(transactions: Transactions, producer: Producer, zombie: Producer) -> None:
    """Who was replaced commits nothing, and the group's next transaction is not held up by this one."""
    before = await transactions.offset(GROUP, CHANGED)
    assert await zombie.write_offset(GROUP, CHANGED, 99) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await transactions.offset(GROUP, CHANGED) == before
    assert await producer.write_offset(GROUP, CHANGED, 9) == 0
    await settle(transactions, producer, committed=True)
    assert await transactions.offset(GROUP, CHANGED) == 9


# The coordinator moves.


async def _coordinator_moved(transactions: Transactions, producer: Producer, committed: bool) -> None:
    """What was pending before and what comes after go together."""
    assert await producer.write_offset(GROUP, CHANGED, 1) == 0
    await settle(transactions, producer, committed=True)
    assert await producer.write_offset(GROUP, CHANGED, 3) == 0
    former = transactions.leader(OFFSETS)
    await transactions.reassign(OFFSETS, *(broker for broker in (2, 3, 4) if broker != former))
    assert await transactions.offset(GROUP, CHANGED, require_stable=False) == 1
    assert await producer.write_offset(GROUP, OTHER, 4) == 0
    zombie = producer.zombie()
    await settle(transactions, producer, committed=committed)
    assert await transactions.offset(GROUP, CHANGED) == (3 if committed else 1)
    assert await transactions.offset(GROUP, OTHER) == (4 if committed else -1)
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])
    await _check_next_offset(transactions, producer, zombie)


@either_end
def test_offsets_sent_to_two_group_coordinators_are_committed_together(committed: bool) -> None:
    play(_coordinator_moved, committed=committed)


async def _coordinator_died(transactions: Transactions, producer: Producer, committed: bool) -> None:
    """The end is decided while the group has no coordinator: the one that comes is told."""
    assert await producer.write_offset(GROUP, CHANGED, 3) == 0
    await transactions.reassign(OFFSETS, 3)
    for place in (CHANGED, OTHER, TRANSACTION_STATE):
        await transactions.reassign(place, 2, 4)
    zombie = producer.zombie()
    transactions.cluster.universe.kill("3")
    await transactions.until_led(OFFSETS, -1)
    assert await producer.end(committed=committed) == 0
    await transactions.cluster.universe.sleep(2.0)
    assert await producer.state() == ("PrepareCommit" if committed else "PrepareAbort")
    await transactions.cluster.start("3")
    await until_over(transactions, producer, committed=committed)
    assert await transactions.offset(GROUP, CHANGED) == (3 if committed else -1)
    assert await transactions.committed(CHANGED) == visible(committed, b"1", b"2")
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])
    await _check_next_offset(transactions, producer, zombie)


@either_end
def test_a_group_coordinator_that_was_down_at_the_end_receives_the_marker(committed: bool) -> None:
    play(_coordinator_died, committed=committed)


# Offsets are deleted.


async def _delete_group(transactions: Transactions) -> None:
    answer = await transactions.ask(
        OFFSETS, DeleteGroupsRequest(groups_names=[GROUP]), lambda answer: [answer.results[0].error_code]
    )
    assert answer.results[0].error_code == 0, answer


async def _delete_offset(transactions: Transactions) -> None:
    wanted = OffsetDeleteRequestPartition(partition_index=CHANGED.partition)
    request = OffsetDeleteRequest(
        group_id=GROUP, topics=[OffsetDeleteRequestTopic(name=CHANGED.topic, partitions=[wanted])]
    )
    answer = await transactions.ask(OFFSETS, request, lambda answer: [answer.error_code])
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0), answer


async def _deleted(
    transactions: Transactions, producer: Producer, committed: bool, delete: Any, has_moved: bool, before: bool
) -> None:
    if before:
        assert await producer.write_offset(GROUP, CHANGED, 1) == 0
        await settle(transactions, producer, committed=True)
    assert await producer.write_offset(GROUP, CHANGED, 3) == 0
    await delete(transactions)
    if has_moved:
        former = transactions.leader(OFFSETS)
        await transactions.reassign(OFFSETS, *(broker for broker in (2, 3, 4) if broker != former))
    assert await transactions.offset(GROUP, CHANGED) == -1, "nothing is pending any more"
    assert await producer.write_offset(OTHER_GROUP, CHANGED, 5) == 0
    zombie = producer.zombie()
    await settle(transactions, producer, committed=committed)
    assert await transactions.offset(GROUP, CHANGED) == -1, "it was deleted after it was written"
    assert await transactions.offset(OTHER_GROUP, CHANGED) == (5 if committed else -1)
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])
    await _check_next_offset(transactions, producer, zombie)


@either_end
@pytest.mark.parametrize("before", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("has_moved", [False, True], ids=["stays", "moves"])
@pytest.mark.parametrize("delete", [_delete_group, _delete_offset], ids=["group", "offset"])
def test_an_offset_deleted_before_the_transaction_ends_stays_deleted(
    delete: Any, has_moved: bool, before: bool, committed: bool
) -> None:
    play(_deleted, committed=committed, delete=delete, has_moved=has_moved, before=before)


async def _written_again(transactions: Transactions, producer: Producer, committed: bool, delete: Any) -> None:
    assert await producer.write_offset(GROUP, CHANGED, 3) == 0
    await delete(transactions)
    assert await producer.write_offset(GROUP, CHANGED, 4) == 0
    zombie = producer.zombie()
    await settle(transactions, producer, committed=committed)
    assert await transactions.offset(GROUP, CHANGED) == (4 if committed else -1)
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])
    await _check_next_offset(transactions, producer, zombie)


@either_end
@pytest.mark.parametrize("delete", [_delete_group, _delete_offset], ids=["group", "offset"])
def test_an_offset_written_again_after_its_deletion_is_committed(delete: Any, committed: bool) -> None:
    play(_written_again, committed=committed, delete=delete)
