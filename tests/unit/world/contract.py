"""What every world owes its nodes, as test classes that each world inherits: the real one and the simulated one pass the same lines."""

from __future__ import annotations

import errno
import math
from collections.abc import Awaitable, Callable

import pytest
import trio

from kraft.world.ports import File, FileSystem, Listener, Stream, World

Body = Callable[[World], Awaitable[None]]


class Harness:
    """How one kind of world is made and run. `run` gives `body` a world inside its event loop; `root` is an existing empty directory of that world."""

    root: str

    def run(self, body: Body) -> None:
        raise NotImplementedError

    def files(self) -> FileSystem:
        """A file system for tests that need no loop."""
        raise NotImplementedError


def fill(file: File, data: bytes) -> File:
    file.append([data])
    return file


class FilesContract:
    def test_appends_give_their_position_and_reads_give_the_bytes_back(self, harness: Harness) -> None:
        files = harness.files()
        file = files.open(f"{harness.root}/a", create=True)
        assert file.append([b"one", bytearray(b"two"), memoryview(b"three")]) == 0
        assert file.append([b"four"]) == 11
        assert file.size() == 15
        assert file.pread(100, 0) == b"onetwothreefour"
        assert file.pread(5, 6) == b"three"
        assert file.pread(5, 15) == b""
        assert file.pread(5, 99) == b""
        assert file.path == f"{harness.root}/a"
        file.close()

    def test_more_buffers_than_one_system_call_takes_are_appended_whole(self, harness: Harness) -> None:
        file = harness.files().open(f"{harness.root}/a", create=True)
        assert file.append([bytes([n % 251]) for n in range(5000)]) == 0
        assert file.pread(6000, 0) == bytes(n % 251 for n in range(5000))
        assert file.append([b"next"]) == 5000
        file.close()

    def test_truncating_moves_the_place_of_the_next_append(self, harness: Harness) -> None:
        file = fill(harness.files().open(f"{harness.root}/a", create=True), b"0123456789")
        file.truncate(4)
        assert file.size() == 4
        assert file.append([b"x"]) == 4
        assert file.pread(10, 0) == b"0123x"
        file.truncate(8)
        assert file.pread(10, 0) == b"0123x\0\0\0"
        file.close()

    def test_writing_at_a_position_overwrites_and_extends(self, harness: Harness) -> None:
        file = fill(harness.files().open(f"{harness.root}/a", create=True), b"0123456789")
        file.pwrite(b"ab", 3)
        assert file.pread(20, 0) == b"012ab56789"
        file.pwrite(b"zz", 12)
        assert file.pread(20, 0) == b"012ab56789\0\0zz"
        assert file.append([b"!"]) == 14
        file.close()

    def test_another_handle_sees_what_was_written(self, harness: Harness) -> None:
        files = harness.files()
        writer = files.open(f"{harness.root}/a", create=True)
        reader = files.open(f"{harness.root}/a", writable=False)
        writer.append([b"seen"])
        assert reader.size() == 4
        assert reader.pread(4, 0) == b"seen"
        with pytest.raises(OSError):
            reader.append([b"no"])
        writer.close()
        reader.close()
        reader.close()

    def test_a_closed_file_refuses_everything(self, harness: Harness) -> None:
        file = fill(harness.files().open(f"{harness.root}/a", create=True), b"x")
        file.close()
        for call in (lambda: file.pread(1, 0), lambda: file.append([b"y"]), file.sync, lambda: file.truncate(0), lambda: file.pwrite(b"y", 0)):
            with pytest.raises(OSError) as caught:
                call()
            assert caught.value.errno == errno.EBADF

    def test_opening_obeys_its_flags(self, harness: Harness) -> None:
        files = harness.files()
        path = f"{harness.root}/a"
        with pytest.raises(FileNotFoundError):
            files.open(path)
        fill(files.open(path, exclusive=True), b"first").close()
        with pytest.raises(FileExistsError):
            files.open(path, exclusive=True)
        reopened = files.open(path)
        assert reopened.append([b"+"]) == 5
        reopened.close()
        emptied = files.open(path, truncate=True)
        assert emptied.size() == 0
        emptied.close()
        with pytest.raises(FileNotFoundError):
            files.open(f"{harness.root}/none/a", create=True)
        with pytest.raises(IsADirectoryError):
            files.open(harness.root)

    def test_a_read_of_what_was_just_written_would_not_wait(self, harness: Harness) -> None:
        file = fill(harness.files().open(f"{harness.root}/a", create=True), bytes(300_000))
        assert file.resident(0, 300_000)
        assert file.resident(0, 0)
        file.close()

    def test_syncing_files_and_directories_succeeds(self, harness: Harness) -> None:
        files = harness.files()
        file = fill(files.open(f"{harness.root}/a", create=True), b"x")
        file.sync()
        files.sync_directory(harness.root)
        with pytest.raises(FileNotFoundError):
            files.sync_directory(f"{harness.root}/none")
        with pytest.raises(NotADirectoryError):
            files.sync_directory(f"{harness.root}/a")
        file.close()

    def test_directories_are_made_listed_in_order_and_removed(self, harness: Harness) -> None:
        files = harness.files()
        files.make_directories(f"{harness.root}/x/y/z")
        files.make_directories(f"{harness.root}/x/y/z")
        for name in ("b", "a", "c"):
            files.open(f"{harness.root}/x/{name}", create=True).close()
        assert files.list_directory(f"{harness.root}/x") == ["a", "b", "c", "y"]
        assert files.exists(f"{harness.root}/x/y/z")
        assert files.status(f"{harness.root}/x/y").is_directory
        files.remove_tree(f"{harness.root}/x/y")
        assert files.list_directory(f"{harness.root}/x") == ["a", "b", "c"]
        files.remove(f"{harness.root}/x/a")
        assert not files.exists(f"{harness.root}/x/a")
        for call in (
            lambda: files.remove(f"{harness.root}/x/a"),
            lambda: files.list_directory(f"{harness.root}/none"),
            lambda: files.status(f"{harness.root}/none"),
            lambda: files.remove_tree(f"{harness.root}/none"),
        ):
            with pytest.raises(FileNotFoundError):
                call()
        with pytest.raises(NotADirectoryError):
            files.list_directory(f"{harness.root}/x/b")
        with pytest.raises((FileExistsError, NotADirectoryError)):
            files.make_directories(f"{harness.root}/x/b")

    def test_renaming_replaces_files(self, harness: Harness) -> None:
        files = harness.files()
        fill(files.open(f"{harness.root}/new", create=True), b"new").close()
        old = fill(files.open(f"{harness.root}/old", create=True), b"old")
        files.rename(f"{harness.root}/new", f"{harness.root}/old")
        assert files.list_directory(harness.root) == ["old"]
        assert old.pread(3, 0) == b"old"
        found = files.open(f"{harness.root}/old")
        assert found.pread(3, 0) == b"new"
        found.close()
        old.close()
        with pytest.raises(FileNotFoundError):
            files.rename(f"{harness.root}/none", f"{harness.root}/old")

    def test_renaming_moves_directories_with_their_content_and_open_files(self, harness: Harness) -> None:
        files = harness.files()
        files.make_directories(f"{harness.root}/from/inner")
        file = fill(files.open(f"{harness.root}/from/inner/f", create=True), b"x")
        files.rename(f"{harness.root}/from", f"{harness.root}/to")
        file.append([b"y"])
        assert files.status(f"{harness.root}/to/inner/f").size == 2
        assert not files.exists(f"{harness.root}/from")
        files.make_directories(f"{harness.root}/empty")
        files.rename(f"{harness.root}/to", f"{harness.root}/empty")
        files.make_directories(f"{harness.root}/another")
        with pytest.raises(OSError) as caught:
            files.rename(f"{harness.root}/another", f"{harness.root}/empty")
        assert caught.value.errno == errno.ENOTEMPTY
        file.close()

    def test_a_removed_file_stays_readable_for_who_has_it_open(self, harness: Harness) -> None:
        files = harness.files()
        file = fill(files.open(f"{harness.root}/a", create=True), b"x")
        files.remove(f"{harness.root}/a")
        assert file.pread(1, 0) == b"x"
        file.close()

    def test_status_tells_size_kind_and_modification_time(self, harness: Harness) -> None:
        files = harness.files()
        fill(files.open(f"{harness.root}/a", create=True), b"12345").close()
        files.set_modified_ms(f"{harness.root}/a", 1_234_567_890_123)
        status = files.status(f"{harness.root}/a")
        assert (status.size, status.modified_ms, status.is_directory) == (5, 1_234_567_890_123, False)

    def test_a_read_only_file_can_be_read_renamed_and_removed(self, harness: Harness) -> None:
        files = harness.files()
        fill(files.open(f"{harness.root}/a", create=True), b"12345").close()
        files.set_read_only(f"{harness.root}/a")
        files.rename(f"{harness.root}/a", f"{harness.root}/b")
        file = files.open(f"{harness.root}/b", writable=False)
        assert file.pread(5, 0) == b"12345"
        file.close()
        files.remove(f"{harness.root}/b")
        with pytest.raises(FileNotFoundError):
            files.set_read_only(f"{harness.root}/b")

    def test_one_holder_at_a_time_has_the_lock(self, harness: Harness) -> None:
        files = harness.files()
        with files.lock(f"{harness.root}/.lock"):
            assert files.exists(f"{harness.root}/.lock")
            with pytest.raises(BlockingIOError), files.lock(f"{harness.root}/.lock"):
                pass
        with files.lock(f"{harness.root}/.lock"):
            pass

    def test_free_and_total_space_are_plausible(self, harness: Harness) -> None:
        files = harness.files()
        assert 0 < files.free_bytes(harness.root) <= files.total_bytes(harness.root)


async def connected(world: World, listener: Listener) -> tuple[Stream, Stream]:
    """Both ends of a new connection, the connecting one first."""
    near = await world.network.connect("127.0.0.1", listener.port)
    return near, await listener.accept()


async def receive_exactly(stream: Stream, count: int) -> bytes:
    got = bytearray(count)
    filled = 0
    while filled < count:
        received = stream.receive_nowait(memoryview(got)[filled:])
        if received is None:
            await stream.wait_readable()
        elif received == 0:
            break
        else:
            filled += received
    return bytes(got[:filled])


class NetworkContract:
    def test_bytes_arrive_whole_and_in_order_both_ways(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            assert near.peer == far.peer == listener.host == "127.0.0.1"
            assert far.local == ("127.0.0.1", listener.port)
            await near.send_all([b"question", memoryview(b" "), bytearray(b"mark")])
            assert await receive_exactly(far, 13) == b"question mark"
            await far.send_all([b"answer"])
            assert await receive_exactly(near, 6) == b"answer"
            assert near.receive_nowait(memoryview(bytearray(1))) is None
            for closable in (near, far, listener):
                closable.close()

        harness.run(body)

    def test_a_large_send_waits_for_its_reader(self, harness: Harness) -> None:
        payload = bytes(range(256)) * 40_000

        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(near.send_all, [payload, b"end"])
                assert await receive_exactly(far, len(payload) + 3) == payload + b"end"
            while near.send_nowait([payload]):
                pass
            with world.clock.move_on_after(0.01) as scope:
                await near.wait_writable()
            assert scope.cancelled_caught
            near.close()
            far.close()
            listener.close()

        harness.run(body)

    def test_a_piece_of_a_file_is_sent(self, harness: Harness) -> None:
        content = bytes(range(256)) * 10_000

        async def body(world: World) -> None:
            file = fill(world.files.open(f"{harness.root}/a", create=True), content)
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(near.send_file, file, 100, 2_500_000)
                assert await receive_exactly(far, 2_500_000) == content[100:2_500_100]
            with pytest.raises(OSError) as caught:
                await near.send_file(file, len(content) - 10, 20)
            assert caught.value.errno == errno.EIO
            file.close()
            near.close()
            far.close()
            listener.close()

        harness.run(body)

    def test_the_end_of_a_stream_is_seen_after_its_last_byte(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            await near.send_all([b"last"])
            near.close()
            near.close()
            assert await receive_exactly(far, 10) == b"last"
            assert far.receive_nowait(memoryview(bytearray(1))) == 0
            far.close()
            listener.close()

        harness.run(body)

    def test_who_expects_much_is_woken_by_what_comes_and_by_the_end_of_the_stream(self, harness: Harness) -> None:
        """And expects little afterwards. All that is there counts as much, also when less comes than was expected: the stream ended."""

        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            frame = bytes(range(256)) * 1500
            for _ in range(2):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(near.send_all, [frame])
                    got = bytearray()
                    while len(got) < len(frame):
                        await far.wait_readable(len(frame) - len(got))
                        got += await receive_exactly(far, min(100_000, len(frame) - len(got)))
                assert got == frame
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(far.wait_readable)
                    await near.send_all([b"x"])
                assert await receive_exactly(far, 1) == b"x"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(far.wait_readable, 300_000)
                await near.send_all([b"less"])
                near.close()
            assert await receive_exactly(far, 300_000) == b"less"
            with pytest.raises(ConnectionError):
                await near.wait_readable(300_000)
            far.close()
            listener.close()

        harness.run(body)

    def test_using_a_closed_stream_is_a_connection_error(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            near.close()
            for call in (lambda: near.receive_nowait(memoryview(bytearray(1))), lambda: near.send_nowait([b"x"])):
                with pytest.raises(ConnectionError):
                    call()
            for wait in (near.wait_readable, near.wait_writable):
                with pytest.raises(ConnectionError):
                    await wait()
            with pytest.raises(ConnectionError):
                await near.send_all([b"x"])
            far.close()
            listener.close()

        harness.run(body)

    def test_closing_a_stream_wakes_who_waits_on_it(self, harness: Harness) -> None:
        woken: list[str] = []

        async def waiting(stream: Stream) -> None:
            with pytest.raises(ConnectionError):
                await stream.wait_readable()
            woken.append("reader")

        async def accepting(listener: Listener) -> None:
            with pytest.raises(ConnectionError):
                await listener.accept()
            woken.append("acceptor")

        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(waiting, near)
                nursery.start_soon(accepting, listener)
                await world.clock.sleep(0.01)
                near.close()
                listener.close()
            with pytest.raises(ConnectionError):
                await listener.accept()
            far.close()

        harness.run(body)
        assert sorted(woken) == ["acceptor", "reader"]

    def test_sending_to_a_side_that_closed_fails_in_the_end(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            far.close()
            with pytest.raises(ConnectionError):
                for _ in range(100):
                    await near.send_all([b"x"])
                    await world.clock.sleep(0.002)
            near.close()
            listener.close()

        harness.run(body)

    def test_a_port_is_taken_once_and_free_after_close(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            with pytest.raises(OSError) as caught:
                await world.network.listen("127.0.0.1", listener.port)
            assert caught.value.errno == errno.EADDRINUSE
            port = listener.port
            listener.close()
            again = await world.network.listen("127.0.0.1", port)
            assert again.port == port
            again.close()

        harness.run(body)

    def test_connecting_where_nobody_listens_is_refused(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            listener.close()
            with pytest.raises(ConnectionRefusedError):
                await world.network.connect("127.0.0.1", listener.port)

        harness.run(body)

    def test_localhost_is_this_machine(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            listener = await world.network.listen("localhost", 0)
            near = await world.network.connect("localhost", listener.port)
            near.close()
            listener.close()

        harness.run(body)


class ClockContract:
    def test_sleeping_takes_the_time_it_was_asked_for(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            start = world.clock.now()
            await world.clock.sleep(0.02)
            assert world.clock.now() >= start + 0.02
            await world.clock.sleep_until(start + 0.04)
            assert world.clock.now() >= start + 0.04
            await world.clock.sleep_until(start)
            await world.clock.sleep(-1)

        harness.run(body)

    def test_the_wall_clock_moves_with_time(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            before = world.clock.wall_ms()
            await world.clock.sleep(0.02)
            assert world.clock.wall_ms() >= before + 15

        harness.run(body)

    def test_a_deadline_cancels_its_body_and_nothing_else(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            with world.clock.move_on_after(0.01) as scope:
                await world.clock.sleep_until(math.inf)
            assert scope.cancelled_caught
            with world.clock.move_on_at(world.clock.now() + 10) as scope:
                await world.clock.sleep(0.001)
            assert not scope.cancelled_caught
            with world.clock.move_on_at(math.inf) as scope:
                await world.clock.sleep(0.001)
            assert not scope.cancelled_caught
            with world.clock.move_on_at(world.clock.now() - 1) as scope:
                await world.clock.sleep(1)
            assert scope.cancelled_caught
            with world.clock.move_on_after(math.inf) as scope:
                scope.cancel()
                await world.clock.sleep(1)
            assert scope.cancelled_caught

        harness.run(body)

    def test_nested_deadlines_fire_in_their_order(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            with world.clock.move_on_after(10) as outer:
                with world.clock.move_on_after(0.01) as inner:
                    await world.clock.sleep(5)
                assert inner.cancelled_caught
            assert not outer.cancelled_caught

        harness.run(body)


class ThreadsContract:
    def test_a_function_runs_and_its_result_or_error_comes_back(self, harness: Harness) -> None:
        def divide(left: int, right: int) -> int:
            return left // right

        async def body(world: World) -> None:
            assert await world.threads.run(divide, 7, 2) == 3
            with pytest.raises(ZeroDivisionError):
                await world.threads.run(divide, 1, 0)

        harness.run(body)

    def test_other_tasks_go_on_while_a_function_runs(self, harness: Harness) -> None:
        results: list[int] = []

        async def job(world: World, number: int) -> None:
            results.append(await world.threads.run(lambda: number))

        async def body(world: World) -> None:
            async with trio.open_nursery() as nursery:
                for number in range(40):
                    nursery.start_soon(job, world, number)

        harness.run(body)
        assert sorted(results) == list(range(40))


class RandomnessContract:
    def test_purposes_have_streams_of_their_own(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            assert world.random.stream("a") is world.random.stream("a")
            assert world.random.stream("a").random() != world.random.stream("b").random()

        harness.run(body)

    def test_uuids_are_version_four_and_never_begin_with_a_dash(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            made = [world.random.uuid("topic") for _ in range(300)]
            assert len(set(made)) == 300
            for raw in made:
                assert (len(raw), raw[6] >> 4, raw[8] >> 6) == (16, 4, 2)
                assert not 0xF8 <= raw[0] < 0xFC

        harness.run(body)


class WorldContract(FilesContract, NetworkContract, ClockContract, ThreadsContract, RandomnessContract):
    def test_environment_and_log_sink_are_there(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            assert world.process_id > 0
            dict(world.environment)
            world.log_sink({"event": "hello", "number": 1})

        harness.run(body)
