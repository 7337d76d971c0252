"""kraft/network/connection.py: a connection whose client has to wait, and how it ends nevertheless."""

from __future__ import annotations

from kraft.network.limits import ConnectionLimits
from tests.unit.network.scripted import Running, ended, eventually, frame, reply, scenario


def test_a_muted_connection_closes_immediately_when_its_peer_disconnects() -> None:
    async def play(run: Running) -> None:
        for _ in range(20):
            stream = await run.connect()
            await stream.send_all([frame(b"m")])
            assert await reply(stream) == b"m"
            stream.close()
        await eventually(lambda: not run.server.connections)

    scenario(play)


def test_a_muted_connection_closes_when_its_peer_left_without_reading_responses() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"m"), frame(b"e" + bytes(1000))])
        await eventually(lambda: run.dispatcher.started == [b"m"])
        await stream.wait_readable()
        stream.close()
        await eventually(lambda: not run.server.connections)

    scenario(play)


def test_a_muted_connection_counts_as_idle() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"m")])
        assert await reply(stream) == b"m"
        assert await ended(stream)
        await eventually(lambda: not run.server.connections)
        assert run.server.idle_closed == 1

    scenario(play, ConnectionLimits(idle_seconds_max=0.2))


def test_requests_without_responses_received_before_the_disconnect_are_served_after_the_mute() -> None:
    """A producer with acks=0 may have closed its connection before all that it sent is read."""

    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"q1"), frame(b"q2"), frame(b"n" + bytes(100_000)), frame(b"n4")])
        stream.close()
        await eventually(lambda: len(run.dispatcher.started) == 4 and not run.server.connections)
        assert [started[:2] for started in run.dispatcher.started] == [b"q1", b"q2", b"n\0", b"n4"]

    scenario(play)


def test_a_muted_peer_that_stays_connected_is_served_after_the_mute() -> None:
    async def play(run: Running) -> None:
        stream = await run.connect()
        await stream.send_all([frame(b"q"), frame(b"e")])
        assert await reply(stream) == b"e"

    scenario(play)


def test_no_request_of_a_muted_peer_starts_before_the_mute_ends() -> None:
    async def play(run: Running) -> None:
        stream, other = await run.connect(), await run.connect()
        await stream.send_all([frame(b"m"), frame(b"e1")])
        assert await reply(stream) == b"m"
        for _ in range(3):
            await stream.send_all([frame(b"e2")])
            await other.send_all([frame(b"e")])
            assert await reply(other) == b"e"
        assert run.dispatcher.started == [b"m", b"e", b"e", b"e"]

    scenario(play)
