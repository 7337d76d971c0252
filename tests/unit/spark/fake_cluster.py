"""A cluster of one broker behind fake sockets: it decodes what is sent, and answers in order, at once."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kraft.protocol.framing import decode_request, encode_response
from tests.unit.spark.memory_broker import FakeClock, FakePartition, MemoryBroker


class FakeCluster(MemoryBroker):
    """At "h:1". `topics` holds each topic's partitions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **topics: int) -> None:
        super().__init__(0, {0: "h"}, {name: [FakePartition() for _ in range(count)] for name, count in topics.items()})
        self.opened: list[FakeSocket] = []
        timed = (
            "client.wire",
            "source.wire_look_ups",
            "sink.row_packer",
            "sink.sink_transaction",
            "sink.open_transactions",
            "sink.batch_commit",
            "sink.batch_sender",
            "sink.internal_topics",
            "sink.log_reading",
        )
        self.clock = FakeClock(monkeypatch, *timed)
        monkeypatch.setattr("kraft.spark.client.wire.socket.create_connection", self.connect)

    def connect(self, *_: Any) -> FakeSocket:
        self.opened.append(FakeSocket(self))
        return self.opened[-1]

    def break_connections(self) -> None:
        for each in self.opened:
            each.broken = True


class FakeSocket:
    """Whole frames in, whole frames out."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.answers = bytearray()
        self.broken = False

    def setsockopt(self, *_: Any) -> None: ...

    def settimeout(self, _: float) -> None: ...

    def close(self) -> None:
        self.broken = True

    def sendall(self, frame: bytes) -> None:
        self.check()
        (size,) = struct.unpack_from(">i", frame)
        header, request = decode_request(memoryview(frame)[4 : 4 + size])
        self.answers += encode_response(
            header.api_key, header.api_version, header.correlation_id, self.broker.answer(request)
        )

    def recv_into(self, view: memoryview, count: int) -> int:
        self.check()
        found = self.answers[:count]
        view[: len(found)] = found
        del self.answers[:count]
        return len(found)

    def check(self) -> None:
        if self.broken:
            raise ConnectionResetError("it is gone")
