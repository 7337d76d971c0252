"""Metadata reaches replicas: topics come and go, directories fail, and what is lost is never recreated."""

from __future__ import annotations

import errno

import pytest
import trio

from kraft.common.errors import ApiError, NotLeader, StorageError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.replication.replica_manager import ReplicaListener
from kraft.storage.checkpoints import read_partition_metadata
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from tests.unit.server.brokers import NODE, Broker, batch, broker, decoded, simulate


class FailedDirectories(ReplicaListener):
    """Notes the paths of log directories that failed."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def directory_failed(self, path: str) -> None:
        self._paths.append(path)


def append(made: Broker, index: int = 0) -> None:
    made.partition("t", index).append(memoryview(batch(b"v")), 1, made.world.clock.wall_ms(), 0)


def names(universe: Universe, path: str) -> list[str]:
    return [name for name in universe.world_of("broker").files.list_directory(path) if name.startswith("t-")]


def test_a_replica_on_a_failed_directory_stays_offline_under_new_metadata() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a", "/b"]) as made:
            topic = made.topic("t")
            append(made)
            home = made.partition("t").log.directory.rpartition("/")[0]
            made.replicas.directory_failed(home, "test")
            made.change(topic, leader=NODE)
            made.change(topic, isr=[NODE])
            with pytest.raises(StorageError):
                made.partition("t")
            assert not names(universe, "/b" if home == "/a" else "/a")
            made.delete_topic(topic)
            with pytest.raises(ApiError) as caught:
                made.partition("t")
            assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            made.topic("t")
            append(made)

    simulate(play)


def test_the_failure_of_a_directory_without_replicas_is_reported() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a", "/b"]) as made:
            told: list[str] = []
            made.replicas.add_listener(FailedDirectories(told))
            made.replicas.directory_failed("/b", "test")
            made.replicas.directory_failed("/b", "again")
            assert told == ["/b"]

    simulate(play)


def test_a_failed_deletion_takes_the_directory_offline_but_not_the_broker() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a", "/b"]) as made:
            topic = made.topic("t")
            append(made)
            home = made.partition("t").log.directory.rpartition("/")[0]
            universe.disk("broker").faults = [Fault("rename", errno.EIO, "/t-0")]
            made.delete_topic(topic)
            assert [directory.path for directory in made.logs.online()] == ["/b" if home == "/a" else "/a"]

    simulate(play)


def test_requests_that_wait_for_a_deleted_topic_complete_with_an_error() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("t")
            topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])]
            waiting = made.dispatch(FetchRequest(max_wait_ms=60_000, min_bytes=1, session_epoch=-1, topics=topics), 12)
            answers = []

            async def wait() -> None:
                answers.append(decoded(1, 12, await waiting))  # type: ignore[misc]  # Nothing is there: it waits.

            began = universe.time.now
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await universe.sleep(1)
                made.delete_topic(topic)
            assert universe.time.now - began < 2
            assert answers[0].responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    simulate(play)


def test_a_recreated_topic_of_the_same_name_gets_a_new_log() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            first = made.topic("t")
            append(made)
            made.delete_topic(first)
            second = made.topic("t")
            partition = made.partition("t")
            assert (partition.topic_id, partition.log.topic_id, partition.log.log_end_offset) == (second, second, 0)

    simulate(play)


def test_the_log_of_an_earlier_topic_of_the_same_name_is_moved_aside_at_startup() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            append(made)
            await made.replicas.flusher.flush(made.partition("t").log)
        async with broker(universe) as made:
            made.topic("unrelated")  # Takes the first id: the second is the new topic's.
            made.topic("t")
            assert made.partition("t").log.log_end_offset == 0
            files = universe.world_of("broker").files
            assert [name.endswith("-stray") for name in files.list_directory("/data") if name.startswith("t-0")] == [
                True
            ]

    simulate(play)


def test_a_request_for_a_partition_led_elsewhere_names_the_leader() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("t", replicas=(NODE, 2))
            made.change(topic, leader=2)
            with pytest.raises(NotLeader) as caught:
                made.partition("t").append(memoryview(batch(b"v")), 1, made.world.clock.wall_ms(), 0)
            assert (caught.value.leader_id, caught.value.leader_epoch) == (2, 1)

    simulate(play)


def test_an_empty_log_without_a_topic_id_gets_the_id_of_its_topic() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.world.files.make_directories("/data/t-0")
            made.world.files.open("/data/t-0/partition.metadata", create=True)
        async with broker(universe, knows_itself=False) as made:
            topic = made.topic("t")
            append(made)
            assert made.partition("t").log.topic_id == topic
            assert names(universe, "/data") == ["t-0"]
            assert topic_of(universe, "/data/t-0") == topic

    simulate(play)


def test_records_without_a_topic_id_after_a_clean_shutdown_take_the_directory_offline() -> None:
    """The replica may be in the in-sync set: it must not come up empty."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            append(made)
            for _ in made.logs.close_logs():
                pass
            made.logs.finish_shutdown(broker_epoch=7)
            universe.world_of("broker").files.remove("/data/t-0/partition.metadata")
        async with broker(universe, ["/data", "/b"], knows_itself=False) as made:
            made.topic("t")
            with pytest.raises(StorageError):
                made.partition("t")
            assert [directory.path for directory in made.logs.online()] == ["/b"]
            assert names(universe, "/data") == ["t-0"]

    simulate(play)


def topic_of(universe: Universe, directory: str) -> bytes | None:
    return read_partition_metadata(universe.world_of("broker").files, f"{directory}/partition.metadata")


def test_counters_keep_the_counts_of_removed_replicas() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = made.topic("t", 2)
            append(made)
            append(made, 1)
            append(made, 1)
            size = made.partition("t", 1).traffic.bytes_in
            made.change(topic, 1, replicas=[2], isr=[2], leader=2)
            of_topics, others = made.replicas.past_traffic.now()
            assert (of_topics["t"].bytes_in, of_topics["t"].messages_in, others.messages_in) == (size, 2, 0)
            made.delete_topic(topic)
            of_topics, others = made.replicas.past_traffic.now()
            assert (of_topics, others.messages_in) == ({}, 3)

    simulate(play)
