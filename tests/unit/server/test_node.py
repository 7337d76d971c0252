"""A node's life from start to end: directories, crashes, disks that fail, and shutdown in good order."""

from __future__ import annotations

import errno
from typing import Any

import trio

from kraft.common.errors import ConfigurationError, StorageError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.rpc_client.connection import connect
from kraft.server.node import run_node
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from tests.unit.server.brokers import simulate
from tests.unit.server.nodes import (
    HOST,
    NAME,
    PORT,
    Running,
    configuration,
    create,
    fetch,
    produce,
    running,
    start_fails,
    world_of,
)

MARK = ".kafka_cleanshutdown"


def test_a_clean_shutdown_is_marked_and_loses_no_records() -> None:
    async def play(universe: Universe) -> None:
        async with running(universe, configuration()) as run:
            await create(run.client, "t")
            await produce(run.client, "t", 0, b"a", b"b")
            await run.stop()
        files = world_of(universe).files
        assert files.exists(f"/data/{MARK}")
        async with running(universe, configuration()) as run:
            assert not files.exists(f"/data/{MARK}")
            assert await fetch(run.client, "t", 0) == (0, [b"a", b"b"])

    simulate(play)


def test_directory_locks_are_held_until_the_metadata_log_is_closed() -> None:
    async def play(universe: Universe) -> None:
        async with running(universe, configuration()) as run:
            raft, held = run.node.shared.raft, []

            async def shutdown() -> None:
                held.append(bool(universe.disk(NAME).locks))
                await original()

            original, raft.shutdown = raft.shutdown, shutdown  # type: ignore[method-assign]
            await run.stop()
            assert held == [True]
            assert not universe.disk(NAME).locks

    simulate(play)


def test_after_kill_9_all_acknowledged_records_are_there_and_the_node_registers_again() -> None:
    async def play(universe: Universe) -> None:
        async with running(universe, configuration()) as run:
            await create(run.client, "t")
            await produce(run.client, "t", 0, b"a", b"b")
        async with running(universe, configuration()) as run:
            assert await fetch(run.client, "t", 0) == (0, [b"a", b"b"])
            assert (await produce(run.client, "t", 0, b"c")).base_offset == 2

    simulate(play)


def test_metadata_may_have_a_directory_of_its_own() -> None:
    """Its directory id is the voter's, and its lock keeps a second node away."""

    async def play(universe: Universe) -> None:
        config = configuration("metadata.log.dir=/meta")
        for values in ([], [b"a"]):
            async with running(universe, config) as run:
                if not values:
                    await create(run.client, "t")
                    await produce(run.client, "t", 0, b"a")
                assert await fetch(run.client, "t", 0) == (0, [b"a"])
                other = configuration("metadata.log.dir=/meta", directories="/other", port=9192)
                assert "in use" in str(await start_fails(universe, other))

    simulate(play)


def test_a_controller_whose_metadata_disk_is_not_mounted_does_not_create_a_new_log() -> None:
    async def play(universe: Universe) -> None:
        async with running(universe, configuration(directories="/meta,/data")) as run:
            await create(run.client, "t")
        files = world_of(universe).files
        files.remove_tree("/meta")
        for directories in ("/meta,/data", "/data"):
            problem = await start_fails(universe, configuration("metadata.log.dir=/meta", directories=directories))
            assert isinstance(problem, ConfigurationError)
            assert "/meta: not formatted" in str(problem)

    simulate(play)


async def four_over_two_directories(universe: Universe, run: Running) -> list[int]:
    """Four partitions of topic t with a record each; returns those in /b."""
    await create(run.client, "t", 4)
    for index in range(4):
        await produce(run.client, "t", index, b"v%d" % index)
    return sorted(int(name[2:]) for name in world_of(universe).files.list_directory("/b") if name.startswith("t-"))


def test_with_one_of_several_directories_broken_the_others_are_served_and_no_log_is_recreated() -> None:
    async def play(universe: Universe) -> None:
        config = configuration(directories="/a,/b")
        async with running(universe, config) as run:
            lost = await four_over_two_directories(universe, run)
            await run.stop()
        files = world_of(universe).files
        assert len(lost) == 2
        universe.disk(NAME).faults = [Fault("open", errno.EIO, "/b/", times=1e9)]
        async with running(universe, config) as run:
            for index in range(4):
                expected = (ErrorCode.KAFKA_STORAGE_ERROR, []) if index in lost else (0, [b"v%d" % index])
                assert await fetch(run.client, "t", index) == expected
            await create(run.client, "new")
            assert (await produce(run.client, "new", 0, b"n")).error_code == 0
            assert not [name for name in files.list_directory("/a") if name in {f"t-{index}" for index in lost}]
            await run.stop()
        universe.disk(NAME).faults = []
        async with running(universe, config) as run:
            for index in range(4):
                assert await fetch(run.client, "t", index) == (0, [b"v%d" % index])

    simulate(play)


def test_a_directory_that_fails_at_run_time_takes_only_its_own_replicas_offline() -> None:
    async def play(universe: Universe) -> None:
        config = configuration(directories="/a,/b")
        async with running(universe, config) as run:
            lost = await four_over_two_directories(universe, run)
            universe.disk(NAME).faults = [Fault("append", errno.EIO, f"/b/t-{lost[0]}/", times=1)]
            assert (await produce(run.client, "t", lost[0], b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            answers = [await produce(run.client, "t", index, b"w%d" % index) for index in range(4)]
            assert [answer.error_code != 0 for answer in answers] == [index in lost for index in range(4)]
            assert run.failure is None

    simulate(play)


def test_without_any_usable_directory_the_node_stops_with_the_reason() -> None:
    async def play(universe: Universe) -> None:
        async with running(universe, configuration("log.flush.interval.messages=1")) as run:
            await create(run.client, "t")
            universe.disk(NAME).faults = [Fault("sync", errno.EIO, "/data/t-0/", times=1)]
            assert (await produce(run.client, "t", 0, b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            await run.ended.wait()
            reasons = run.failure
            while isinstance(reasons, BaseExceptionGroup):
                reasons = reasons.exceptions[0]
            assert isinstance(reasons, StorageError)
            assert "/data" in str(reasons)

    simulate(play)


def test_a_node_is_ready_once_it_leads_its_former_partitions() -> None:
    async def play(universe: Universe) -> None:
        async with running(universe, configuration()) as run:
            await create(run.client, "t", 3000)
        world = world_of(universe)
        async with trio.open_nursery() as nursery:
            node = await nursery.start(lambda task_status: run_node(configuration(), world, task_status=task_status))
            assert [str(partition) for partition in node.broker.replicas if not partition.is_leader] == []
            node.begin_shutdown()

    simulate(play)


def test_the_first_metadata_response_of_a_node_names_a_broker() -> None:
    """A client that is told of none has nobody left to ask."""

    async def play(universe: Universe) -> None:
        async with running(universe, configuration()) as run:
            await run.stop()
        world, client = world_of(universe), universe.world_for("early")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_node, configuration(), world)
            while True:
                try:
                    async with connect(client, HOST, PORT) as connection:
                        answer = await connection.call(MetadataRequest(topics=[]))
                    break
                except OSError:
                    await client.clock.sleep(0.0001)
            nursery.cancel_scope.cancel()
        assert [broker.node_id for broker in answer.brokers] == [1]

    simulate(play)


def test_after_a_crash_the_directory_entries_of_every_log_are_synced_before_serving() -> None:
    async def play(universe: Universe) -> None:
        async with running(universe, configuration()) as run:
            await create(run.client, "t", 5)
            for index in range(5):
                await produce(run.client, "t", index, b"v")
        world, synced = world_of(universe), list[str]()
        original = world.threads.run

        class Threads:
            async def run(self, function: Any, *arguments: Any) -> Any:
                if getattr(function, "__name__", "") == "sync_directory":
                    synced.append(arguments[0])
                return await original(function, *arguments)

        world.threads = Threads()  # type: ignore[assignment]  # Runs what it is given, and tells.
        async with running(universe, configuration()):
            assert sorted(synced) == [f"/data/t-{index}" for index in range(5)]

    simulate(play)


def test_a_directory_whose_entries_cannot_be_synced_goes_offline() -> None:
    async def play(universe: Universe) -> None:
        config = configuration(directories="/a,/b")
        async with running(universe, config) as run:
            await create(run.client, "t", 2)
            for index in range(2):
                await produce(run.client, "t", index, b"v")
        lost = [int(name[2:]) for name in world_of(universe).files.list_directory("/b") if name.startswith("t-")]
        universe.disk(NAME).faults = [Fault("sync_directory", errno.EIO, "/b/t-")]
        async with running(universe, config) as run:
            for index in range(2):
                code, _ = await fetch(run.client, "t", index)
                assert code == (ErrorCode.KAFKA_STORAGE_ERROR if index in lost else 0)

    simulate(play)
