"""The real world keeps the contract, and what only a real kernel can show."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
import trio

from kraft.raft.metadata_log import MetadataLog
from kraft.world.ports import LockHeld, StepEnd, WorkFailed, World
from kraft.world.real import RealWorld, write_to_stderr
from kraft.world.real.files import RealFileSystem
from kraft.world.real.loop import RealLoop
from kraft.world.real.worker_process import ALIVE, RESULT, advance, frame
from kraft.world.real.workers import RealWorker
from tests.unit.world.contract import WatchedSteps, WorldContract
from tests.unit.world.harness import Body, Harness
from tests.unit.world.network_contract import connected
from tests.unit.world.works import blunder, never_end, write_and_tell


class RealHarness(Harness):
    def __init__(self, root: Path) -> None:
        self.root = str(root)

    def run(self, body: Body) -> None:
        world: World = RealWorld(seed=1, log_sink=lambda line: None)
        trio.run(body, world)

    def files(self) -> RealFileSystem:
        return RealFileSystem()


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return RealHarness(tmp_path)


class TestRealWorld(WorldContract):
    pass


def test_a_waiting_loop_counts_as_idle() -> None:
    watched = WatchedSteps()

    async def waiting() -> None:
        with RealLoop().watch(watched):
            await trio.sleep(0.05)

    trio.run(waiting)
    assert watched.idle_seconds > 0.045


def test_a_step_that_blocks_the_loop_is_reported_with_its_task_and_duration() -> None:
    watched = WatchedSteps()

    async def spinning() -> None:
        until = time.thread_time() + 0.03
        while time.thread_time() < until:
            pass
        await trio.lowlevel.checkpoint()

    async def main() -> None:
        with RealLoop(time.thread_time).watch(watched):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep, 0.01)
                nursery.start_soon(spinning)
        await spinning()  # Nobody watches any more.

    trio.run(main)
    assert [name.rpartition(".")[2] for name, seconds in watched.told if seconds >= 0.03] == ["spinning"]
    assert sum(seconds for _, seconds in watched.told) < 0.05


def test_unseeded_random_streams_differ_between_worlds() -> None:
    assert RealWorld().random.stream("a").random() != RealWorld().random.stream("a").random()
    assert RealWorld().random.uuid("a") != RealWorld().random.uuid("a")


def test_seeded_random_streams_are_the_same_everywhere() -> None:
    assert (
        RealWorld(seed=7).random.stream("a").random()
        == RealWorld(seed="7").random.stream("a").random()
        == 0.9733080591306875
    )


def test_the_default_log_sink_writes_a_json_line_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    write_to_stderr({"event": "start", "path": Path("/a")})
    assert json.loads(capsys.readouterr().err) == {"event": "start", "path": "/a"}


def test_a_stream_that_never_blocks_still_yields(tmp_path: Path) -> None:
    """Sends that always fit the socket buffer must not keep other tasks from running."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async def body() -> None:
        world = RealWorld()
        listener = await world.network.listen("127.0.0.1", 0)
        near, far = await connected(world, listener)
        scratch = memoryview(bytearray(1 << 20))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_turns)
            for _ in range(6000):
                await near.send_all([bytes(1024)])
                far.receive_nowait(scratch)
            nursery.cancel_scope.cancel()
        for closable in (near, far, listener):
            closable.close()

    trio.run(body)
    assert turns >= 2


@pytest.mark.parametrize(
    ("host", "port"), [("a..b", 1), ("x" * 70, 1), ("\0", 1), ("\ud800", 1), ("127.0.0.1", 1 << 70)]
)
def test_an_invalid_address_is_an_os_error(host: str, port: int) -> None:
    async def main() -> None:
        with pytest.raises(OSError):
            await RealWorld(log_sink=lambda event: None).network.connect(host, port)

    trio.run(main)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_peer_has_the_same_address_under_every_listener_family(host: str) -> None:
    """Access control entries, limits and quotas name IPv4 addresses as such."""

    async def body() -> None:
        network = RealWorld().network
        with closing(await network.listen("", 0)) as listener, closing(await network.connect(host, listener.port)):
            with closing(await listener.accept()) as accepted:
                assert accepted.peer == host

    trio.run(body)


def test_a_file_handle_of_another_world_is_refused() -> None:
    async def body() -> None:
        world = RealWorld()
        listener = await world.network.listen("", 0)
        near, far = await connected(world, listener)
        with pytest.raises(TypeError, match="another world"):
            await near.send_file(object(), 0, 1)  # type: ignore[arg-type]  # The point of the test.
        for closable in (near, far, listener):
            closable.close()

    trio.run(body)


def test_failed_or_killed_work_is_reported_and_the_next_work_runs(tmp_path: Path) -> None:
    async def main() -> None:
        async with RealWorld(seed=1).workers.open() as worker:
            assert isinstance(worker, RealWorker)
            assert worker._process is None, "it is started when there is something to do"
            await worker.begin(blunder, "here")
            with pytest.raises(WorkFailed, match="ZeroDivisionError: here"):
                await worker.next_result()
            assert worker._process is not None
            os.kill(worker._process.pid, signal.SIGKILL)
            with pytest.raises(WorkFailed, match="ended with status -9"):
                await worker.next_result()
            await worker.begin(write_and_tell, f"{tmp_path}/work")
            assert await worker.next_result() == 1

    trio.run(main)


def test_a_worker_process_without_heartbeats_is_abandoned(tmp_path: Path) -> None:
    async def main() -> None:
        async with RealWorld(seed=1).workers.open() as worker:
            assert isinstance(worker, RealWorker)
            await worker.begin(never_end, f"{tmp_path}/work")
            assert await worker.next_result() == 1
            assert worker._process is not None
            process, worker._silence_seconds = worker._process, 0.2
            process.send_signal(signal.SIGSTOP)
            with pytest.raises(WorkFailed, match="no sign of life"):
                await worker.next_result()
            assert process.returncode == -signal.SIGKILL
            worker._silence_seconds = 60
            await worker.begin(write_and_tell, f"{tmp_path}/work2")
            assert await worker.next_result() == 1

    trio.run(main)


def test_long_work_sends_heartbeats_between_its_steps() -> None:
    answers = io.BytesIO()
    steps = iter((StepEnd(), StepEnd(0.001), 7))
    advance(steps, answers, 0.0)
    told = answers.getvalue()
    assert told.startswith(frame((ALIVE, None)) * 2)
    assert told.endswith(frame((ALIVE, None)) + frame((RESULT, 7)))
    answers = io.BytesIO()
    advance(iter((StepEnd(), StepEnd(0.001), 7)), answers, 1000.0)
    assert answers.getvalue() == frame((RESULT, 7))


def test_no_work_runs_after_its_worker_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with RealWorld(seed=1).workers.open() as worker:
            await worker.begin(never_end, f"{tmp_path}/work")
            assert await worker.next_result() == 1
            with trio.move_on_after(0.1):
                await worker.next_result()
        size = (tmp_path / "work").stat().st_size
        await trio.sleep(0.05)
        assert (tmp_path / "work").stat().st_size == size

    trio.run(main)


ORPHAN_MAKER = """
import sys, trio
from kraft.world.real import RealWorld
from tests.unit.world.works import never_end

async def main():
    world = RealWorld(seed=1)
    with world.files.lock(sys.argv[1] + "/lock"):
        async with world.workers.open() as worker:
            await worker.begin(never_end, sys.argv[1] + "/work")
            await worker.next_result()
            print(worker._process.pid, flush=True)
            await worker.next_result()

trio.run(main)
"""


@contextmanager
def node_with_work(directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """It, and the pid of its work process, which writes without end. The node is killed on the way out."""
    node = subprocess.Popen(
        [sys.executable, "-c", ORPHAN_MAKER, str(directory)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    assert node.stdout is not None
    with node.stdout:
        try:
            yield node, int(node.stdout.readline())
        finally:
            node.kill()
            node.wait()


def test_a_frozen_worker_process_is_killed_with_its_node(tmp_path: Path) -> None:
    """A stopped process reads no end of its input. The kernel kills it."""
    with node_with_work(tmp_path) as (_, worker):
        os.kill(worker, signal.SIGSTOP)
    try:
        with RealFileSystem().lock(f"{tmp_path}/lock"):
            pass
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def test_a_lock_names_the_processes_that_hold_it(tmp_path: Path) -> None:
    with node_with_work(tmp_path) as (node, worker):
        with pytest.raises(LockHeld) as told, RealFileSystem().lock(f"{tmp_path}/lock"):
            pass
        assert [holder.pid for holder in told.value.holders] == sorted((node.pid, worker))
        assert all(holder.command.startswith(sys.executable) for holder in told.value.holders)


def test_the_directory_of_a_killed_node_stays_locked_until_its_workers_have_ended(tmp_path: Path) -> None:
    with node_with_work(tmp_path):
        pass
    files = RealFileSystem()
    give_up = time.monotonic() + 30
    while True:
        try:
            with files.lock(f"{tmp_path}/lock"):
                size = (tmp_path / "work").stat().st_size
                time.sleep(0.05)
                assert (tmp_path / "work").stat().st_size == size
                return
        except BlockingIOError:  # A very busy machine.
            assert time.monotonic() < give_up


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_files_created_by_a_node_are_private_to_their_owner(tmp_path: Path) -> None:
    files = RealFileSystem()
    files.make_directories(f"{tmp_path}/data")
    files.open(f"{tmp_path}/data/a", create=True).close()
    with files.lock(f"{tmp_path}/data/.lock"):
        assert mode(tmp_path / "data" / ".lock") == 0o600
    assert (mode(tmp_path / "data"), mode(tmp_path / "data" / "a")) == (0o700, 0o600)


def test_a_reserved_file_allocates_blocks_and_releases_them(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    for size in (1 << 20, 4 << 20, 1 << 20):
        RealFileSystem().reserve(str(path), size)
        assert abs(path.stat().st_blocks * 512 - size) <= 1 << 16
    assert mode(path) == 0o600


def test_a_reservation_that_does_not_fit_leaves_the_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, start: int, count: int) -> None:
        os.ftruncate(descriptor, start + count // 2)
        raise OSError(errno.ENOSPC, "full")

    path = tmp_path / "reserve"
    RealFileSystem().reserve(str(path), 1 << 16)
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError, match="full"):
        RealFileSystem().reserve(str(path), 1 << 20)
    assert path.stat().st_size == 1 << 16


def test_world_readable_files_are_made_private(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    (tmp_path / "data" / "a").touch(mode=0o644)
    for path in (tmp_path / "data", tmp_path / "data" / "a"):
        RealFileSystem().set_private(str(path))
    assert (mode(tmp_path / "data"), mode(tmp_path / "data" / "a")) == (0o700, 0o600)


def test_the_metadata_log_of_an_earlier_release_is_made_private(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir(mode=0o755)
    MetadataLog.open(RealFileSystem(), str(directory), segment_bytes=1 << 20)
    assert mode(directory) == 0o700


def refuse_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is in memory. A kernel cannot be told so for sure: that it was asked in vain already makes it read ahead,
    and it may keep what it is advised to drop."""
    read = os.preadv

    def cold(descriptor: int, buffers: Sequence[bytearray | memoryview], offset: int, flags: int = 0) -> int:
        if flags & os.RWF_NOWAIT:
            raise BlockingIOError(errno.EAGAIN, "not in memory")
        return read(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", cold)


@pytest.mark.parametrize("is_cold", [True, False])
def test_a_read_does_not_wait_for_pages_the_kernel_dropped(
    is_cold: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it is for the kernel to say; it may drop or read what it likes at any time."""
    if is_cold:
        refuse_to_wait(monkeypatch)

    async def main() -> None:
        world = RealWorld(log_sink=lambda event: None)
        path = tmp_path / "cold"
        path.write_bytes(bytes(range(256)) * 4096)
        with ExitStack() as opened, path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            cold = opened.enter_context(closing(world.files.open(str(path))))
            listener = opened.enter_context(closing(await world.network.listen("127.0.0.1", 0)))
            near, far = await connected(world, listener)
            for stream in (near, far):
                opened.callback(stream.close)
            assert cold.resident(0, 1 << 20) in ((False,) if is_cold else (False, True))
            found = cold.read_resident(1 << 20, 0)
            assert found is None or (not is_cold and bytes(found[:3]) == b"\0\1\2")
            assert await near.send_file(cold, 0, 1000, only_resident=True) in ((0,) if is_cold else (0, 1000))
            assert await near.send_file(cold, 0, 1000) == 1000

    trio.run(main)
