"""What a handler hands back to its connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from kraft.world.ports import Buffer, File


class FileRange:
    """Bytes that go from a file to the socket without passing through Python. `owner` is kept alive with it: whoever holds the file open."""

    __slots__ = ("file", "owner", "position", "size")

    def __init__(self, file: File, position: int, size: int, owner: object) -> None:
        self.file = file
        self.owner = owner
        self.position = position
        self.size = size


class Reply:
    """One response frame, size prefix included: buffers and file ranges in the order in which they leave.

    `throttle_ms` mutes the connection after the reply has left (KIP-219).
    """

    __slots__ = ("close_after", "parts", "throttle_ms")

    def __init__(self, parts: Sequence[Buffer | FileRange], throttle_ms: int = 0, close_after: bool = False) -> None:
        self.parts = parts
        self.throttle_ms = throttle_ms
        self.close_after = close_after


NO_REPLY = Reply(())


class Peer:
    """What a request may know of its connection. `left` is called when the other side has ended it."""

    __slots__ = ("client_software", "host", "left", "listener", "local_host", "local_port", "state")

    def __init__(self, host: str, listener: str, local: tuple[str, int]) -> None:
        self.host = host
        self.listener = listener
        self.local_host, self.local_port = local
        self.client_software = ("", "")
        self.state: dict[str, object] | None = None
        self.left: Callable[[], None] | None = None


class Dispatcher(Protocol):
    """Carries out one request.

    `dispatch` gets a frame (without its size prefix) that is valid only until it returns: what must last longer is copied. A `Reply` means finished; an
    awaitable of one
    means that the request's first stage is over (for Produce: appended) and that its answer waits. Raises ProtocolError to have the connection closed.
    """

    def dispatch(self, peer: Peer, frame: memoryview) -> Reply | Awaitable[Reply]: ...
    def may_overtake_wait(self, frame: memoryview) -> bool:
        """Whether this request may start while earlier ones of its connection still wait for their answers (Produce behind Produce)."""
