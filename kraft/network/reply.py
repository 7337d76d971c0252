"""The replies that handlers return to their connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from inspect import getcoroutinelocals
from typing import TYPE_CHECKING, Any, Protocol

import trio

from kraft.common.ids import ANONYMOUS
from kraft.world.ports import Buffer, File

if TYPE_CHECKING:
    from kraft.security.authorizer import Access


class FileRange:
    """Bytes sent from a file to the socket without passing through Python. `owner` keeps the file open."""

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

SCRATCH_BYTES = 64 << 10
"""Size of the shared buffer for small frames, which are passed as views of it. A larger frame has its own buffer."""


class FirstStage:
    """The part of a request that needs its frame and that no later request of the connection may overtake. It is over
    when all its steps have ended."""

    __slots__ = ("_left", "_over", "_then")

    def __init__(self, steps: int) -> None:
        assert steps > 0
        self._left = steps
        self._over = trio.Event()
        self._then: list[Callable[[], None]] = []

    @property
    def is_over(self) -> bool:
        return not self._left

    def step_ended(self) -> None:
        self._left -= 1
        if not self._left:
            self._over.set()
            for call in self._then:
                call()

    def when_over(self, call: Callable[[], None]) -> None:
        """Call `call` when the stage is over; immediately if it already is."""
        if self._left:
            self._then.append(call)
        else:
            call()

    async def wait(self) -> None:
        await self._over.wait()


class Staged:
    """The response of a request still in its first stage. Awaiting it gives the reply, or an awaitable of it."""

    __slots__ = ("answer", "first_stage")

    def __init__(self, answer: Coroutine[Any, Any, Any], first_stage: FirstStage) -> None:
        self.answer = answer
        self.first_stage = first_stage

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.answer.__await__()


def inside(
    outcome: Awaitable[Reply], wrap: Callable[[Awaitable[Reply]], Coroutine[Any, Any, Reply]]
) -> Awaitable[Reply]:
    """Wrap the coroutine of `outcome` with `wrap`. A staged outcome stays staged, because its connection must know that
    the frame is still needed."""
    if type(outcome) is Staged:
        return Staged(wrap(outcome.answer), outcome.first_stage)
    return wrap(outcome)


def leave(outcome: Awaitable[Reply]) -> None:
    """Close `outcome` and its inner coroutines without awaiting them, so that the interpreter does not warn."""
    if isinstance(outcome, Coroutine):
        for inner in list(getcoroutinelocals(outcome).values()):
            leave(inner)
        outcome.close()


class Peer:
    """The connection as seen by a request. `principal` (`User:name`) is the authenticated peer.

    `left` is called when the peer has closed the connection.
    """

    __slots__ = (
        "access",
        "by_token",
        "client_software",
        "forwarded",
        "has_logged_in",
        "has_produced",
        "host",
        "left",
        "listener",
        "local_host",
        "local_port",
        "principal",
        "proven",
        "read_port",
        "sasl",
        "state",
    )

    def __init__(self, host: str, listener: str, local: tuple[str, int], principal: str = ANONYMOUS) -> None:
        self.host = host
        self.principal = principal
        self.by_token = False
        """Whether the client has logged in by a delegation token. Then it cannot create tokens."""
        self.has_logged_in: bool | None = None
        """Whether the peer is authenticated; None: determined by the listener's protocol."""
        self.has_produced = False
        """Whether the connection has sent a Produce while a quota for producers existed."""
        self.forwarded = False
        """Whether this object represents a client whose request came in an Envelope. `listener` is then the listener of
        the broker that the client used."""
        self.sasl: object | None = None
        """The connection's login, if the listener requires one."""
        self.proven = True
        """Whether the peer has logged in, if the listener requires a login. True on other listeners."""
        self.listener = listener
        self.local_host, self.local_port = local
        self.client_software = ("", "")
        self.access: Access | None = None
        """Cached decisions of the authorizer for the principal."""
        self.state: dict[str, object] | None = None
        self.left: Callable[[], None] | None = None
        self.read_port: Callable[[], int] | None = None
        """Reads the port of the other side; None if there is no connection."""

    @property
    def port(self) -> int:
        """The port of the other side; 0 if it is not known."""
        return 0 if self.read_port is None else self.read_port()


class Dispatcher(Protocol):
    """Carries out one request.

    `dispatch` gets a frame (without its size prefix) that is valid only until the call returns, so it copies what it
    needs later. The result says how far the request is:

    - `Reply`: the request is finished.
    - An awaitable of a `Reply`: the first stage is over (for Produce: appended), and the response waits.
    - `Staged`: the first stage is not over. Until it is, parts of the frame of SCRATCH_BYTES or more stay valid.

    Raises ProtocolError if the connection must be closed.
    """

    def dispatch(self, peer: Peer, frame: memoryview) -> Reply | Awaitable[Reply]: ...
    def may_overtake_wait(self, frame: memoryview) -> bool:
        """Whether this request may start while earlier ones of its connection still wait for their answers (Produce
        behind Produce)."""
