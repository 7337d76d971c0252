"""The HTTP admin's thread."""

from __future__ import annotations

import gc
import socket
from typing import Any

from kraft.cli.http_admin import AdminThread, bind_admin
from kraft.common.config.endpoints import Address


def test_an_admin_that_fails_refuses_connections_and_says_why() -> None:
    listener = bind_admin(Address("127.0.0.1", 0))
    assert listener is not None
    address = listener.getsockname()
    waiting = socket.create_connection(address)
    lines: list[Any] = []
    no_port: Any = object()
    admin = AdminThread(listener, no_port, lines.append)
    try:
        admin.start()
        admin._thread.join(60)
        assert [line["event"] for line in lines] == ["http_admin_failed"]
        waiting.settimeout(60)
        try:
            assert waiting.recv(1) == b""
        except ConnectionResetError:
            pass
    finally:
        gc.unfreeze()
        waiting.close()
        listener.close()
