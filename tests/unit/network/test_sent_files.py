"""kraft/network/connection.py: a piece of a file is sent as it is in memory, and what is not is waited for, once."""

from __future__ import annotations

import trio

from kraft.network.connection import SENT_AT_ONCE_BYTES, Connection
from kraft.network.reply import FileRange
from kraft.world.ports import File
from tests.unit.network.scripted import Running, scenario

MB = SENT_AT_ONCE_BYTES


def test_cached_file_bytes_are_sent_immediately_and_only_uncached_ones_waited_for() -> None:
    steps: list[tuple[str, int, int]] = []

    class HalfCold:
        """A stream that finds 10 bytes of the second piece in memory, and all others whole."""

        is_encrypted, peer, local = False, "127.0.0.1", ("127.0.0.1", 9092)

        async def send_file(self, file: File, offset: int, count: int, *, only_resident: bool = False) -> int:
            await trio.lowlevel.checkpoint()
            steps.append(("send what is in memory" if only_resident else "send", offset, count))
            return 10 if only_resident and offset == 7 + MB else count

    class Waits:
        async def until_resident(self, file: File, position: int, count: int) -> None:
            await trio.lowlevel.checkpoint()
            steps.append(("wait", position, count))

    async def play(run: Running) -> None:
        run.server.cold_reads = Waits()  # type: ignore[assignment]  # What of it is used, here as below.
        connection = Connection(run.server, HalfCold(), "User:ANONYMOUS")  # type: ignore[arg-type]
        await connection._send_file(FileRange(None, 7, 2 * MB + 100, None))  # type: ignore[arg-type]

    scenario(play)
    assert steps == [
        ("send what is in memory", 7, MB),
        ("send what is in memory", 7 + MB, MB),
        ("wait", 17 + MB, MB),
        ("send", 17 + MB, MB),
        ("send what is in memory", 17 + 2 * MB, 90),
    ]
