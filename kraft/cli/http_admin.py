"""The HTTP admin's socket and thread.

The socket listens before the ready line, so that an early request waits instead of failing. uvicorn is imported
afterwards, in a thread, and FastAPI by the first request that needs it (`kraft_http.on_demand`), both with the garbage
collector off. Then all objects are frozen, which keeps later collections short.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kraft.cli.heap import Heap
from kraft.cli.terminal import address_problem
from kraft.common.config.endpoints import Address
from kraft.common.errors import ConfigurationError
from kraft.common.logging import LogLine

if TYPE_CHECKING:
    import uvicorn
    from kraft_http.ports import AdminPort

BACKLOG = 128
STOP_SECONDS_MAX = 2.0


def bind_admin(address: Address | None) -> socket.socket | None:
    """A listening socket, or None when the admin is off. Raises ConfigurationError naming the option."""
    if address is None:
        return None
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on connections of a socket that names its protocol. Without it every answer on a
    # kept connection waits about 40 ms for the client's delayed acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host or "0.0.0.0", address.port))
        listener.listen(BACKLOG)
    except OSError as problem:
        listener.close()
        raise ConfigurationError([address_problem("--admin", address, problem)]) from problem
    return listener


class AdminThread:
    """Serves the HTTP admin beside the node until `stop`. A failure of the admin is logged and does not affect the
    node."""

    def __init__(
        self,
        listener: socket.socket,
        port: AdminPort,
        log_sink: Callable[[LogLine], None],
        context: Callable[[], ssl.SSLContext] | None,
        heap: Heap,
    ) -> None:
        """`context` returns the TLS context for the next connection; None means plain HTTP. Collections by `heap` start
        when uvicorn is loaded, or failed to load, and are disabled while FastAPI is loaded."""
        self._context = context
        self._heap = heap
        self._listener = listener
        self._port = port
        self._log_sink = log_sink
        self._server: uvicorn.Server | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="http-admin", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, waiting for running requests for `STOP_SECONDS_MAX` at most."""
        self._stopped.set()
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join(STOP_SECONDS_MAX)

    def _run(self) -> None:
        from kraft.cli.library_logs import library_logs  # Like FastAPI: not before the node serves.

        try:
            with library_logs(self._log_sink):
                app = self._import()
                if not self._stopped.is_set():
                    self._serve(app)
        except Exception as problem:  # noqa: BLE001 - the boundary of a thread: the node lives on without its admin, and says so.
            self._log_sink({"level": "error", "event": "http_admin_failed", "error": repr(problem)})
        finally:
            self._listener.close()  # Otherwise clients that connect to a failed admin would wait for ever.

    def _import(self) -> Any:
        try:
            import uvicorn  # noqa: F401 - loaded here, while the collector is off.
            from kraft_http.on_demand import OnDemand
            from kraft_http.requests import connections, handshakes  # noqa: F401

            return OnDemand(self._port, self._load)
        finally:
            self._heap.begin()

    def _load(self) -> Any:
        with self._heap.growing():
            from kraft_http.app import create_app

            return create_app(self._port, self._log_sink)

    def _serve(self, app: Any) -> None:
        import uvicorn
        from kraft_http.requests.connections import BoundedConnection
        from kraft_http.requests.handshakes import Handshakes

        protocol: Any = BoundedConnection
        if self._context is not None:
            protocol = Handshakes(BoundedConnection, self._context, self._port.tell_failed_handshake).connection
        config = uvicorn.Config(
            app,
            http=protocol,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
            server_header=False,
            timeout_keep_alive=30,
        )
        self._server = uvicorn.Server(config)
        if not self._stopped.is_set():
            self._server.run(sockets=[self._listener])
