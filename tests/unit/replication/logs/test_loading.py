"""Loading logs on the loop of a node that serves others meanwhile (kraft/replication/logs/loading.py)."""

from __future__ import annotations

import errno

import pytest
import trio

from kraft.common.errors import ConfigurationError, StorageError
from kraft.common.ids import TopicPartition, Uuid
from kraft.replication.logs.loading import load_logs
from kraft.storage.checkpoints import write_file
from kraft.storage.directories.absent_directories import AbsentDirectories
from kraft.storage.log_config import LogConfig
from kraft.storage.log_manager import LogManager
from kraft.storage.recovery import segment_recovery
from kraft.world.simulated import SimulatedWorld, Universe
from kraft.world.simulated.disk import Fault
from tests.unit.server.brokers import NODE, Broker, batch, broker, simulate

BIG, SMALL = TopicPartition("big", 0), TopicPartition("small", 0)
BATCHES = 640
IDS = {BIG.topic: bytes(16), SMALL.topic: bytes(15) + b"\x01"}
NOW_MS = 1_700_000_000_000


def manager_of(world: SimulatedWorld) -> LogManager:
    manager = LogManager(
        world.files,
        ["/a", "/b"],
        node_id=1,
        new_uuid=lambda: world.random.uuid("directory"),
        config_of=lambda _: LogConfig(),
    )
    manager.open(None)
    manager.format_missing("c")
    return manager


def after_a_kill(universe: Universe) -> tuple[SimulatedWorld, LogManager]:
    """A big log was written to /a and a small one to /b when the process was killed; the next one, which has loaded
    nothing."""
    world = universe.world_for("n")
    manager = manager_of(world)
    manager.load(0)
    for topic_partition, directory, count in ((BIG, 0, BATCHES), (SMALL, 1, 1)):
        where = manager.directories[directory].directory_id
        log = manager.get_or_create(topic_partition, Uuid(IDS[topic_partition.topic]), now_ms=0, directory_id=where)
        for _ in range(count):
            log.append_as_leader(batch(b"v" * 100), 0, now_ms=NOW_MS)
    universe.kill("n")
    world = universe.world_for("n")
    return world, manager_of(world)


def test_recovery_of_a_log_yields_to_other_tasks() -> None:
    async def play(universe: Universe) -> None:
        world, manager = after_a_kill(universe)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            await load_logs(manager, world, IDS.get)
            nursery.cancel_scope.cancel()
        assert turns >= BATCHES // segment_recovery.BATCHES_PER_STEP
        assert [log.log_end_offset for log in map(manager.get, (BIG, SMALL)) if log] == [BATCHES, 1]
        manager.release()

    simulate(play)


def test_loading_a_directory_does_not_wait_for_another_directorys_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_recovery, "AHEAD_BYTES", 8192)

    async def play(universe: Universe) -> None:
        world, manager = after_a_kill(universe)
        universe.disk("n").cold_rate = 1.0
        universe.disk("n").slowness = 1000.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(load_logs, manager, world, IDS.get)
            while manager.get(SMALL) is None:
                await universe.sleep(0.001)
            assert manager.get(BIG) is None
        assert manager.get(BIG) is not None
        manager.release()

    simulate(play)


@pytest.mark.parametrize("within", ["/a/big-0", "/a/recovery"])
def test_a_directory_that_fails_during_loading_goes_offline_and_other_directories_load(
    within: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_recovery, "AHEAD_BYTES", 8192)

    async def play(universe: Universe) -> None:
        world, manager = after_a_kill(universe)
        universe.disk("n").cold_rate = 1.0
        universe.disk("n").faults = [Fault("open", errno.EIO, within, times=1e9)]
        await load_logs(manager, world, IDS.get)
        assert [directory.path for directory in manager.online()] == ["/b"]
        assert [log.topic_partition for log in manager.logs()] == [SMALL]
        manager.release()

    simulate(play)


def test_a_broker_without_any_usable_directory_refuses_to_start() -> None:
    async def play(universe: Universe) -> None:
        world, manager = after_a_kill(universe)
        universe.disk("n").faults = [Fault("list", errno.EIO, "/", times=1e9)]
        with pytest.raises(StorageError, match="no log directory is usable"):
            await load_logs(manager, world, IDS.get)
        universe.disk("n").faults = []
        manager.release()

    simulate(play)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("00000000000000000000.log", b"x"),
        ("00000000000000000007.log", b""),
        ("00000000000000000000.log.swap", b""),
        ("00000000000000000000.log.deleted", b""),
    ],
)
def test_a_log_present_in_two_directories_is_refused_before_any_file_changes(name: str, content: bytes) -> None:
    async def play(universe: Universe) -> None:
        world, manager = after_a_kill(universe)
        world.files.make_directories("/b/big-0")
        write_file(world.files, f"/b/big-0/{name}", content)
        before = world.files.list_directory("/a/big-0")
        with pytest.raises(ConfigurationError, match="big-0 is also in /a"):
            await load_logs(manager, world, IDS.get)
        assert world.files.list_directory("/a/big-0") == before
        assert manager.logs() == []
        manager.release()

    simulate(play)


BEGUN: list[dict[str, bytes]] = [
    {},
    {"partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"},
    {"partition.metadata": b"", "00000000000000000000.log": b"", "00000000000000000000.index": b"\0" * 64},
]
"""What making a log leaves behind that was refused a descriptor or room, or interrupted."""


def begin(world: SimulatedWorld, files: dict[str, bytes]) -> None:
    world.files.make_directories("/b/big-0")
    for name, content in files.items():
        write_file(world.files, f"/b/big-0/{name}", content)


@pytest.mark.parametrize("files", BEGUN)
@pytest.mark.parametrize("is_away", [False, True])
def test_an_interrupted_log_creation_in_another_directory_is_ignored(files: dict[str, bytes], is_away: bool) -> None:
    """Else the node would not start, or the replica be taken for another one's while its disk is away."""

    async def play(universe: Universe) -> None:
        world, manager = after_a_kill(universe)
        begin(world, files)
        universe.disk("n").faults = [Fault("list", errno.EIO, "/a", times=1e9)] * is_away
        place = manager.directories[0].directory_id
        await load_logs(manager, world, IDS.get, {BIG: place}.get)
        found = manager.get(BIG)
        assert (found and found.directory, found and found.log_end_offset) == (
            (None, None) if is_away else ("/a/big-0", BATCHES)
        )
        assert [name[-6:] for name in world.files.list_directory("/b") if name.startswith("big-0")] == ["-stray"]
        manager.release()

    simulate(play)


@pytest.mark.parametrize("files", BEGUN)
@pytest.mark.parametrize("is_known", [False, True])
def test_an_interrupted_log_creation_is_kept_where_the_replica_is_assigned_or_unknown(
    files: dict[str, bytes], is_known: bool
) -> None:
    async def play(universe: Universe) -> None:
        world = universe.world_for("n")
        manager = manager_of(world)
        begin(world, files)
        place = manager.directories[1].directory_id if is_known else None
        await load_logs(manager, world, IDS.get, {BIG: place}.get)
        log = manager.get(BIG)
        assert log is not None
        assert (log.directory, log.log_end_offset) == ("/b/big-0", 0)
        manager.release()

    simulate(play)


def test_the_log_of_a_topic_recreated_while_its_disk_was_offline_is_a_stray() -> None:
    async def play(universe: Universe) -> None:
        world, manager = after_a_kill(universe)
        manager.release()
        world.files.make_directories("/b/big-0")
        world.files.open("/b/big-0/partition.metadata", create=True).append(
            [b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg"]
        )
        universe.kill("n")
        world = universe.world_for("n")
        manager = manager_of(world)
        await load_logs(manager, world, IDS.get)
        log = manager.get(BIG)
        assert log is not None
        assert (log.directory, log.log_end_offset) == ("/a/big-0", BATCHES)
        assert [
            name for name in world.files.list_directory("/b") if name.startswith("big-0") and name.endswith("-stray")
        ]
        assert "big-0" not in world.files.list_directory("/b")
        manager.release()

    simulate(play)


async def replica_came_back_elsewhere(universe: Universe) -> tuple[str, bytes]:
    """A topic's replica that left while its disk was away, and came back; then power failed. Where it is now, and
    the topic."""
    async with broker(universe, ["/a", "/b"]) as made:
        topic = made.topic("t")
        append(made)
        former = made.partition("t").log.directory
        await made.replicas.flush(made.partition("t"))
        made.replicas.directory_failed(former.rpartition("/")[0], "test")
        made.change(topic, replicas=[2], isr=[2], leader=2)
        (here,) = made.logs.online()
        made.change(topic, replicas=[NODE], isr=[NODE], leader=NODE, directories=[bytes(here.directory_id or b"")])
        append(made)
        append(made)
        await made.replicas.flush(made.partition("t"))
        now = made.partition("t").log.directory
        assert now != former
    universe.power_off("broker")
    return now, topic


def append(made: Broker) -> None:
    made.partition("t").append(memoryview(batch(b"v")), 1, made.world.clock.wall_ms(), 0)


def test_the_old_log_is_a_stray_when_its_replica_was_recreated_on_another_disk() -> None:
    """The node never started again: both are of the topic of today."""

    async def play(universe: Universe) -> None:
        now, topic = await replica_came_back_elsewhere(universe)
        for _ in range(2):
            world = universe.world_for("broker")
            manager = manager_of(world)
            await load_logs(manager, world, lambda name: topic)
            log = manager.get(TopicPartition("t", 0))
            assert log is not None
            assert (log.directory, log.log_end_offset) == (now, 2)
            assert [len(directory.absent.paths()) for directory in manager.directories] == [0, 0]
            universe.power_off("broker")
        world = universe.world_for("broker")
        other = "/a" if now.startswith("/b") else "/b"
        assert [name[-6:] for name in world.files.list_directory(other) if name.startswith("t-0")] == ["-stray"]

    simulate(play)


@pytest.mark.parametrize("assigned", ["/a", "/b", None])
def test_the_metadata_decides_between_two_logs_whose_disks_were_offline_in_turn(assigned: str | None) -> None:
    async def play(universe: Universe) -> None:
        now, topic = await replica_came_back_elsewhere(universe)
        world = universe.world_for("broker")
        universe.disk("broker").faults = [Fault("list", errno.EIO, now.rpartition("/")[0], times=1e9)]
        await load_logs(manager_of(world), world, lambda name: topic)
        universe.disk("broker").faults = []
        universe.power_off("broker")
        world = universe.world_for("broker")
        manager = manager_of(world)
        ids = {directory.path: directory.directory_id for directory in manager.directories}
        if assigned is None:
            with pytest.raises(ConfigurationError, match="t-0 is also in /a"):
                await load_logs(manager, world, lambda name: topic)
            return
        await load_logs(manager, world, lambda name: topic, lambda topic_partition: ids[assigned])
        assert [log.directory for log in manager.logs()] == [f"{assigned}/t-0"]

    simulate(play)


def test_a_directory_whose_state_file_cannot_be_written_is_not_used() -> None:
    async def play(universe: Universe) -> None:
        world, manager = after_a_kill(universe)
        universe.disk("n").faults = [
            Fault("list", errno.EIO, "/a", times=1e9),
            Fault("sync", errno.EIO, "absent", times=1e9),
        ]
        with pytest.raises(StorageError, match="no log directory is usable"):
            await load_logs(manager, world, IDS.get)
        manager.release()

    simulate(play)


def test_a_damaged_directory_state_file_counts_as_empty() -> None:
    async def play(universe: Universe) -> None:
        files = universe.world_for("n").files
        files.make_directories("/a")
        AbsentDirectories(files, "/a").add(["/b"])
        assert AbsentDirectories(files, "/a").paths() == {"/b"}
        for content in (b"", b"[]", b"{", b"\xff"):
            write_file(files, "/a/absent-directories", content)
            assert not AbsentDirectories(files, "/a").paths()

    simulate(play)
