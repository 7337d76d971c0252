"""The quorum's connections to other controllers: implements `kraft.raft.ports.RaftChannel` over the RPC client, with
one kept connection for each address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.connection import ClientConnection, Disconnected, UnsupportedApi, open_connection
from kraft.world.ports import World

if TYPE_CHECKING:
    from kraft.protocol.schema import Message


class QuorumChannel:
    """Sends the quorum's requests to other controllers. Owned by the node's loop."""

    def __init__(self, world: World, node_id: int) -> None:
        self._world = world
        self._node_id = node_id
        self._connections: dict[tuple[str, int], ClientConnection] = {}

    async def send(self, node_id: int, host: str, port: int, request: Message, timeout_s: float) -> Message:
        """See the port. Raises ConnectionRefusedError if the peer's process has certainly ended, OSError otherwise,
        ApiError UNSUPPORTED_VERSION.

        A kept connection may belong to a process that has been restarted, which is noticed only by using it. Then the
        request is sent once more over a new connection; every request of the quorum may be repeated.
        """
        kept, deadline = self._connections.get((host, port)), self._world.clock.now() + timeout_s
        try:
            try:
                return await self._call(host, port, request, timeout_s)
            except Disconnected:
                left = deadline - self._world.clock.now()
                if kept is None or left <= 0:
                    raise
                self._forget(host, port, kept)
                return await self._call(host, port, request, left)
        except UnsupportedApi as problem:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, str(problem)) from problem
        except Disconnected as problem:
            self._forget(host, port)
            if isinstance(problem.__cause__, ConnectionRefusedError):
                raise problem.__cause__ from problem
            raise ConnectionError(str(problem)) from problem
        except (TimeoutError, trio.Cancelled):
            # The caller may have a deadline of its own. A connection without a response may be half-open.
            self._forget(host, port)
            raise

    async def _call(self, host: str, port: int, request: Message, timeout_s: float) -> Message:
        connection = await self._connect(host, port, timeout_s)
        response: Message = await connection.call(request, timeout=timeout_s)
        return response

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def _connect(self, host: str, port: int, timeout_s: float) -> ClientConnection:
        connection = self._connections.get((host, port))
        if connection is None or not connection.is_open:
            opened = await open_connection(
                self._world, host, port, client_id=f"raft-{self._node_id}", timeout=timeout_s
            )
            connection = self._connections.get((host, port))
            if connection is not None and connection.is_open:
                opened.close()  # Another task was faster. There is one connection for each address.
                return connection
            connection = self._connections[host, port] = opened
        return connection

    def _forget(self, host: str, port: int, broken: ClientConnection | None = None) -> None:
        """Close the kept connection to the address. With `broken`, close it only if it is this connection: another task
        may have replaced it."""
        connection = self._connections.get((host, port))
        if connection is not None and (broken is None or connection is broken):
            del self._connections[host, port]
            connection.close()
