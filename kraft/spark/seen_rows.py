"""What an earlier attempt wrote, as far as an attempt has to compare: eight bytes a row, whatever its size, for a
first micro-batch may be a whole topic."""

from __future__ import annotations

from hashlib import blake2b

from kraft.spark.batch_encoder import Headers

Content = tuple[bytes | None, bytes | None, Headers]
DIGEST_BYTES = 8
UNKNOWN = bytes(DIGEST_BYTES)


class SeenRows:
    """Digests of rows by number, from 0 to `count` (exclusive); what the log does not hold any more is unknown, and
    differs from nothing."""

    __slots__ = ("_digests",)

    def __init__(self, count: int) -> None:
        self._digests = bytearray(DIGEST_BYTES * count)

    def note(self, number: int, content: Content) -> None:
        """Beyond `count` nothing is noted."""
        at = DIGEST_BYTES * number
        if at < len(self._digests):
            self._digests[at : at + DIGEST_BYTES] = digest(content)

    def differs(self, number: int, content: Content) -> bool:
        """Whether another row has this number."""
        at = DIGEST_BYTES * number
        known = bytes(self._digests[at : at + DIGEST_BYTES])
        return known not in (b"", UNKNOWN) and known != digest(content)


def digest(content: Content) -> bytes:
    """Never `UNKNOWN`."""
    key, value, headers = content
    found = blake2b(repr((key, value, headers)).encode(), digest_size=DIGEST_BYTES).digest()
    return found if found != UNKNOWN else b"\1" * DIGEST_BYTES
