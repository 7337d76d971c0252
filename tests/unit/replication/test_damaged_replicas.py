"""A replica whose log was damaged does not lead before it has the records again, or somebody gives them up."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from kraft.common.errors import StorageError
from kraft.common.ids import DEBUGGING_REPLICA, TopicPartition
from kraft.metadata.image.partition_registration import LOST_DIRECTORY
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kraft.replication.damaged_replicas import POLL_SECONDS
from kraft.storage.checkpoints import replace_file
from kraft.storage.log_validator import AppendOrigin
from kraft.storage.recovery.damaged_log import ACCEPTED, DAMAGED_FOLDER, DamageReport, read_damage, write_damage
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, batch, broker, simulate

OTHER = 2
REPORT = DamageReport(
    since_ms=5, start_offset=3, known_end_offset=9, known_epoch=0, kept_bytes=70, reason="segment 0, position 9: CRC"
)
T0 = TopicPartition("t", 0)


def damaged(made: Broker, *replicas: int, leader: int = NODE) -> bytes:
    """A topic with a log of three records; the broker finds the log damaged before it hears who leads."""
    topic_id = made.topic("t", replicas=replicas)
    log = made.partition("t").log
    for value in (b"a", b"b", b"c"):
        log.append_as_leader(batch(value), 0, now_ms=made.world.clock.wall_ms(), origin=AppendOrigin.COORDINATOR)
    write_damage(made.world.files, log.directory, REPORT)
    log.damage = REPORT
    made.change(topic_id, leader=leader, isr=[leader] if leader >= 0 else None)
    return topic_id


def waits(made: Broker) -> bool:
    """Whether it does, and whoever asks is told that the storage has a problem."""
    if made.replicas.find("t", 0) is not None:
        return False
    with pytest.raises(StorageError, match="its log is damaged"):
        made.partition("t")
    return True


def wanted(made: Broker, topic_id: bytes) -> bytes | None:
    return made.replicas.directories.assignments._wanted.get((topic_id, 0))


def test_a_damaged_sole_replica_does_not_lead_and_is_reported() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic_id = damaged(made, NODE)
            assert waits(made)
            assert wanted(made, topic_id) == LOST_DIRECTORY
            (waiting,) = made.replicas.damaged.waiting()
            assert (waiting.topic_partition, waiting.report) == (T0, REPORT)
            assert waiting.remedy == "kraft storage damaged --data-dir /data --accept t:0"
            assert any("replica with a damaged log does not lead" in str(event) for event in made.events)
            made.change(topic_id, leader=-1)
            assert waits(made)
            made.change(topic_id, leader=NODE)
            assert waits(made)

    simulate(play)


def test_a_damaged_replica_leads_once_an_operator_accepts_the_loss() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made, trio.open_nursery() as nursery:
            topic_id = damaged(made, NODE)
            path = made.logs.logs()[0].directory
            nursery.start_soon(made.replicas.damaged.run)
            await universe.sleep(3 * POLL_SECONDS)
            assert waits(made)
            write_damage(made.world.files, path, replace(REPORT, state=ACCEPTED))
            await universe.sleep(2 * POLL_SECONDS)
            assert not waits(made)
            assert made.partition("t").is_leader
            assert made.partition("t").log.log_end_offset == 3
            assert wanted(made, topic_id) == made.logs.directories[0].directory_id
            assert made.replicas.damaged.waiting() == []
            nursery.cancel_scope.cancel()

    simulate(play)


def test_a_damaged_replica_follows_another_leader_until_it_is_in_sync() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic_id = damaged(made, NODE, OTHER, leader=OTHER)
            partition = made.partition("t")
            assert not partition.is_leader
            # Not yet whole: it does not lead, whatever the metadata says.
            made.change(topic_id, leader=NODE)
            assert waits(made)
            made.change(topic_id, leader=OTHER)
            assert not waits(made)
            partition = made.partition("t")
            assert wanted(made, topic_id) == made.logs.directories[0].directory_id
            made.change(topic_id, isr=[OTHER, NODE])
            assert partition.log.damage is None
            report = read_damage(made.world.files, partition.log.directory)
            assert report is not None
            assert not report.is_waiting
            made.change(topic_id, leader=NODE)
            assert made.partition("t").is_leader

    simulate(play)


def test_an_isr_from_before_the_damage_does_not_clear_it() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic_id = damaged(made, NODE, OTHER, leader=-1)
            made.change(topic_id, leader=OTHER, isr=[OTHER, NODE])
            partition = made.partition("t")
            assert partition.log.damage is not None
            partition.log.append_as_follower(
                b"".join(offset_batch(offset) for offset in range(3, 9)), now_ms=0, leader_epoch=9
            )
            made.change(topic_id, isr=[OTHER, NODE])
            assert partition.log.damage is None

    simulate(play)


def test_where_the_damage_report_is_lost_only_joining_the_isr_clears_the_damage() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic_id = damaged(made, NODE, OTHER, leader=-1)
            log = made.replicas.damaged.waiting()[0].log
            replace_file(made.world.files, f"{log.directory}/{DAMAGED_FOLDER}/report.json", b"{")
            log.damage = read_damage(made.world.files, log.directory)
            made.change(topic_id, leader=OTHER, isr=[OTHER, NODE])
            assert made.partition("t").log.damage is not None, "it was in sync before the damage"
            made.change(topic_id, isr=[OTHER])
            made.change(topic_id, isr=[OTHER, NODE])
            assert made.partition("t").log.damage is None

    simulate(play)


def offset_batch(offset: int) -> bytes:
    data = bytearray(batch(b"x"))
    data[:8] = offset.to_bytes(8, "big")
    return bytes(data)


def test_deleting_the_topic_of_a_damaged_replica_leaves_nothing_behind() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic_id = damaged(made, NODE)
            made.delete_topic(topic_id)
            assert made.replicas.damaged.waiting() == []
            assert made.logs.get(T0) is None
            made.topic("t")
            assert made.partition("t").is_leader
            assert made.partition("t").log.log_end_offset == 0

    simulate(play)


def test_a_damaged_replica_that_waits_reports_its_former_log_to_the_controller() -> None:
    """So that another replica that has all of it is found, and may lead."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            damaged(made, NODE)
            for replica_id, expected in ((DEBUGGING_REPLICA, (9, 0)), (-1, (-1, -1))):
                topics = [
                    ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
                ]
                listed = (await made.ask(ListOffsetsRequest(replica_id=replica_id, topics=topics), 7)).topics[0]
                assert listed.partitions[0].offset == expected[0]
                wanted_epoch = OffsetForLeaderPartition(partition=0, current_leader_epoch=1, leader_epoch=1)
                asked = OffsetForLeaderEpochRequest(
                    replica_id=replica_id, topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted_epoch])]
                )
                told = (await made.ask(asked)).topics[0].partitions[0]
                assert (told.end_offset, told.leader_epoch) == expected

    simulate(play)
