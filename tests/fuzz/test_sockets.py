"""Invariant: whatever bytes come over a socket, and however slowly, that connection is answered or closed with at
most one line in the log; the process lives, its memory stays bounded, and other connections are served meanwhile.

A real process and real sockets. KRAFT_FUZZ_SEED repeats a run's bytes.
"""

from __future__ import annotations

import os
import random
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kraft.handlers.all_handlers import broker_registry
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.framing import encode_request
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.testing.node_process import NodeProcess
from tests.capabilities import require_capability
from tests.fuzz.dispatched import OBEYED, seed
from tests.fuzz.request_frames import RequestFrames

SOAK = os.environ.get("KRAFT_SOAK") == "1"
FRAMES = 50_000 if SOAK else 2_000
FRAMES_AT_ONCE = 20
SECONDS_MAX = 10.0
WAIT_SECONDS = 0.3
"""What is neither answered nor closed by then waits for data or for other members of its group (a changed byte makes
any wait long)."""
REQUEST_BYTES_MAX = 104_857_600  # socket.request.max.bytes
QUEUED_BYTES_MAX = 110_000_000
SETTINGS = (
    "--set",
    f"queued.max.request.bytes={QUEUED_BYTES_MAX}",
    "--set",
    "group.initial.rebalance.delay.ms=0",
)
CROWD = 500
IDLE_CONNECTIONS = 1_000
IDLE_BYTES_MAX = 60 << 20


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node"), *SETTINGS, "--set", "offsets.topic.num.partitions=2") as node:
        yield node
        assert node.stop() == 0
        log = node.log_path.read_text()
        assert "Traceback" not in log
        assert "request failed" not in log


def connect(node: NodeProcess, timeout: float = SECONDS_MAX) -> socket.socket:
    host, _, port = node.bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), timeout)


def resident_bytes(node: NodeProcess) -> int:
    with open(f"/proc/{node.pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def protocol_errors(node: NodeProcess) -> int:
    return node.log_path.read_text().count("protocol error")


class Witness:
    """A well-behaved client on a connection of its own, which must be served whatever others do."""

    def __init__(self, node: NodeProcess) -> None:
        self._socket = connect(node)
        self._asked = 0

    def is_served(self) -> None:
        self._asked += 1
        self._socket.sendall(encode_request(ApiKey.METADATA, 12, self._asked, "witness", MetadataRequest(topics=None)))
        size, correlation_id = struct.unpack(">ii", receive(self._socket, 8))
        assert correlation_id == self._asked
        receive(self._socket, size - 4)

    def __enter__(self) -> Witness:
        self.is_served()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_served()
        self._socket.close()


def receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        assert more, "closed"
        data += more
    return data


def outcome(connection: socket.socket, timeout: float) -> str:
    """What the node did: "answered", "closed" or "waits"."""
    connection.settimeout(timeout)
    try:
        return "answered" if connection.recv(1 << 16) else "closed"
    except TimeoutError:
        return "waits"
    except ConnectionError:
        return "closed"


def test_mutated_requests_do_not_stop_the_server(node: NodeProcess) -> None:
    handlers = [handler for handler in broker_registry().handlers() if handler.key not in OBEYED]
    frames = RequestFrames(seed(), handlers)
    start, lines, counts = 0, protocol_errors(node), {"answered": 0, "closed": 0, "waits": 0}
    with Witness(node) as witness:
        for done in range(0, FRAMES, FRAMES_AT_ONCE):
            if done == FRAMES // 5 // FRAMES_AT_ONCE * FRAMES_AT_ONCE:
                start = resident_bytes(node)
            connections = [connect(node) for _ in range(FRAMES_AT_ONCE)]
            for connection in connections:
                frame = frames.next_frame()
                connection.sendall(struct.pack(">i", len(frame)) + frame)
            witness.is_served()
            for connection in connections:
                counts[outcome(connection, WAIT_SECONDS)] += 1
                connection.close()
    assert counts["waits"] < FRAMES / 10, counts
    assert counts["answered"] > FRAMES / 10, counts
    assert protocol_errors(node) - lines <= counts["closed"] + counts["waits"], "one line a connection"
    assert resident_bytes(node) - start < 100 << 20


def test_streams_that_are_no_requests_do_not_stop_the_server(node: NodeProcess) -> None:
    chance = random.Random(seed())
    whole = encode_request(ApiKey.API_VERSIONS, 0, 1, "c", ApiVersionsRequest())
    beginnings = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),  # A TLS client.
        struct.pack(">i", -1),
        struct.pack(">i", -(1 << 31)),
        struct.pack(">i", REQUEST_BYTES_MAX + 1) + bytes(100),
        struct.pack(">i", (1 << 31) - 1) + bytes(100),
        struct.pack(">i", 0),
        struct.pack(">i", 3) + bytes(3),
        whole + struct.pack(">i", -7),
        whole[:4] + bytes(len(whole) - 4),
        *(chance.randbytes(chance.randrange(4, 3000)) for _ in range(FRAMES // 20)),
    ]
    with Witness(node) as witness:
        for index, beginning in enumerate(beginnings):
            with connect(node) as connection:
                connection.sendall(beginning)
                connection.shutdown(socket.SHUT_WR)  # So that a frame that is not whole yet never will be.
                results = []
                while (result := outcome(connection, SECONDS_MAX)) == "answered":
                    results.append(result)
                assert result == "closed", f"{index}: {beginning[:40].hex()}"
            if index % 20 == 0:
                witness.is_served()


def test_a_slowly_sent_request_is_answered_without_delaying_other_clients(node: NodeProcess) -> None:
    whole = encode_request(
        ApiKey.API_VERSIONS, 3, 7, "drips", ApiVersionsRequest(client_software_name="drip", client_software_version="1")
    )
    with Witness(node) as witness, ExitStack() as stack:
        connections = [stack.enter_context(connect(node)) for _ in range(50)]
        for connection in connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for position in range(len(whole)):
            for connection in connections:
                connection.sendall(whole[position : position + 1])
            witness.is_served()
        for connection in connections:
            assert struct.unpack(">ii", receive(connection, 8))[1] == 7


def test_a_client_that_reads_no_responses_takes_little_memory(node: NodeProcess) -> None:
    """Answers are not piled up for it: the node stops to read its requests."""
    request = encode_request(ApiKey.API_VERSIONS, 0, 1, "deaf", ApiVersionsRequest())
    before = resident_bytes(node)
    with Witness(node) as witness, ExitStack() as stack:
        for _ in range(3):
            connection = stack.enter_context(connect(node))
            connection.settimeout(0.2)
            with pytest.raises(TimeoutError):
                for _ in range(200):
                    connection.sendall(request * 5_000)
            witness.is_served()
        assert resident_bytes(node) - before < 50 << 20


def test_memory_for_announced_but_unsent_frames_is_bounded(node: NodeProcess) -> None:
    """400 connections announce 40 GB. A buffer begins small, and all of them together stay under
    queued.max.request.bytes."""
    before = resident_bytes(node)
    with Witness(node) as witness, ExitStack() as stack:
        connections = [stack.enter_context(connect(node)) for _ in range(400)]
        for connection in connections:
            connection.sendall(struct.pack(">i", REQUEST_BYTES_MAX) + bytes(1000))
        witness.is_served()
        assert resident_bytes(node) - before < QUEUED_BYTES_MAX


def test_many_concurrent_large_frames_are_queued_and_all_complete(tmp_path_factory: pytest.TempPathFactory) -> None:
    """queued.max.request.bytes bounds what is held for all connections together; a slow node pushes back."""
    size, bound = 4 << 20, 16 << 20
    limits = (f"queued.max.request.bytes={bound}", f"socket.request.max.bytes={size}")
    settings = [word for limit in limits for word in ("--set", limit)]
    with (
        NodeProcess(tmp_path_factory.mktemp("bounded"), *settings) as node,
        Witness(node) as witness,
        ExitStack() as stack,
    ):
        before = resident_bytes(node)
        connections = [stack.enter_context(connect(node)) for _ in range(30)]
        # No such API: the connection closes once the frame is whole.
        body = struct.pack(">hhih", 32_000, 0, 1, -1) + bytes(size - 10)
        for connection in connections:
            connection.setblocking(False)
        left = {connection: struct.pack(">i", size) + body for connection in connections}
        peak = 0
        for _ in range(100_000):
            for connection in list(left):
                try:
                    left[connection] = left[connection][connection.send(left[connection]) :]
                except BlockingIOError:
                    continue
                except ConnectionError:
                    del left[connection]  # Closed, as it should be.
                    continue
                if not left[connection]:
                    del left[connection]
            peak = max(peak, resident_bytes(node) - before)
            if not left:
                break
        assert not left, "every frame was taken in the end"
        witness.is_served()
        assert {outcome(connection, SECONDS_MAX) for connection in connections} == {"closed"}
        # The bound, a buffer's beginning for each, and what the pool keeps.
        assert peak < bound + 30 * (1 << 20) + (32 << 20)


def test_many_new_connections_are_accepted_while_the_loop_is_busy(node: NodeProcess) -> None:
    """As after a fail-over. Whom the kernel has no room for tries again a second later, then three."""
    node.pause()
    try:
        with ExitStack() as stack:
            for _ in range(CROWD):
                stack.enter_context(connect(node))
    finally:
        node.resume()
    with Witness(node):
        pass


def test_a_thousand_idle_connections_cost_at_most_60_mb(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of a node of its own: memory that others made it take would hide theirs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < IDLE_CONNECTIONS + 200:
        require_capability("descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (IDLE_CONNECTIONS + 200, hard))
    request = encode_request(
        ApiKey.API_VERSIONS, 3, 1, "idle", ApiVersionsRequest(client_software_name="idle", client_software_version="1")
    )
    with (
        NodeProcess(tmp_path_factory.mktemp("idle"), *SETTINGS) as node,
        Witness(node) as witness,
        ExitStack() as stack,
    ):
        before = resident_bytes(node)
        connections = [stack.enter_context(connect(node)) for _ in range(IDLE_CONNECTIONS)]
        for connection in connections:
            connection.sendall(request)
        for connection in connections:
            receive(connection, struct.unpack(">i", receive(connection, 4))[0])
        witness.is_served()
        cost = resident_bytes(node) - before
        print(f"{cost / IDLE_CONNECTIONS:.0f} bytes a connection")
        assert cost <= IDLE_BYTES_MAX
