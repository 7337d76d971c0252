"""Forwarding of pushed metrics to an OTLP receiver: the queue, and the bytes of an ExportMetricsServiceRequest.

MetricsData and ExportMetricsServiceRequest have the same form. So a request is a sequence of pushes, each with the
client's attributes (those that KIP-714 names) in its resource. A lost push is not sent again: clients push cumulative
sums, so the next push replaces it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kraft.telemetry.otlp import BYTES, FIXED32, FIXED64, VARINT, InvalidTelemetry, fields
from kraft.world.steps import Steps

QUEUE_BYTES_MAX: Final = 16 << 20
QUEUE_PUSHES_MAX: Final = 1_000
"""Limits of queued pushes. A push beyond them is dropped and counted."""
REQUEST_BYTES_MAX: Final = 4 << 20
"""Limit of the bytes of pushes in one request. A larger push is sent alone."""

SENT: Final = "sent"
DROPPED: Final = "dropped"
FAILED: Final = "failed"


@dataclass(frozen=True, slots=True)
class WaitingPush:
    """A push after decompression, and the attributes of its client. The bytes were read before, so they are valid."""

    data: bytes
    attributes: Mapping[str, str]


@dataclass(slots=True)
class ExportQueue:
    """The pushes that are queued for the receiver, and counters of the outcomes of all others."""

    pushes: dict[str, int] = field(default_factory=lambda: dict.fromkeys((SENT, DROPPED, FAILED), 0))
    """Number of pushes by outcome: sent (the receiver accepted them), dropped (the queue was full), failed (their
    request failed)."""
    rejected_points: int = 0
    """Number of data points that the receiver has reported as rejected."""
    _waiting: deque[WaitingPush] = field(default_factory=deque)
    _bytes: int = 0

    @property
    def waiting(self) -> int:
        """The number of queued pushes."""
        return len(self._waiting)

    def offer(self, push: WaitingPush) -> bool:
        """Queue a push. Returns False if the queue is full; the push is then dropped and counted."""
        if len(self._waiting) == QUEUE_PUSHES_MAX or self._bytes + len(push.data) > QUEUE_BYTES_MAX:
            self.pushes[DROPPED] += 1
            return False
        self._waiting.append(push)
        self._bytes += len(push.data)
        return True

    def take(self) -> list[WaitingPush]:
        """Remove and return the next pushes, as many as fit into one request. Empty if none is queued."""
        taken: list[WaitingPush] = []
        size = 0
        while self._waiting and (not taken or size + len(self._waiting[0].data) <= REQUEST_BYTES_MAX):
            taken.append(self._waiting.popleft())
            size += len(taken[-1].data)
        self._bytes -= size
        return taken

    def settle(self, pushes: int, outcome: str) -> None:
        """Count the outcome of pushes that `take` returned."""
        self.pushes[outcome] += pushes


def request_of(pushes: list[WaitingPush]) -> Steps[bytes]:
    """The body of the request. Raises InvalidTelemetry."""
    found: list[bytes] = []
    for push in pushes:
        for number, kind, _, content in fields(memoryview(push.data)):
            yield None
            if (number, kind) == (1, BYTES):
                found.append(_part(1, (yield from _with_attributes(content, push.attributes))))
    return b"".join(found)


def rejected_points(body: bytes) -> int:
    """The number of rejected data points in an ExportMetricsServiceResponse. Raises InvalidTelemetry."""
    found = 0
    for number, kind, _, content in fields(memoryview(body)):
        if (number, kind) == (1, BYTES):
            found += sum(value for part, kind, value, _ in fields(content) if (part, kind) == (1, VARINT))
    return found


def _with_attributes(resource_metrics: memoryview, attributes: Mapping[str, str]) -> Steps[bytes]:
    """The encoded ResourceMetrics with these attributes added to its resource. They replace attributes of the client
    with the same keys."""
    resource: list[bytes] = []
    others: list[bytes] = []
    for number, kind, value, content in fields(resource_metrics):
        yield None
        if (number, kind) != (1, BYTES):
            others.append(_field(number, kind, value, content))
            continue
        for part, part_kind, part_value, part_content in fields(content):
            yield None
            if (part, part_kind) != (1, BYTES) or _key(part_content) not in attributes:
                resource.append(_field(part, part_kind, part_value, part_content))
    for key, text in attributes.items():
        resource.append(_part(1, _part(1, key.encode()) + _part(2, _part(1, text.encode("utf-8", "replace")))))
    return _part(1, b"".join(resource)) + b"".join(others)


def _key(attribute: memoryview) -> str:
    """The key of an attribute. If the field occurs several times, the last one counts, as for every protobuf field that
    is not repeated."""
    found = ""
    for number, kind, _, content in fields(attribute):
        if (number, kind) == (1, BYTES):
            found = str(content, "utf-8", "replace")
    return found


def _field(number: int, kind: int, value: int, content: memoryview) -> bytes:
    if kind == BYTES:
        return _part(number, content)
    head = _varint(number << 3 | kind)
    if kind == VARINT:
        return head + _varint(value)
    if kind in (FIXED32, FIXED64):
        return head + value.to_bytes(4 if kind == FIXED32 else 8, "little")
    raise InvalidTelemetry(f"a field has wire type {kind}")


def _part(number: int, content: bytes | memoryview) -> bytes:
    return b"".join((_varint(number << 3 | BYTES), _varint(len(content)), content))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
