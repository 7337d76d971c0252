"""A led partition and its followers: how far it is committed, and who is in sync."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError, NotLeader
from kraft.metadata.records.config_record import ConfigRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.builder import Record, build_batch
from kraft.replication.partition import Partition
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, batch, broker, simulate

REPLICAS = (NODE, 2, 3)


def led(made: Broker, **configs: str) -> Partition:
    """A partition with two followers that are registered and unfenced."""
    made.publish(made.register(2), made.register(3))
    made.topic("t", replicas=REPLICAS, **configs)
    return made.partition("t")


def append(made: Broker, partition: Partition, count: int = 1) -> None:
    for _ in range(count):
        partition.append(memoryview(batch(b"v")), -1, made.world.clock.wall_ms(), 0)


def replicated(offset: int, leader_epoch: int) -> bytes:
    """A batch of one record, as a leader sends it."""
    return build_batch([Record(offset, 1_700_000_000_000, None, b"w", ())], leader_epoch=leader_epoch)


def fetched(made: Broker, partition: Partition, replica: int, offset: int, epoch: int = 1) -> None:
    made.replicas.follower_fetched(partition, replica, offset, 0, epoch)


def test_committed_is_what_every_member_has() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            append(made, partition, 3)
            assert partition.log.high_watermark == 0
            fetched(made, partition, 2, 3)
            assert partition.log.high_watermark == 0
            fetched(made, partition, 3, 1)
            assert partition.log.high_watermark == 1
            fetched(made, partition, 3, 3)
            assert partition.log.high_watermark == 3

    simulate(play)


def test_whoever_may_have_joined_counts() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            made.change(partition.topic_id, isr=[NODE, 2], leader=NODE)
            append(made, partition, 2)
            fetched(made, partition, 3, 1)
            fetched(made, partition, 2, 2)
            assert partition.pending_isr == (NODE, 2, 3)
            assert partition.log.high_watermark == 1, "3 may be a member by now, and lacks the second record"
            partition.isr_decided((NODE, 2, 3), 1, 2)
            assert (partition.isr, partition.pending_isr, partition.log.high_watermark) == ((NODE, 2, 3), None, 1)
            fetched(made, partition, 3, 2)
            assert partition.log.high_watermark == 2

    simulate(play)


def test_committing_waits_for_one_who_has_caught_up_and_is_about_to_join() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            made.change(partition.topic_id, isr=[NODE, 2], leader=NODE)
            append(made, partition, 2)
            partition.pending_isr = (NODE, 2)  # Something else is being decided, so nobody can be proposed now.
            fetched(made, partition, 3, 2)
            append(made, partition)
            fetched(made, partition, 2, 3)
            assert partition.log.high_watermark == 2
            await universe.sleep(31.0)
            partition.advance_high_watermark()
            assert partition.log.high_watermark == 3, "it has had its time"

    simulate(play)


def test_whoever_is_proposed_to_leave_still_counts() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            append(made, partition)
            fetched(made, partition, 2, 1)
            await universe.sleep(31.0)
            fetched(made, partition, 2, 1)
            made.server.replication.isr.reconsider(partition)
            assert partition.pending_isr == (NODE, 2)
            assert partition.log.high_watermark == 0
            partition.isr_decided((NODE, 2), 0, 1)
            assert partition.log.high_watermark == 1

    simulate(play)


def test_an_answer_that_is_older_than_the_metadata_changes_nothing() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            made.change(partition.topic_id, isr=[NODE])
            made.change(partition.topic_id, isr=[NODE, 2])
            partition.isr_decided((NODE,), 0, 1)
            assert (partition.isr, partition.partition_epoch) == ((NODE, 2), 2)
            made.change(partition.topic_id, leader=NODE)
            partition.isr_decided((NODE,), 0, 9)
            assert partition.isr == (NODE, 2)

    simulate(play)


def test_metadata_that_is_older_than_an_answer_changes_nothing() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            older = made.image.topics.by_id[partition.topic_id].partitions[0]
            partition.isr_decided((NODE, 2), 0, 1)
            assert not partition.apply(older, made.world.clock.now())
            assert (partition.isr, partition.partition_epoch) == ((NODE, 2), 1)

    simulate(play)


def test_below_the_minimum_nothing_is_committed_and_all_is_refused() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made, min_insync_replicas="2")
            append(made, partition)
            made.change(partition.topic_id, isr=[NODE], leader=NODE)
            assert partition.log.high_watermark == 0
            with pytest.raises(ApiError) as refused:
                append(made, partition)
            assert refused.value.code == ErrorCode.NOT_ENOUGH_REPLICAS

    simulate(play)


def test_a_follower_that_is_fenced_may_not_join() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            made.change(partition.topic_id, isr=[NODE])
            fetched(made, partition, 2, 0, epoch=9)
            assert partition.pending_isr is None, "that incarnation is not the registered one"
            fetched(made, partition, 3, 0)
            assert partition.pending_isr == (NODE, 3)

    simulate(play)


def test_a_fetch_of_an_earlier_incarnation_is_refused() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            append(made, partition)
            fetched(made, partition, 2, 0, epoch=5)
            with pytest.raises(ApiError) as refused:
                fetched(made, partition, 2, 1, epoch=4)
            assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert partition.followers is not None
            assert partition.followers[2].log_end_offset == 0

    simulate(play)


def test_a_stranger_is_told_that_it_knows_something_that_the_leader_does_not() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            with pytest.raises(ApiError) as refused:
                fetched(made, partition, 7, 0)
            assert refused.value.code == ErrorCode.UNKNOWN_LEADER_EPOCH

    simulate(play)


def test_a_deposed_leader_follows_and_keeps_what_it_knows_to_be_committed() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            append(made, partition, 2)
            fetched(made, partition, 2, 1)
            fetched(made, partition, 3, 1)
            made.change(partition.topic_id, leader=2)
            assert (partition.is_leader, partition.followers, partition.log.high_watermark) == (False, None, 1)
            with pytest.raises(NotLeader):
                append(made, partition)
            partition.append_as_follower(memoryview(replicated(2, 1)), 2, 0, 0)
            assert (partition.log.log_end_offset, partition.log.high_watermark) == (3, 2)
            partition.append_as_follower(memoryview(b""), 1, 0, 0)
            assert partition.log.high_watermark == 2, "a leader that knows less takes nothing back"

    simulate(play)


def test_records_of_later_epochs_are_left_out() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            made.change(partition.topic_id, leader=2)
            partition.append_as_follower(memoryview(replicated(0, 1) + replicated(1, 2)), 9, 0, 0)
            assert (partition.log.log_end_offset, partition.log.high_watermark) == (1, 1)

    simulate(play)


def test_a_follower_takes_nothing_for_committed_because_a_configuration_changed() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            made.change(partition.topic_id, leader=2)
            partition.append_as_follower(memoryview(replicated(0, 1)), 0, 0, made.world.clock.wall_ms())
            made.publish(ConfigRecord(resource_type=2, resource_name="t", name="segment.bytes", value="2000000"))
            assert (partition.log.high_watermark, partition.log.log_end_offset) == (0, 1), (
                "only the leader knows whether the others have it"
            )

    simulate(play)


def test_what_a_leader_decides_rests_on_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted defects: an epoch that falls, sets without the leader, and a high watermark beyond its log."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            append(made, partition)
            earlier = made.image.topics.by_id[partition.topic_id].partitions[0]
            made.change(partition.topic_id, leader=NODE)
            epochs = (partition.leader_epoch, partition.partition_epoch)
            with pytest.raises(AssertionError, match="leader epoch 1 would fall to 0"):
                partition.apply(earlier._replace(partition_epoch=epochs[1] + 1), universe.time.now)
            with pytest.raises(AssertionError, match="leads outside"):
                partition.isr_decided((2, 3), *epochs)
            monkeypatch.setattr("kraft.replication.isr_policy.shrunk_isr", lambda *arguments: (2, 3))
            with pytest.raises(AssertionError, match="its leader would leave"):
                partition.isr_to_propose(universe.time.now)
            monkeypatch.setattr("kraft.replication.isr_policy.high_watermark", lambda *arguments, **named: 2)
            with pytest.raises(AssertionError, match="2 would be committed, and the leader has 1"):
                partition.advance_high_watermark()
            assert (partition.isr, partition.log.high_watermark) == (REPLICAS, 0)
            monkeypatch.undo()

    simulate(play)


def test_records_count_while_it_leads() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            append(made, partition, 3)
            made.change(partition.topic_id, leader=2)
            assert partition.messages_in == 3
            partition.append_as_follower(memoryview(replicated(3, partition.leader_epoch)), 0, 0, 1)
            assert partition.messages_in == 3
            made.change(partition.topic_id, leader=NODE)
            assert partition.messages_in == 3
            append(made, partition, 2)
            assert partition.messages_in == 5

    simulate(play)
