"""Produce against a broker over the simulated disk: what is acknowledged, when, and what a failure answers."""

from __future__ import annotations

import errno

from kraft.network.reply import Reply
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from tests.unit.server.brokers import NODE, batch, broker, decoded, simulate


def produce(*partitions: tuple[str, int, bytes], acks: int = -1, timeout_ms: int = 1000) -> ProduceRequest:
    topics = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=index, records=data)])
        for name, index, data in partitions
    ]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def test_a_produce_to_a_sole_replica_completes_in_the_same_scheduler_step() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            assert isinstance(made.dispatch(produce(("t", 0, batch(b"a"))), 12), Reply)
            answer = (await made.ask(produce(("t", 0, batch(b"b", b"c"))), 12)).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, 1, 0)
            assert made.partition("t").log.high_watermark == 3

    simulate(play)


def test_a_failed_append_takes_its_directory_offline() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a", "/b"]) as made:
            made.topic("t", 2)
            made.topic("u", 1)
            failing = made.partition("t").log.directory
            universe.disk("broker").faults = [
                Fault("append", errno.EIO, f"{failing}/000"),
                Fault("truncate", errno.EIO, failing),
            ]
            answers = await made.ask(produce(("t", 0, batch(b"a")), ("t", 1, batch(b"b"))), 12)
            codes = [topic.partition_responses[0].error_code for topic in answers.responses]
            assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
            assert [directory.is_online for directory in made.logs.directories] == [False, True]

    simulate(play)


def test_a_refused_request_without_acks_closes_the_connection() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            outcome = made.dispatch(produce(("missing", 0, batch(b"a")), acks=0), 12)
            assert isinstance(outcome, Reply)
            assert outcome.close_after

    simulate(play)


def test_a_full_disk_refuses_the_produce_request_without_other_effects() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            await made.ask(produce(("t", 0, batch(b"a"))), 12)
            universe.disk("broker").faults = [Fault("append", errno.ENOSPC, "/000")]
            answer = (await made.ask(produce(("t", 0, batch(b"b"))), 12)).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert made.logs.directories[0].is_online
            answer = (await made.ask(produce(("t", 0, batch(b"b"))), 12)).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)

    simulate(play)


def test_a_produce_response_never_depends_on_a_later_leader_epoch() -> None:
    """Between the append and its answer the leadership went and came back: what stands at these offsets now may be
    something else."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("t", replicas=(NODE, 2))
            waiting = made.dispatch(produce(("t", 0, batch(b"a"))), 12)
            assert not isinstance(waiting, Reply)
            made.change(topic, leader=2)
            made.change(topic, leader=NODE, isr=[NODE])
            assert made.partition("t").log.high_watermark == 1
            answer = decoded(0, 12, await waiting).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    simulate(play)


def test_a_new_epoch_under_the_same_leader_keeps_parked_produce_requests_valid() -> None:
    """As at the end of a reassignment: nothing else can stand at these offsets, and the followers fetch on."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("t", replicas=(NODE, 2))
            waiting = made.dispatch(produce(("t", 0, batch(b"a"))), 12)
            assert not isinstance(waiting, Reply)
            made.change(topic, leader=NODE)
            partition = made.partition("t")
            assert (partition.leader_epoch, partition.led_since_epoch, partition.log.high_watermark) == (1, 0, 0)
            made.replicas.follower_fetched(partition, 2, 1, 0, 1)
            answer = decoded(0, 12, await waiting).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (0, 0)

    simulate(play)


def test_a_timed_out_produce_is_no_longer_parked() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", replicas=(NODE, 2))
            waiting = made.dispatch(produce(("t", 0, batch(b"a")), timeout_ms=500), 12)
            assert not isinstance(waiting, Reply)
            # The answers of earlier requests were slow to leave: its own time runs all the same.
            await universe.sleep(2)
            answer = decoded(0, 12, await waiting).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
            again = (
                (await made.ask(produce(("t", 0, batch(b"b")), timeout_ms=100), 12)).responses[0].partition_responses[0]
            )
            assert again.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert not made.partition("t").has_waiters

    simulate(play)


def test_an_isr_that_shrank_below_the_minimum_after_the_append_is_reported() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("t", replicas=(NODE, 2), min_insync_replicas="2")
            waiting = made.dispatch(produce(("t", 0, batch(b"a"))), 12)
            assert not isinstance(waiting, Reply)
            made.partition("t").follower_fetched(2, 1, 0, 1, universe.time.now)
            made.change(topic, isr=[NODE])
            answer = decoded(0, 12, await waiting).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    simulate(play)


def test_a_failed_partition_does_not_change_the_results_of_other_partitions() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 2, flush_messages="1")
            corrupt = bytearray(batch(b"a"))
            corrupt[-1] ^= 1
            answers = await made.ask(
                produce(("t", 0, batch(b"a")), ("t", 1, bytes(corrupt)), ("no", 0, batch(b"a"))), 12
            )
            codes = [topic.partition_responses[0].error_code for topic in answers.responses]
            assert codes == [ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    simulate(play)
