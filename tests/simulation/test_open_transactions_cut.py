"""What happens to an open transaction when its log loses records under it: to an unclean election, to DeleteRecords or
to retention. Each is told from what Apache Kafka does."""

from __future__ import annotations

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraft.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kraft.rpc_client.consumer import READ_UNCOMMITTED
from tests.simulation.open_transactions import (
    CHANGED,
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

SHORT = {"internal_segment_bytes": "100"}
"""Each batch is a segment."""
UNCLEAN = {"unclean_leader_election_enable": "true"}

# Records are deleted.


async def _records_deleted(transactions: Transactions, producer: Producer, committed: bool, up_to: int) -> None:
    assert await producer.write(CHANGED, b"3", b"4") == 0
    zombie = producer.zombie()
    await _delete_records(transactions, up_to)
    await _end_what_is_left(transactions, producer, zombie, committed=committed, up_to=up_to)


async def _delete_records(transactions: Transactions, up_to: int) -> None:
    wanted = DeleteRecordsPartition(partition_index=CHANGED.partition, offset=up_to)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=CHANGED.topic, partitions=[wanted])], timeout_ms=30_000
    )
    response = await transactions.cluster.call(str(transactions.leader(CHANGED)), request)
    told = response.topics[0].partitions[0]
    assert (told.error_code, told.low_watermark) == (0, up_to)


async def _end_what_is_left(
    transactions: Transactions, producer: Producer, zombie: Producer, *, committed: bool, up_to: int
) -> None:
    """Of b"1" to b"4", those at `up_to` and later are there; the transaction stays open until it is ended."""
    left = [b"1", b"2", b"3", b"4"][up_to:]
    log = transactions.log(CHANGED)
    assert (log.log_start_offset, log.last_stable_offset, log.high_watermark) == (up_to, up_to, 4)
    assert await transactions.committed(CHANGED) == []
    assert (await transactions.fetch(CHANGED, READ_UNCOMMITTED))[0] == left
    await settle(transactions, producer, committed=committed)
    assert await transactions.committed(CHANGED) == visible(committed, *left)
    assert await transactions.committed(OTHER) == visible(committed, b"1", b"2")
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])


@either_end
@pytest.mark.parametrize("up_to", [1, 2, 4])
def test_a_transaction_ends_after_delete_records_removed_its_first_records(up_to: int, committed: bool) -> None:
    play(_records_deleted, committed=committed, up_to=up_to)


async def _goes_on_after_deletion(transactions: Transactions, producer: Producer, committed: bool, up_to: int) -> None:
    zombie = producer.zombie()
    await _delete_records(transactions, up_to)
    assert await producer.write(CHANGED, b"3") == 0
    assert transactions.log(CHANGED).last_stable_offset == up_to
    await settle(transactions, producer, committed=committed)
    assert await transactions.committed(CHANGED) == visible(committed, *[b"1", b"2", b"3"][up_to:])
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])


@either_end
@pytest.mark.parametrize("up_to", [1, 2])
def test_a_transaction_continues_after_delete_records_removed_its_first_records(up_to: int, committed: bool) -> None:
    play(_goes_on_after_deletion, committed=committed, up_to=up_to)


async def _deleted_and_moved(transactions: Transactions, producer: Producer, committed: bool, up_to: int) -> None:
    """To a replica that copies what is left. Where that is nothing, it has not heard of the producer."""
    await transactions.reassign(CHANGED, 2, 3)
    assert await producer.write(CHANGED, b"3", b"4") == 0
    zombie = producer.zombie()
    await _delete_records(transactions, up_to)
    await transactions.reassign(CHANGED, 4)
    if up_to == 4:
        assert await producer.write(CHANGED, b"5") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        await settle(transactions, producer, committed=committed)
        assert await transactions.committed(CHANGED) == []
        await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])
    else:
        await _end_what_is_left(transactions, producer, zombie, committed=committed, up_to=up_to)


@either_end
@pytest.mark.parametrize("up_to", [1, 2, 4])
def test_a_transaction_ends_after_its_remaining_records_were_reassigned(up_to: int, committed: bool) -> None:
    play(_deleted_and_moved, committed=committed, up_to=up_to)


async def _retained_no_longer(transactions: Transactions, producer: Producer, committed: bool) -> None:
    """The segment of its first batch is one too many for a while."""
    assert await producer.write(CHANGED, b"3", b"4") == 0
    await transactions.cluster.configure("2", "retention.bytes", "1", CHANGED.topic)
    zombie = producer.zombie()
    for broker in (2, 3, 4):
        log = transactions.log(CHANGED, broker)
        await transactions.until(lambda log=log: log.log_start_offset == 2, "the first batch is gone")
    await transactions.cluster.configure("2", "retention.bytes", "-1", CHANGED.topic)
    await _end_what_is_left(transactions, producer, zombie, committed=committed, up_to=2)


@either_end
def test_a_transaction_ends_after_retention_removed_its_first_batch(committed: bool) -> None:
    play(_retained_no_longer, committed=committed, configs=SHORT)


# A leader is overtaken.


async def _alone(transactions: Transactions) -> None:
    """From now on broker 2 has what 3, which will lead, does not hear of; everything else is elsewhere."""
    await transactions.reassign(CHANGED, 2, 3)
    for place in (OTHER, TRANSACTION_STATE, OFFSETS):
        await transactions.reassign(place, 4)
    transactions.cluster.universe.cut("2", "3")


async def _overtake(transactions: Transactions) -> None:
    assert transactions.registration(CHANGED).isr == (2,), "what was written is committed without 3"
    transactions.cluster.universe.kill("2")
    transactions.cluster.universe.heal()
    await transactions.until_led(CHANGED, 3)
    await transactions.cluster.start("2")
    await transactions.until(lambda: set(transactions.registration(CHANGED).isr) == {2, 3}, "2 has followed")


KEPT_RECORDS = (b"1", b"2")


async def _part_lost(transactions: Transactions, producer: Producer, committed: bool, goes_on: bool) -> None:
    await _alone(transactions)
    assert await producer.write(CHANGED, b"3") == 0
    zombie = producer.zombie()
    await _overtake(transactions)
    assert transactions.log(CHANGED).last_stable_offset == 0
    if goes_on:
        assert await producer.write(CHANGED, b"4") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    await settle(transactions, producer, committed=committed)
    assert await transactions.committed(CHANGED) == visible(committed, *KEPT_RECORDS)
    assert await transactions.committed(OTHER) == visible(committed, b"1", b"2")
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])


@either_end
@pytest.mark.parametrize("goes_on", [False, True], ids=["ends", "goes-on"])
def test_a_transaction_ends_after_an_unclean_election_lost_its_last_records(goes_on: bool, committed: bool) -> None:
    play(_part_lost, committed=committed, goes_on=goes_on, configs=UNCLEAN)


async def _all_lost(
    transactions: Transactions, producer: Producer, committed: bool, goes_on: bool, leader: int
) -> None:
    """All that the second transaction had in the partition; the first one stays. The former leader may lead again."""
    await settle(transactions, producer, committed=True)
    await _alone(transactions)
    for place in (CHANGED, OTHER):
        assert await producer.write(place, b"3", b"4") == 0
    zombie = producer.zombie()
    await _overtake(transactions)
    await transactions.reassign(CHANGED, leader)
    log = transactions.log(CHANGED)
    await transactions.until(lambda: log.first_unstable_offset is None, "nothing is open")
    if goes_on:
        assert await producer.write(CHANGED, b"5") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    await settle(transactions, producer, committed=committed)
    assert await transactions.committed(CHANGED) == [*KEPT_RECORDS]
    assert await transactions.committed(OTHER) == [b"1", b"2", *visible(committed, b"3", b"4")]
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])


@either_end
@pytest.mark.parametrize("leader", [2, 3])
@pytest.mark.parametrize("goes_on", [False, True], ids=["ends", "goes-on"])
def test_a_transaction_ends_after_an_unclean_election_lost_all_its_records(
    goes_on: bool, leader: int, committed: bool
) -> None:
    play(_all_lost, committed=committed, goes_on=goes_on, leader=leader, configs=UNCLEAN)


async def _prepared(transactions: Transactions, producer: Producer, committed: bool) -> None:
    """The end is decided while nobody leads; then the next leader is elected, without the last records."""
    await _alone(transactions)
    assert await producer.write(CHANGED, b"3") == 0
    zombie = producer.zombie()
    transactions.cluster.universe.kill("3")
    await transactions.cluster.universe.sleep(1.0)
    transactions.cluster.universe.kill("2")
    await transactions.until_led(CHANGED, -1)
    assert await producer.end(committed=committed) == 0
    await transactions.cluster.universe.sleep(2.0)
    assert await producer.state() == ("PrepareCommit" if committed else "PrepareAbort")
    transactions.cluster.universe.heal()
    await transactions.cluster.start("3")
    await transactions.until_led(CHANGED, 3)
    await until_over(transactions, producer, committed=committed)
    assert await transactions.committed(CHANGED) == visible(committed, *KEPT_RECORDS)
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])


@either_end
def test_an_uncleanly_elected_leader_receives_the_pending_marker(committed: bool) -> None:
    play(_prepared, committed=committed, configs=UNCLEAN)


async def _marker_lost(transactions: Transactions, producer: Producer, committed: bool) -> None:
    zombie = await _lose_marker(transactions, producer, committed=committed)
    marker = WritableTxnMarker(
        producer_id=producer.id,
        producer_epoch=zombie.epoch,
        transaction_result=committed,
        topics=[WritableTxnMarkerTopic(name=CHANGED.topic, partition_indexes=[CHANGED.partition])],
    )
    answer = await transactions.cluster.call("3", WriteTxnMarkersRequest(markers=[marker]))
    assert answer.markers[0].topics[0].partitions[0].error_code == 0, answer
    assert await transactions.committed(CHANGED) == visible(committed, *KEPT_RECORDS)
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])


async def _lose_marker(transactions: Transactions, producer: Producer, *, committed: bool) -> Producer:
    """The transaction is over everywhere else; who wrote it is returned."""
    await _alone(transactions)
    zombie = producer.zombie()
    await settle(transactions, producer, committed=committed)
    assert transactions.log(CHANGED).last_stable_offset == 3
    await _overtake(transactions)
    log = transactions.log(CHANGED)
    assert (log.last_stable_offset, log.high_watermark) == (0, 2), "it is open again"
    assert await transactions.committed(CHANGED) == []
    assert await transactions.committed(OTHER) == visible(committed, b"1", b"2")
    return zombie


@either_end
def test_write_txn_markers_ends_a_transaction_whose_marker_was_lost(committed: bool) -> None:
    play(_marker_lost, committed=committed, configs=UNCLEAN)


async def _goes_on_without_marker(transactions: Transactions, producer: Producer) -> None:
    zombie = await _lose_marker(transactions, producer, committed=True)
    assert await producer.write(CHANGED, b"3") == 0
    assert await transactions.committed(CHANGED) == []
    await settle(transactions, producer, committed=True)
    assert await transactions.committed(CHANGED) == [*KEPT_RECORDS, b"3"]
    await check_aftermath(transactions, producer, zombie, [CHANGED, OTHER])


def test_the_producers_next_transaction_ends_one_whose_marker_was_lost() -> None:
    play(_goes_on_without_marker, configs=UNCLEAN)
