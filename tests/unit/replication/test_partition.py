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


def test_a_record_is_committed_when_every_isr_member_has_it() -> None:
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


def test_a_replica_proposed_for_the_isr_already_holds_the_high_watermark() -> None:
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


def test_the_high_watermark_waits_for_a_caught_up_follower_about_to_join_the_isr() -> None:
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


def test_a_replica_proposed_for_removal_still_holds_the_high_watermark() -> None:
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


def test_an_alter_partition_response_older_than_the_metadata_is_ignored() -> None:
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


def test_metadata_older_than_an_alter_partition_response_is_ignored() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            older = made.image.topics.by_id[partition.topic_id].partitions[0]
            partition.isr_decided((NODE, 2), 0, 1)
            assert not partition.apply(older, made.world.clock.now())
            assert (partition.isr, partition.partition_epoch) == ((NODE, 2), 1)

    simulate(play)


def test_below_the_minimum_isr_nothing_is_committed_and_appends_are_refused() -> None:
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


def test_a_fenced_follower_may_not_join_the_isr() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            made.change(partition.topic_id, isr=[NODE])
            fetched(made, partition, 2, 0, epoch=9)
            assert partition.pending_isr is None, "that incarnation is not the registered one"
            fetched(made, partition, 3, 0)
            assert partition.pending_isr == (NODE, 3)

    simulate(play)


def test_a_fetch_with_an_earlier_broker_epoch_is_refused() -> None:
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


def test_a_fetch_with_a_newer_leader_epoch_is_answered_with_unknown_leader_epoch() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            with pytest.raises(ApiError) as refused:
                fetched(made, partition, 7, 0)
            assert refused.value.code == ErrorCode.UNKNOWN_LEADER_EPOCH

    simulate(play)


def test_a_deposed_leader_follows_and_keeps_its_high_watermark() -> None:
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


def test_a_fetch_leaves_out_records_of_later_epochs() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            partition = led(made)
            made.change(partition.topic_id, leader=2)
            partition.append_as_follower(memoryview(replicated(0, 1) + replicated(1, 2)), 9, 0, 0)
            assert (partition.log.log_end_offset, partition.log.high_watermark) == (1, 1)

    simulate(play)


def test_a_config_change_does_not_raise_a_followers_high_watermark() -> None:
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


def test_an_invalid_leader_epoch_isr_or_high_watermark_fails_an_assertion(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_appended_records_are_counted_while_the_replica_leads() -> None:
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
