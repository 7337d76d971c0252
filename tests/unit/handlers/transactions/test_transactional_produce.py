"""Transactional Produce: what the coordinator is asked, what may change while it is asked, and what clients of each
version are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import trio

from kraft.handlers.transactions.write_txn_markers import write_markers
from kraft.network.reply import Reply, Staged
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import SIZE_BYTES, encode_request
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import PartitionProduceResponse
from kraft.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, batch, broker, decoded, simulate

PRODUCER = 7
Answer = Mapping[tuple[str, int], int]


class Coordinator:
    """Stands for the way to the transaction coordinator: answers what the test says once `gate` is open."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int, int, tuple[tuple[str, int], ...], bool]] = []
        self.gate = trio.Event()
        self.gate.set()
        self.is_required = True

    def confirms(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> bool:
        return False

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
    ) -> Answer:
        self.asked.append((transactional_id, producer_id, producer_epoch, tuple(partitions), add))
        await self.gate.wait()
        return self.answers.pop(0) if self.answers else {}


def coordinate(made: Broker, *answers: Answer) -> Coordinator:
    coordinator = Coordinator(*answers)
    made.server.services.transaction_partitions = coordinator
    return coordinator


def records(sequence: int = 0, *values: bytes, epoch: int = 0, producer_id: int = PRODUCER) -> bytes:
    return batch(
        *(values or (b"a",)),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


def produce(*batches: bytes, acks: int = -1) -> ProduceRequest:
    """A batch for each partition of topic t."""
    data = [PartitionProduceData(index=index, records=each) for index, each in enumerate(batches)]
    return ProduceRequest(
        transactional_id="x", acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )


async def answers_to(made: Broker, request: ProduceRequest, version: int = 12) -> list[PartitionProduceResponse]:
    answer = await made.ask(request, version)
    partitions: list[PartitionProduceResponse] = answer.responses[0].partition_responses
    return partitions


async def end(made: Broker, *, committed: bool, epoch: int = 0, version: int = 0) -> int:
    """Have the transaction's end written to partition 0 of t; the error code."""
    marker = WritableTxnMarker(
        producer_id=PRODUCER,
        producer_epoch=epoch,
        transaction_result=committed,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=1,
        transaction_version=version,
    )
    response = await write_markers(WriteTxnMarkersRequest(markers=[marker]), made.server.services)
    return response.markers[0].topics[0].partitions[0].error_code


@pytest.mark.parametrize("version", [3, 11, 12])
def test_the_first_transactional_batch_is_verified_and_later_ones_need_no_verification(version: int) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            coordinator = coordinate(made)
            (first,) = await answers_to(made, produce(records(0)), version)
            assert (first.error_code, first.base_offset) == (0, 0)
            assert coordinator.asked == [("x", PRODUCER, 0, (("t", 0),), version >= 12)]
            assert isinstance(made.dispatch(produce(records(1)), version), Reply)
            assert len(coordinator.asked) == 1
            assert made.partition("t").log.last_stable_offset == 0
            assert await end(made, committed=True) == 0
            assert made.partition("t").log.last_stable_offset == 3

    simulate(play)


def test_the_request_frame_may_be_reused_during_a_verification() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            coordinator = coordinate(made)
            coordinator.gate = trio.Event()
            request = produce(records(0, b"kept"))
            frame = bytearray(encode_request(0, 12, 7, "client", request)[SIZE_BYTES:])
            outcome = made.server.dispatcher.dispatch(made.peer, memoryview(frame))
            assert isinstance(outcome, Staged)
            frame[:] = bytes(len(frame))
            coordinator.gate.set()
            answer = decoded(0, 12, await outcome).responses[0].partition_responses[0]
            assert answer.error_code == 0
            assert b"kept" in made.partition("t").log.read(0, 1000).read()

    simulate(play)


def test_the_next_produce_of_a_connection_waits_until_the_verified_batch_is_appended() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            coordinator = coordinate(made)
            coordinator.gate = trio.Event()
            outcome = made.dispatch(produce(records(0)), 12)
            assert isinstance(outcome, Staged)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_await, outcome)
                while not coordinator.asked:
                    await trio.lowlevel.checkpoint()
                assert not outcome.first_stage.is_over
                coordinator.gate.set()
                await outcome.first_stage.wait()
                assert made.partition("t").log.log_end_offset == 1

    simulate(play)


async def _await(outcome: Staged) -> None:
    await outcome


def during_verification(change: Any, code: int, *, version: int = 12) -> None:
    """Play `change` while the coordinator is asked about a first batch, which must be refused with `code` then."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("t")
            coordinator = coordinate(made)
            coordinator.gate = trio.Event()
            outcome = made.dispatch(produce(records(0)), version)
            assert not isinstance(outcome, Reply)
            answers: list[Reply] = []

            async def wait() -> None:
                answers.append(await outcome)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                while not coordinator.asked:
                    await trio.lowlevel.checkpoint()
                await change(made, topic)
                end_offset = made.partition("t").log.log_end_offset
                coordinator.gate.set()
            answer = decoded(0, version, answers[0]).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (code, -1)
            assert made.partition("t").log.log_end_offset == end_offset
            assert made.partition("t").log.last_stable_offset == end_offset

    simulate(play)


@pytest.mark.parametrize("committed", [True, False])
def test_a_verification_that_arrives_after_the_marker_admits_no_batch(committed: bool) -> None:
    async def change(made: Broker, topic: bytes) -> None:
        assert await end(made, committed=committed) == 0

    during_verification(change, ErrorCode.INVALID_TXN_STATE)


def test_a_verification_of_an_older_producer_epoch_admits_no_batch() -> None:
    async def change(made: Broker, topic: bytes) -> None:
        assert await end(made, committed=False, epoch=1, version=2) == 0

    during_verification(change, ErrorCode.INVALID_TXN_STATE)


def test_a_verification_of_an_older_leader_epoch_admits_no_batch() -> None:
    async def change(made: Broker, topic: bytes) -> None:
        made.change(topic, leader=2, isr=[NODE, 2], replicas=[NODE, 2])
        made.change(topic, leader=NODE, isr=[NODE], replicas=[NODE])

    during_verification(change, ErrorCode.NOT_LEADER_OR_FOLLOWER)


COORDINATORS_CODES = [
    (ErrorCode.INVALID_TXN_STATE, 3, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.TRANSACTION_ABORTABLE, 12, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ErrorCode.NETWORK_EXCEPTION, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 3, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.NOT_COORDINATOR, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.CONCURRENT_TRANSACTIONS, 12, ErrorCode.CONCURRENT_TRANSACTIONS),
]


@pytest.mark.parametrize(("theirs", "version", "ours"), COORDINATORS_CODES)
def test_each_produce_version_gets_an_error_code_that_it_supports(theirs: int, version: int, ours: int) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 2)
            coordinate(made, *[{("t", 1): theirs}] * 20)
            good, bad = await answers_to(made, produce(records(), records()), version)
            assert (good.error_code, good.base_offset) == (0, 0)
            assert (bad.error_code, bad.base_offset, bad.log_start_offset) == (ours, -1, -1)
            assert [made.partition("t", index).log.log_end_offset for index in (0, 1)] == [1, 0]

    simulate(play)


def test_a_verification_during_transaction_completion_is_retried() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            busy = {("t", 0): ErrorCode.CONCURRENT_TRANSACTIONS}
            coordinator = coordinate(made, busy, busy, {})
            (answer,) = await answers_to(made, produce(records()))
            assert (answer.error_code, len(coordinator.asked)) == (0, 3)

    simulate(play)


class CoordinatorHere(Coordinator):
    """That of this broker: says at once whether it is `known`."""

    def __init__(self, known: bool) -> None:
        super().__init__({("t", 0): ErrorCode.TRANSACTION_ABORTABLE})
        self.known = known
        self.confirmed: list[tuple[str, int, int, tuple[tuple[str, int], ...]]] = []

    def confirms(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> bool:
        self.confirmed.append((transactional_id, producer_id, producer_epoch, tuple(partitions)))
        return self.known


def test_a_batch_verified_by_the_local_coordinator_is_appended_immediately() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 2)
            here = made.server.services.transaction_partitions = CoordinatorHere(known=True)
            assert isinstance(made.dispatch(produce(records(), records()), 9), Reply)
            assert here.confirmed == [("x", PRODUCER, 0, (("t", 0), ("t", 1)))]
            assert [made.partition("t", index).log.log_end_offset for index in (0, 1)] == [1, 1]
            assert isinstance(made.dispatch(produce(records(1)), 9), Reply)
            assert len(here.confirmed) == 1, "its transaction is open there"
            assert not here.asked

    simulate(play)


def test_a_batch_not_verified_by_the_local_coordinator_is_verified_remotely_and_refused() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            here = made.server.services.transaction_partitions = CoordinatorHere(known=False)
            (answer,) = await answers_to(made, produce(records()), 9)
            assert (answer.error_code, len(here.asked)) == (ErrorCode.INVALID_TXN_STATE, 1)
            assert made.partition("t").log.log_end_offset == 0

    simulate(play)


def test_a_partition_that_must_be_added_is_not_verified_locally() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            here = made.server.services.transaction_partitions = CoordinatorHere(known=True)
            await answers_to(made, produce(records()), 12)
            assert [added for *_, added in here.asked] == [True]
            assert not here.confirmed

    simulate(play)


class MarkerMeanwhile(Coordinator):
    """The previous transaction is being completed when it is asked first; its marker comes before it answers."""

    def __init__(self, made: Broker) -> None:
        super().__init__({("t", 0): ErrorCode.CONCURRENT_TRANSACTIONS})
        self.made = made

    async def verify(self, *arguments: Any, add: bool) -> Answer:
        if not self.asked:
            assert await end(self.made, committed=True, epoch=1, version=2) == 0
        return await super().verify(*arguments, add=add)


def test_a_marker_of_the_previous_transaction_does_not_refuse_the_next_transaction() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            coordinate(made)
            (answer,) = await answers_to(made, produce(records()))
            assert answer.error_code == 0
            coordinator = made.server.services.transaction_partitions = MarkerMeanwhile(made)
            (answer,) = await answers_to(made, produce(records(epoch=1)))
            assert (answer.error_code, len(coordinator.asked)) == (0, 2)

    simulate(play)


def test_a_refused_transactional_batch_without_acks_closes_the_connection() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            coordinate(made, {("t", 0): ErrorCode.INVALID_TXN_STATE})
            outcome = made.dispatch(produce(records(), acks=0), 12)
            assert not isinstance(outcome, Reply)
            reply = await outcome
            assert (reply.close_after, reply.parts) == (True, ())
            outcome = made.dispatch(produce(records(), acks=0), 12)
            assert not isinstance(outcome, Reply)
            assert not (await outcome).close_after
            assert made.partition("t").log.log_end_offset == 1

    simulate(play)


def test_a_batch_may_not_overtake_one_whose_verification_failed() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            coordinate(made, {("t", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE})
            (failed,) = await answers_to(made, produce(records(0)), 11)
            (overtaking,) = await answers_to(made, produce(records(1)), 11)
            (again,) = await answers_to(made, produce(records(0)), 11)
            assert [each.error_code for each in (failed, overtaking, again)] == [
                ErrorCode.NOT_ENOUGH_REPLICAS,
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                ErrorCode.NONE,
            ]

    simulate(play)


def test_an_unknown_producer_of_transaction_version_2_starts_at_sequence_0() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            coordinate(made)
            (answer,) = await answers_to(made, produce(records(5)), 12)
            assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    simulate(play)


def test_batches_of_two_producers_refuse_the_whole_request() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 2)
            coordinator = coordinate(made)
            answers = await answers_to(made, produce(records(), records(producer_id=8)))
            assert [each.error_code for each in answers] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
            assert not coordinator.asked

    simulate(play)


def test_with_verification_disabled_only_implicit_partition_adding_asks_the_coordinator() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 2)
            coordinator = coordinate(made)
            coordinator.is_required = False
            assert isinstance(made.dispatch(produce(records()), 11), Reply)
            assert made.partition("t").log.log_end_offset == 1
            assert not coordinator.asked
            await answers_to(made, produce(b"", records(0)), 12)
            assert [asked[3:] for asked in coordinator.asked] == [((("t", 1),), True)]

    simulate(play)


def test_transactional_writes_to_internal_topics_are_refused_without_verification() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("__consumer_offsets")
            coordinator = coordinate(made)
            request = produce(records())
            request.topic_data[0].name = "__consumer_offsets"
            (answer,) = await answers_to(made, request)
            assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
            assert not coordinator.asked

    simulate(play)


def test_large_batches_are_verified_too() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            coordinator = coordinate(made)
            (answer,) = await answers_to(made, produce(records(0, b"x" * 300_000)))
            assert (answer.error_code, len(coordinator.asked)) == (0, 1)
            assert made.partition("t").log.first_unstable_offset == 0

    simulate(play)
