"""A log that lost its partition.metadata is neither given to a topic nor replaced by an empty one without a word."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from kraft.common.errors import StorageError
from kraft.common.ids import TopicPartition, uuid_to_text
from kraft.metadata.image.partition_registration import LOST_DIRECTORY
from kraft.replication.damaged_replicas import POLL_SECONDS
from kraft.storage.checkpoints import partition_metadata_text, read_partition_metadata
from kraft.storage.log_validator import AppendOrigin
from kraft.storage.recovery.damaged_log import ACCEPTED, read_damage, write_damage
from kraft.world.simulated import Universe
from tests.unit.server.brokers import NODE, Broker, batch, broker, simulate

OTHER = 2
PATH = "/data/t-0"
T0 = TopicPartition("t", 0)


def append(made: Broker) -> None:
    now_ms = made.world.clock.wall_ms()
    made.partition("t").log.append_as_leader(batch(b"v"), 0, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)


async def lose_the_id(
    universe: Universe, *replicas: int, content: bytes = b"", flushed: bool = False, clean: bool = False
) -> None:
    """A broker writes a record and ends; partition.metadata is damaged."""
    async with broker(universe) as made:
        made.topic("t", replicas=replicas or (NODE,))
        append(made)
        if flushed:
            await made.replicas.flusher.flush(made.partition("t").log)
            append(made)  # The recovery point that is kept is one less while the whole log is flushed.
            made.logs.checkpoint_all()
        if clean:
            for _ in made.logs.close_logs():
                pass
            made.logs.finish_shutdown(broker_epoch=7)
    file = universe.world_of("broker").files.open(f"{PATH}/partition.metadata", create=True)
    file.truncate(0)
    file.append((content,))
    file.close()


def names(universe: Universe) -> list[str]:
    """Of the partition's directories, without what makes the strays differ."""
    found = universe.world_of("broker").files.list_directory("/data")
    return ["stray" if name.endswith("-stray") else name for name in found if name.startswith("t-0")]


def waits(made: Broker) -> bool:
    if made.replicas.find("t", 0) is not None:
        return False
    with pytest.raises(StorageError, match="its log is damaged"):
        made.partition("t")
    return True


@pytest.mark.parametrize("content", [b"", b"version: 0\ntopic_id: AAAA", b"\0" * 40])
def test_a_sole_replica_that_lost_its_topic_id_keeps_its_log_and_does_not_lead(content: bytes) -> None:
    async def play(universe: Universe) -> None:
        await lose_the_id(universe, content=content)
        async with broker(universe, knows_itself=False) as made:
            topic_id = made.topic("t")
            assert waits(made)
            assert names(universe) == ["t-0"]
            assert made.replicas.directories.assignments._wanted[topic_id, 0] == LOST_DIRECTORY
            report = read_damage(made.world.files, PATH)
            assert report is not None
            assert (report.start_offset, report.known_end_offset, report.kept_bytes) == (0, 1, 0)
            assert report.possible_topic_id == uuid_to_text(topic_id)
            (waiting,) = made.replicas.damaged.waiting()
            assert waiting.end_of_epoch(0) == (1, 0)
        async with broker(universe, knows_itself=False) as made:
            assert made.topic("t") == topic_id
            assert waits(made)
            assert read_damage(made.world.files, PATH) == report

    simulate(play)


def test_a_waiting_replica_leads_with_all_records_once_an_operator_confirms_their_topic() -> None:
    async def play(universe: Universe) -> None:
        await lose_the_id(universe)
        async with broker(universe, knows_itself=False) as made, trio.open_nursery() as nursery:
            topic_id = made.topic("t")
            nursery.start_soon(made.replicas.damaged.run)
            report = read_damage(made.world.files, PATH)
            assert report is not None
            write_damage(made.world.files, PATH, replace(report, state=ACCEPTED))
            await universe.sleep(2 * POLL_SECONDS)
            partition = made.partition("t")
            assert partition.is_leader
            assert (partition.log.log_end_offset, partition.log.topic_id) == (1, topic_id)
            assert read_partition_metadata(made.world.files, f"{PATH}/partition.metadata") == topic_id
            report = read_damage(made.world.files, PATH)
            assert report is not None
            # That was said once. Should the file be lost again, somebody has to say so again.
            assert (report.state, report.possible_topic_id) == (ACCEPTED, "")
            nursery.cancel_scope.cancel()

    simulate(play)


def test_a_waiting_replica_leads_once_its_metadata_file_is_restored() -> None:
    async def play(universe: Universe) -> None:
        await lose_the_id(universe)
        async with broker(universe, knows_itself=False) as made:
            topic_id = made.topic("t")
            assert waits(made)
            file = made.world.files.open(f"{PATH}/partition.metadata")
            file.append((partition_metadata_text(topic_id).encode(),))
            file.close()
        async with broker(universe, knows_itself=False) as made:
            assert made.topic("t") == topic_id
            assert made.partition("t").log.log_end_offset == 1
            assert made.partition("t").log.damage is None

    simulate(play)


def test_a_topic_recreated_while_its_replica_waited_does_not_get_the_old_records() -> None:
    async def play(universe: Universe) -> None:
        await lose_the_id(universe)
        async with broker(universe, knows_itself=False) as made:
            made.topic("t")
            assert waits(made)
        async with broker(universe, knows_itself=False) as made:
            made.topic("unrelated")  # Takes the id of the topic that was there before.
            made.topic("t")
            assert made.partition("t").log.log_end_offset == 0
            assert names(universe) == ["stray"]

    simulate(play)


@pytest.mark.parametrize("flushed", [True, False])
def test_with_other_replicas_only_a_log_that_was_flushed_waits_for_confirmation(flushed: bool) -> None:
    async def play(universe: Universe) -> None:
        await lose_the_id(universe, NODE, OTHER, flushed=flushed)
        async with broker(universe, knows_itself=False) as made:
            made.topic("t", replicas=(NODE, OTHER))
            assert waits(made) is flushed
            assert names(universe) == (["t-0"] if flushed else ["stray"])

    simulate(play)


def test_another_leader_ends_the_wait_and_the_records_are_fetched_from_that_leader() -> None:
    async def play(universe: Universe) -> None:
        await lose_the_id(universe, NODE, OTHER, flushed=True)
        async with broker(universe, knows_itself=False) as made:
            topic_id = made.topic("t", replicas=(NODE, OTHER))
            assert waits(made)
            made.change(topic_id, leader=OTHER)
            partition = made.partition("t")
            assert (partition.is_leader, partition.log.log_end_offset) == (False, 0)
            assert names(universe) == ["stray"]
            assert made.replicas.damaged.waiting() == []
            assert any("unknown topic" in str(event) for event in made.events)

    simulate(play)


def test_deleting_a_topic_of_many_partitions_logs_one_line() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic_id = made.topic("t", partitions=20)
            made.events.clear()
            made.delete_topic(topic_id)
            told = [event for event in made.events if event["level"] != "debug"]
            assert [(event["event"], event["topic"], event["partitions"]) for event in told] == [
                ("replicas deleted", "t", 20)
            ]

    simulate(play)
