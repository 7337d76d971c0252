"""The HTTP admin of one node of a `LocalCluster`, in a thread of its own. uvicorn is imported in that thread, and only
for clusters with an admin; FastAPI by the first request that needs it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from kraft.testing.ports import HOST

if TYPE_CHECKING:
    import uvicorn
    from kraft_http.ports import AdminPort

STOP_SECONDS_MAX = 5.0


class AdminServer:
    """Serves the HTTP admin of a node. Requests that arrive before all modules are imported wait."""

    def __init__(self, admin: AdminPort, port: int, log_sink: Callable[[Mapping[str, Any]], None]) -> None:
        """Listen on `port` of the loopback; 0 means any free port. Raises OSError if the port is taken."""
        self._admin = admin
        self._log_sink = log_sink
        self._server: uvicorn.Server | None = None
        self._is_over = False
        # A socket that names its protocol: asyncio sets TCP_NODELAY on no other.
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind((HOST, port))
            self._listener.listen()
        except OSError:
            self._listener.close()
            raise
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, name="kraft-admin", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Stop the server. Returns when its port is free, or after STOP_SECONDS_MAX. Shielded from the cancellation of
        its node."""
        self._is_over = True
        if self._server is not None:
            self._server.should_exit = self._server.force_exit = True
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join, STOP_SECONDS_MAX)

    def _run(self) -> None:
        with self._listener:
            import uvicorn
            from kraft_http.on_demand import OnDemand

            app = OnDemand(self._admin, self._load)
            self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
            if not self._is_over:
                self._server.run(sockets=[self._listener])

    def _load(self) -> Any:
        from kraft_http.app import create_app

        return create_app(self._admin, self._log_sink)
