"""The HTTP admin's thread."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from typing import Any

import pytest

from kraft.cli.heap import Heap
from kraft.cli.http_admin import AdminThread, bind_admin
from kraft.cli.library_logs import LibraryLogs, library_logs
from kraft.common.config.endpoints import Address
from kraft.common.logging import render_json
from tests.unit.api.edge_app import Port
from tests.unit.cli.test_heap import Collector


def test_a_failed_admin_refuses_connections_and_reports_why() -> None:
    listener = bind_admin(Address("127.0.0.1", 0))
    assert listener is not None
    address = listener.getsockname()
    waiting = socket.create_connection(address)
    lines: list[Any] = []
    no_port: Any = object()
    collector = Collector()
    admin = AdminThread(listener, no_port, lines.append, None, Heap(collector))
    try:
        admin.start()
        admin._thread.join(60)
        assert [line["event"] for line in lines] == ["http_admin_failed"]
        waiting.settimeout(60)
        try:
            assert waiting.recv(1) == b""
        except ConnectionResetError:
            pass
        assert collector.is_enabled
    finally:
        waiting.close()
        listener.close()


class Halfway(Port):
    """Its stream of events breaks off, once it has begun."""

    async def events(self, after_id: int, wait_seconds: float) -> Any:
        if wait_seconds == 0:
            return await super().events(after_id, wait_seconds)
        raise ZeroDivisionError


def test_messages_of_the_http_server_become_node_events_and_a_failure_is_logged_once() -> None:
    listener = bind_admin(Address("127.0.0.1", 0))
    assert listener is not None
    lines: list[Any] = []
    port: Any = Halfway()
    admin = AdminThread(listener, port, lines.append, None, Heap(Collector()))
    address = listener.getsockname()
    try:
        admin.start()
        assert asked(address, b"\x16\x03\x01 no HTTP\r\n\r\n").startswith(b"HTTP/1.1 400 ")
        assert asked(
            address, b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n"
        ).startswith(b"HTTP/1.1 200 ")
    finally:
        admin.stop()
        listener.close()
    invalid, failed = (json.loads(render_json(line, 0)) for line in lines)
    assert (invalid["level"], invalid["logger"], invalid["event"]) == (
        "warning",
        "uvicorn.error",
        "Invalid HTTP request received.",
    )
    assert (failed["level"], failed["event"], failed["path"]) == ("error", "request failed", "/v1/events")
    assert "ZeroDivisionError" in failed["traceback"]


def asked(address: Any, request: bytes) -> bytes:
    """All that is answered until the connection is closed."""
    answer = b""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(request)
        while piece := connection.recv(4096):
            answer += piece
    return answer


def test_log_records_of_libraries_become_events_with_tracebacks_until_the_bridge_is_removed() -> None:
    lines: list[Any] = []
    log = logging.getLogger("asyncio")
    with library_logs(lines.append):
        try:
            raise OSError("gone")
        except OSError:
            log.exception("Fatal error on %s\n", "transport")
        logging.getLogger("some.library").info("below its level")
    log.error("after the end")
    [line] = lines
    assert (line["level"], line["logger"], line["event"]) == ("error", "asyncio", "Fatal error on transport")
    assert line["traceback"].endswith("OSError: gone\n")


def test_an_unformattable_log_record_does_not_break_its_caller(capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[Any] = []
    LibraryLogs(lines.append).emit(logging.LogRecord("asyncio", logging.WARNING, "", 0, "%d", ("no number",), None))
    assert lines == []
    assert "no number" in capsys.readouterr().err


def test_connections_send_without_nagle_delay() -> None:
    listener = bind_admin(Address("127.0.0.1", 0))
    assert listener is not None
    with listener, socket.create_connection(listener.getsockname()):
        options = asyncio.run(_options_of_one_connection(listener))
    assert options == [True]


async def _options_of_one_connection(listener: socket.socket) -> list[bool]:
    """Whether TCP_NODELAY is set, as asyncio (under uvicorn) serves the first connection of a listener."""
    read: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def look(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = writer.get_extra_info("socket")
        read.set_result(served.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0)
        writer.close()

    async with await asyncio.start_server(look, sock=listener):
        return [await asyncio.wait_for(read, 10)]
