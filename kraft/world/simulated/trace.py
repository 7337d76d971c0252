"""The trace of a simulation: every port call with its node, arguments, result and time, folded into one hash.

Two runs of one seed must give one hash, in whatever process, under whatever hash seed, environment and working
directory. Payloads enter by length and CRC-32; nothing that differs between processes (addresses, ids of objects,
file descriptors) ever does.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from kraft.world.ports import Buffer

LINES_PER_UPDATE = 512  # Lines hashed at once: hashing one by one costs three times as much.


def digest_of(buffers: Sequence[Buffer]) -> tuple[int, int]:
    """Length and CRC-32 of the concatenated buffers."""
    length = crc = 0
    for buffer in buffers:
        length += len(buffer)
        crc = zlib.crc32(buffer, crc)
    return length, crc


class Trace:
    """A running hash, and the text behind it where somebody wants to compare two runs line by line."""

    __slots__ = ("_hash", "_stamp", "_text", "_time", "_waiting", "calls")

    def __init__(self, path: str | None = None) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._text = Path(path).open("wb") if path else None  # noqa: SIM115  # Open for the length of the simulation; `close` ends it.
        self._waiting: list[str] = []
        self._time = -1.0
        self._stamp = ""
        """The latest time, and its text: most calls come at the time of the one before."""
        self.calls = 0

    def record(self, time: float, node: object, operation: str, facts: tuple[object, ...]) -> None:
        self.calls += 1
        if time != self._time:
            self._time = time
            self._stamp = f"{time:.9f}"
        waiting = self._waiting
        waiting.append(f"{self._stamp} {node} {operation} {facts}\n")
        if len(waiting) >= LINES_PER_UPDATE:
            self._flush()

    def _flush(self) -> None:
        data = "".join(self._waiting).encode()
        self._waiting.clear()
        self._hash.update(data)
        if self._text:
            self._text.write(data)

    def hexdigest(self) -> str:
        self._flush()
        return self._hash.hexdigest()

    def close(self) -> None:
        self._flush()
        if self._text:
            self._text.close()
            self._text = None

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
