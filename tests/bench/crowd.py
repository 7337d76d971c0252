"""A crowd of clients in one process of its own, without a client library: prepared frames over epoll, so that what is
timed is the broker. It answers with one line of JSON.

python -m tests.bench.crowd producers PORT TOPIC CONNECTIONS RECORDS_A_SECOND SECONDS
python -m tests.bench.crowd consumers PORT TOPIC CONNECTIONS PARTITIONS RECORDS_A_SECOND SECONDS
python -m tests.bench.crowd idle PORT CONNECTIONS    (until standard input ends)
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import crc32c

from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.request_header import RequestHeader
from kraft.protocol.records.builder import Record, build_batch

WARM_S = 2.0
VALUE_BYTES = 92
"""Of which the last eight are when the record was sent: a clock that all processes share, in nanoseconds."""
STAMP = struct.Struct(">q")
AFTER_VALUE = 1
"""The count of headers, which ends a record."""
AFTER_RECORDS = 3
"""Tagged fields of a partition, of a topic and of the answer, of which there are none."""
PRODUCE, PRODUCE_VERSION = 0, 9
FETCH, FETCH_VERSION = 1, 12
FETCH_WAIT_MS = 500
ANSWER_BYTES_MAX = 1 << 20
NOWHERE = 0x1122334455667788
"""Stands for an offset in a frame that is being prepared."""
CRC_AT, CRC_FROM = 17, 21


@dataclass(slots=True)
class Client:
    """One connection. `due` is when it asks next; `asked`, when it asked for what it waits for."""

    socket: socket.socket
    partition: int = 0
    due: float = 0.0
    asked: float = 0.0
    received: bytearray = field(default_factory=bytearray)


def framed(api: int, version: int, body: bytes) -> bytes:
    """A request as it goes over the wire. All of the versions used here are flexible."""
    header = RequestHeader(request_api_key=api, request_api_version=version, correlation_id=1, client_id="crowd")
    content = header.encode(2) + body
    return struct.pack(">i", len(content)) + content


class ProduceFrame:
    """One record of 100 bytes to partition 0, which tells when it was sent."""

    def __init__(self, topic: str, partition: int = 0) -> None:
        batch = build_batch([Record(0, 0, None, bytes(VALUE_BYTES), ())])
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        self._frame = bytearray(framed(PRODUCE, PRODUCE_VERSION, request.encode(PRODUCE_VERSION)))
        self._batch = self._frame.index(batch)
        self._end = self._batch + len(batch)

    def sent_at(self, nanoseconds: int) -> bytes:
        STAMP.pack_into(self._frame, self._end - AFTER_VALUE - STAMP.size, nanoseconds)
        checksum = crc32c.crc32c(memoryview(self._frame)[self._batch + CRC_FROM : self._end])
        struct.pack_into(">I", self._frame, self._batch + CRC_AT, checksum)
        return bytes(self._frame)


class FetchFrame:
    """A read of one partition that waits for records."""

    def __init__(self, topic: str, partition: int) -> None:
        wanted = FetchPartition(partition=partition, fetch_offset=NOWHERE, partition_max_bytes=ANSWER_BYTES_MAX)
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=ANSWER_BYTES_MAX,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        self._frame = bytearray(framed(FETCH, FETCH_VERSION, request.encode(FETCH_VERSION)))
        self._offset = self._frame.index(STAMP.pack(NOWHERE))
        # Size, correlation, tags, throttle, error, session, topics, name, partitions, index.
        self._partition = 4 + 4 + 1 + 4 + 2 + 4 + 1 + 1 + len(topic) + 1 + 4

    def at(self, offset: int) -> bytes:
        STAMP.pack_into(self._frame, self._offset, offset)
        return bytes(self._frame)

    def read(self, answer: bytes) -> tuple[int, int]:
        """(error, high watermark)."""
        error, high_watermark = struct.unpack_from(">hq", answer, self._partition)
        return error, high_watermark


def connected(port: int, count: int) -> list[Client]:
    """So many connections, each of which has been answered once: one that comes before the last was accepted may find
    the queue of its listener full, and then waits for a second."""
    request = framed(18, 3, ApiVersionsRequest(client_software_name="crowd", client_software_version="1").encode(3))
    clients = []
    for _ in range(count):
        made = socket.create_connection(("127.0.0.1", port), timeout=30)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.send(request)
        if not made.recv(ANSWER_BYTES_MAX):
            raise ConnectionError("the broker closed a connection")
        made.setblocking(False)
        clients.append(Client(made))
    return clients


class Crowd:
    """Serves all connections in one loop until `seconds` are over."""

    def __init__(self, clients: list[Client]) -> None:
        self.by_number = {client.socket.fileno(): client for client in clients}
        self._poll = select.epoll()
        for number in self.by_number:
            self._poll.register(number, select.EPOLLIN)

    def serve(self, until: float, answered: Callable[[Client, bytes], None], due: Callable[[float], float]) -> None:
        """`due` asks whatever is due and tells when something will be next; `answered` gets each whole answer.

        Raises ConnectionError when the broker closes a connection."""
        while (now := time.perf_counter()) < until:
            pause = max(0.0, min(due(now), until) - now)
            for number, _ in self._poll.poll(pause):
                client = self.by_number[number]
                piece = client.socket.recv(ANSWER_BYTES_MAX)
                if not piece:
                    raise ConnectionError("the broker closed a connection")
                client.received += piece
                if len(client.received) >= 4 and len(client.received) == 4 + int.from_bytes(client.received[:4], "big"):
                    answer = bytes(client.received)
                    client.received.clear()
                    answered(client, answer)


def producers(port: int, topic: str, count: int, rate: float, seconds: float) -> list[float]:
    """Milliseconds from each record's send to its acknowledgement: `count` connections send `rate` records a second
    each, at times spread evenly. One that waits longer than its turn sends late, and that counts from its turn."""
    clients, frame, times = connected(port, count), ProduceFrame(topic), list[float]()
    began = time.perf_counter()
    error_at = 4 + 4 + 1 + 1 + 1 + len(topic) + 1 + 4
    waiting = set[int]()
    for number, client in enumerate(clients):
        client.due = began + 0.1 + number / count / rate
    order = clients
    position = 0

    def due(now: float) -> float:
        nonlocal position
        while True:
            client = order[position]
            if client.due > now:
                return client.due
            if client.socket.fileno() in waiting:
                return now + 0.001  # Its turn has come, and its last record is not acknowledged yet.
            client.asked = client.due
            client.due += 1 / rate
            waiting.add(client.socket.fileno())
            client.socket.send(frame.sent_at(time.perf_counter_ns()))
            position = (position + 1) % count

    def answered(client: Client, answer: bytes) -> None:
        now = time.perf_counter()
        waiting.discard(client.socket.fileno())
        (error,) = struct.unpack_from(">h", answer, error_at)
        if error != 0:
            raise RuntimeError(f"a record was refused with error {error}")
        if now > began + WARM_S:
            times.append((now - client.asked) * 1000)

    Crowd(clients).serve(began + WARM_S + seconds, answered, due)
    return times


def consumers(port: int, topic: str, count: int, partitions: int, rate: float, seconds: float) -> list[float]:
    """Milliseconds from each record's send to its arrival at each consumer: one more connection sends `rate` records
    a second to each partition, and `count` wait for them, spread over the partitions."""
    readers, [writer] = connected(port, count), connected(port, 1)
    fetches = [FetchFrame(topic, partition) for partition in range(partitions)]
    sends = [ProduceFrame(topic, partition) for partition in range(partitions)]
    times = list[float]()
    began = time.perf_counter()
    for number, reader in enumerate(readers):
        reader.partition = number % partitions
        reader.socket.send(fetches[reader.partition].at(0))
    sent, is_waiting = 0, False

    def due(now: float) -> float:
        nonlocal sent, is_waiting
        turn = began + 0.5 + sent / (rate * partitions)
        if turn > now:
            return turn
        if is_waiting:
            return now + 0.001
        writer.socket.send(sends[sent % partitions].sent_at(time.perf_counter_ns()))
        sent, is_waiting = sent + 1, True
        return now

    def answered(client: Client, answer: bytes) -> None:
        nonlocal is_waiting
        if client is writer:
            is_waiting = False
            return
        fetch = fetches[client.partition]
        error, high_watermark = fetch.read(answer)
        if error != 0:
            raise RuntimeError(f"a read was refused with error {error}")
        now = time.perf_counter()
        if len(answer) > VALUE_BYTES and now > began + WARM_S:
            (stamp,) = STAMP.unpack_from(answer, len(answer) - AFTER_RECORDS - AFTER_VALUE - STAMP.size)
            times.append((now - stamp / 1e9) * 1000)
        client.socket.send(fetch.at(max(0, high_watermark)))

    Crowd([*readers, writer]).serve(began + WARM_S + seconds, answered, due)
    return times


def idle(port: int, count: int) -> None:
    """Connections that say nothing more, until standard input ends."""
    clients = connected(port, count)
    print("connected", len(clients), flush=True)
    sys.stdin.read()


def main(arguments: list[str]) -> None:
    kind, port, *rest = arguments
    if kind == "idle":
        idle(int(port), int(rest[0]))
        return
    topic, numbers = rest[0], [float(number) for number in rest[1:]]
    if kind == "producers":
        times = producers(int(port), topic, int(numbers[0]), numbers[1], numbers[2])
    else:
        times = consumers(int(port), topic, int(numbers[0]), int(numbers[1]), numbers[2], numbers[3])
    times.sort()
    print(json.dumps({"count": len(times), "p50": times[len(times) // 2], "p99": times[int(len(times) * 0.99)]}))


if __name__ == "__main__":
    main(sys.argv[1:])
