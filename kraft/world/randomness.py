"""Random streams by purpose: from a seed (simulation, tests) or from the kernel.

A stream's seed is text hashed by `random.Random` itself (SHA-512), so it depends neither on the process's hash seed
nor on the order in which purposes are first asked for. Asking again for a purpose continues its stream.
"""

from __future__ import annotations

import os
import random

# First bytes whose URL-safe base64 begins with "-", which a command line would take for an option; Kafka skips such ids
# too.
LEADING_DASH = range(0xF8, 0xFC)


def uuid_from(stream: random.Random) -> bytes:
    """Sixteen bytes in the form of a version 4 UUID (RFC 9562), never beginning with "-" in Kafka's text form."""
    while True:
        raw = bytearray(stream.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if raw[0] not in LEADING_DASH:
            return bytes(raw)


class SeededRandomness:
    """Every stream is determined by (seed, purpose)."""

    __slots__ = ("_seed", "_streams")

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._streams: dict[str, random.Random] = {}

    def stream(self, purpose: str) -> random.Random:
        stream = self._streams.get(purpose)
        if stream is None:
            stream = self._streams[purpose] = random.Random(f"{self._seed}/{purpose}")
        return stream

    def uuid(self, purpose: str) -> bytes:
        return uuid_from(self.stream(f"uuid/{purpose}"))


class SystemRandomness:
    """Streams seeded by the kernel; UUIDs straight from it, so that they may serve as secrets."""

    __slots__ = ("_streams", "_system")

    def __init__(self) -> None:
        self._streams: dict[str, random.Random] = {}
        self._system = random.SystemRandom()

    def stream(self, purpose: str) -> random.Random:
        stream = self._streams.get(purpose)
        if stream is None:
            stream = self._streams[purpose] = random.Random(os.urandom(32))
        return stream

    def uuid(self, purpose: str) -> bytes:
        del purpose
        return uuid_from(self._system)
