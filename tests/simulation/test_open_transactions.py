"""What happens to an open transaction when a topic that it writes to changes: each change in a world of its own, then
the end, a zombie, and the producer's next transaction. See `play`."""

from __future__ import annotations

import pytest

from kraft.common.ids import TopicPartition
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.rpc_client.consumer import READ_UNCOMMITTED
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

# A topic is deleted.


async def _deleted(transactions: Transactions, producer: Producer, committed: bool) -> None:
    zombie = producer.zombie()
    await transactions.delete(CHANGED.topic)
    await settle(transactions, producer, committed=committed)
    assert await transactions.committed(OTHER) == visible(committed, b"1", b"2")
    await check_aftermath(transactions, producer, zombie, [OTHER])


@either_end
def test_a_transaction_ends_although_one_of_its_topics_is_deleted(committed: bool) -> None:
    play(_deleted, committed=committed)


async def _deleted_while_prepared(transactions: Transactions, producer: Producer, committed: bool) -> None:
    """The leader of its topic is dead when it ends, so that the marker waits until the topic is deleted."""
    await transactions.reassign(CHANGED, 4)
    await transactions.reassign(TRANSACTION_STATE, 2, 3)
    zombie = producer.zombie()
    transactions.cluster.universe.kill("4")
    await transactions.until_led(CHANGED, -1)
    assert await producer.end(committed=committed) == 0
    await transactions.cluster.universe.sleep(5.0)
    assert await producer.state() == ("PrepareCommit" if committed else "PrepareAbort")
    await transactions.delete(CHANGED.topic)
    await until_over(transactions, producer, committed=committed)
    assert await transactions.committed(OTHER) == visible(committed, b"1", b"2")
    await check_aftermath(transactions, producer, zombie, [OTHER])


@either_end
def test_deleting_a_topic_drops_a_marker_that_waits_for_its_leader(committed: bool) -> None:
    play(_deleted_while_prepared, committed=committed)


# A topic is recreated under its name.


async def _recreated(transactions: Transactions, producer: Producer, committed: bool) -> None:
    """Its group had committed an offset of it in the transaction, as well."""
    assert await producer.write_offset(GROUP, CHANGED, 2) == 0
    zombie = producer.zombie()
    await transactions.delete(CHANGED.topic)
    await transactions.create(CHANGED.topic, [3, 4, 2], min_insync_replicas="1")
    for broker in (2, 3, 4):
        log = transactions.log(CHANGED, broker)
        assert (log.log_end_offset, log.has_producers) == (0, False)
    assert await transactions.offset(GROUP, CHANGED) == -1, "of the topic before"
    await settle(transactions, producer, committed=committed)
    assert await transactions.offset(GROUP, CHANGED) == -1, "of the topic before"
    values, markers = await transactions.fetch(CHANGED, READ_UNCOMMITTED)
    assert (values, len(markers)) == ([], 1), "markers name topics, not their ids: one comes here, as in Kafka"
    assert await transactions.committed(OTHER) == visible(committed, b"1", b"2")
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])


@either_end
def test_a_recreated_topic_has_no_state_of_its_predecessors_transaction(committed: bool) -> None:
    play(_recreated, committed=committed)


# A topic grows.


async def _grown(transactions: Transactions, producer: Producer, committed: bool) -> None:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=CHANGED.topic, count=2, assignments=None)], timeout_ms=5000
    )
    response = await transactions.cluster.call("2", request)
    assert response.results[0].error_code == 0, response
    added = TopicPartition(CHANGED.topic, 1)
    assert await producer.write(added, b"3") == 0
    assert await producer.write(CHANGED, b"4") == 0
    zombie = producer.zombie()
    assert await transactions.committed(added) == []
    await settle(transactions, producer, committed=committed)
    assert await transactions.committed(added) == visible(committed, b"3")
    assert await transactions.committed(CHANGED) == visible(committed, b"1", b"2", b"4")
    await check_aftermath(transactions, producer, zombie, [CHANGED, added, OTHER])


@either_end
def test_a_transaction_can_write_to_an_added_partition(committed: bool) -> None:
    play(_grown, committed=committed)


# Partitions move.


async def _moved(transactions: Transactions, producer: Producer, committed: bool, moved: TopicPartition) -> None:
    """Away from the broker that leads, whichever that is, to others that have a part or nothing of its log."""
    assert await producer.write_offset(GROUP, OTHER, 7) == 0
    former = transactions.leader(moved)
    stays, comes = (broker for broker in (2, 3, 4) if broker != former)
    await transactions.reassign(moved, former, stays)
    await transactions.reassign(moved, comes)
    assert await producer.write(CHANGED, b"3") == 0
    zombie = producer.zombie()
    await settle(transactions, producer, committed=committed)
    for place, values in ((CHANGED, (b"1", b"2", b"3")), (OTHER, (b"1", b"2"))):
        assert await transactions.committed(place) == visible(committed, *values)
    assert await transactions.offset(GROUP, OTHER) == (7 if committed else -1)
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])


async def _coordinator_moved_while_prepared(transactions: Transactions, producer: Producer, committed: bool) -> None:
    await transactions.reassign(CHANGED, 4)
    await transactions.reassign(TRANSACTION_STATE, 2)
    zombie = producer.zombie()
    transactions.cluster.universe.kill("4")
    await transactions.until_led(CHANGED, -1)
    assert await producer.end(committed=committed) == 0
    await transactions.reassign(TRANSACTION_STATE, 3)
    await transactions.cluster.start("4")
    await until_over(transactions, producer, committed=committed)
    for place in (CHANGED, OTHER):
        assert await transactions.committed(place) == visible(committed, b"1", b"2")
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])


@either_end
def test_the_next_coordinator_writes_pending_markers(committed: bool) -> None:
    play(_coordinator_moved_while_prepared, committed=committed)


@either_end
@pytest.mark.parametrize("moved", [CHANGED, TRANSACTION_STATE, OFFSETS], ids=lambda place: place.topic)
def test_a_transaction_ends_after_a_partition_was_reassigned(moved: TopicPartition, committed: bool) -> None:
    play(_moved, committed=committed, moved=moved)
