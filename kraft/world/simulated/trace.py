"""The trace of a simulation: every port call with its node, arguments, result and time, in one hash.

Two runs of one seed must give the same hash, in any process and under any hash seed, environment and working directory.
Payloads are represented by length and CRC-32. Values that differ between processes (addresses, ids of objects, file
descriptors) are never included.
"""

from __future__ import annotations

import hashlib
import marshal
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from kraft.world.ports import Buffer

CALLS_PER_UPDATE = 512  # Hashed together: hashing one by one costs three times as much.
MARSHAL_VERSION: Final = 2
"""The last version of the marshal format without references. With references, the bytes of an object depend on its
reference count."""


def digest_of(buffers: Sequence[Buffer]) -> tuple[int, int]:
    """Return length and CRC-32 of the concatenated buffers."""
    length = crc = 0
    for buffer in buffers:
        length += len(buffer)
        crc = zlib.crc32(buffer, crc)
    return length, crc


class Trace:
    """A running hash. The text can be kept too, to compare two runs line by line."""

    __slots__ = ("_folded", "_hash", "_text", "waiting")

    def __init__(self, path: str | None = None) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._text = Path(path).open("wb") if path else None  # noqa: SIM115  # Open for the length of the simulation; `close` ends it.
        self.waiting: list[tuple[float, object, str, tuple[object, ...]]] = []
        """The records that are not in the hash yet. The list object is never replaced. The caller that appends to it
        calls `fold` at CALLS_PER_UPDATE records."""
        self._folded = 0  # Calls that are in the hash.

    def record(self, time: float, node: object, operation: str, facts: tuple[object, ...]) -> None:
        """Record a port call. `facts` must not change afterwards, because they are hashed later."""
        waiting = self.waiting
        waiting.append((time, node, operation, facts))
        if len(waiting) >= CALLS_PER_UPDATE:
            self.fold()

    @property
    def calls(self) -> int:
        """The number of recorded calls."""
        return self._folded + len(self.waiting)

    def fold(self) -> None:
        """Add the pending records to the hash."""
        waiting = self.waiting
        if not waiting:
            return
        try:
            data = marshal.dumps(waiting, MARSHAL_VERSION)
        except ValueError:  # A fact is not quite a number, a text or None.
            data = repr(waiting).encode()
        self._hash.update(data)
        if self._text:
            lines = (f"{time:.9f} {node} {operation} {facts}\n" for time, node, operation, facts in waiting)
            self._text.write("".join(lines).encode())
        self._folded += len(waiting)
        waiting.clear()

    def hexdigest(self) -> str:
        self.fold()
        return self._hash.hexdigest()

    def close(self) -> None:
        self.fold()
        if self._text:
            self._text.close()
            self._text = None

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
