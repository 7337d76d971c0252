"""What every world owes its nodes of the network."""

from __future__ import annotations

import errno

import pytest
import trio

from kraft.world.ports import Listener, Stream, World
from tests.unit.world.files_contract import fill
from tests.unit.world.harness import Harness


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
    def test_bytes_arrive_complete_and_in_order_in_both_directions(self, harness: Harness) -> None:
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

    def test_a_large_send_waits_for_its_receiver(self, harness: Harness) -> None:
        payload = bytes(range(256)) * 40_000

        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(near.send_all, [payload, b"end"])
                assert await receive_exactly(far, len(payload) + 3) == payload + b"end"
            for _ in range(100):  # The kernel may pass bytes on for a while, and so make room again.
                while near.send_nowait([payload]):
                    pass
                with world.clock.move_on_after(0.01) as scope:
                    await near.wait_writable()
                if scope.cancelled_caught:
                    break
            assert scope.cancelled_caught
            near.close()
            far.close()
            listener.close()

        harness.run(body)

    def test_a_range_of_a_file_is_sent(self, harness: Harness) -> None:
        content = bytes(range(256)) * 10_000

        async def body(world: World) -> None:
            file = fill(world.files.open(f"{harness.root}/a", create=True), content)
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            sent: list[int] = []

            async def send() -> None:
                sent.append(await near.send_file(file, 100, 2_500_000))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                assert await receive_exactly(far, 2_500_000) == content[100:2_500_100]
            assert sent == [2_500_000]
            assert await near.send_file(file, 7, 10, only_resident=True) == 10
            assert await receive_exactly(far, 10) == content[7:17]
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

    def test_a_receiver_of_many_bytes_wakes_on_arriving_bytes_and_at_the_end_of_the_stream(
        self, harness: Harness
    ) -> None:
        """And expects little afterwards. All that is there counts as much, also when less comes than was expected:
        the stream ended."""

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

    def test_the_end_of_a_stream_can_be_awaited_without_receiving(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            ended: list[str] = []

            async def wait_ended() -> None:
                await far.wait_ended()
                ended.append("far")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait_ended)
                await near.send_all([b"last"])
                await world.clock.sleep(0.01)
                assert ended == []
                assert await receive_exactly(far, 4) == b"last"
                near.close()
            assert ended == ["far"]
            assert far.receive_nowait(memoryview(bytearray(1))) == 0
            far.close()
            listener.close()

        harness.run(body)

    def test_a_stream_with_unread_bytes_has_not_ended(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            await near.send_all([b"last"])
            near.close()
            with world.clock.move_on_after(0.02) as waiting:
                await far.wait_ended()
            assert waiting.cancelled_caught
            assert await receive_exactly(far, 5) == b"last"
            await far.wait_ended()
            far.close()
            listener.close()

        harness.run(body)

    def test_a_task_that_awaits_the_end_of_a_stream_gets_its_error_or_close(self, harness: Harness) -> None:
        told: list[str] = []

        async def wait_ended(stream: Stream, name: str) -> None:
            with pytest.raises(ConnectionError):
                await stream.wait_ended()
            told.append(name)

        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            other_near, other_far = await connected(world, listener)
            await near.send_all([b"unread"])
            await far.send_all([bytes(60_000)])  # More than one record of TLS, of which closing reads one.
            await world.clock.sleep(0.01)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait_ended, far, "broken")
                nursery.start_soon(wait_ended, other_far, "closed")
                await world.clock.sleep(0.01)
                near.close()  # With something unread: the other side sees a reset.
                other_far.close()
            await wait_ended(other_far, "closed before")
            for closable in (far, other_near, listener):
                closable.close()

        harness.run(body)
        assert sorted(told) == ["broken", "closed", "closed before"]

    def test_using_a_closed_stream_is_a_connection_error(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            listener = await world.network.listen("127.0.0.1", 0)
            near, far = await connected(world, listener)
            near.close()
            for call in (lambda: near.receive_nowait(memoryview(bytearray(1))), lambda: near.send_nowait([b"x"])):
                with pytest.raises(ConnectionError):
                    call()
            far.close()
            for wait in (near.wait_readable, far.wait_readable, near.wait_writable, far.wait_writable):
                with pytest.raises(ConnectionError):
                    await wait()
            with pytest.raises(ConnectionError):
                await near.send_all([b"x"])
            listener.close()

        harness.run(body)

    def test_closing_a_stream_wakes_tasks_that_wait_on_it(self, harness: Harness) -> None:
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

    def test_sending_to_a_closed_peer_eventually_fails(self, harness: Harness) -> None:
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

    def test_a_port_can_be_bound_once_and_again_after_close(self, harness: Harness) -> None:
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

    def test_connecting_to_a_port_without_a_listener_is_refused(self, harness: Harness) -> None:
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
