"""The network port of a simulated node: listening, connecting, accepting."""

from __future__ import annotations

import errno
from collections import deque

import trio

from kraft.world.ports import Tls
from kraft.world.simulated.internet import LOOPBACK, OWN_NAMES, RETRY_SECONDS_MAX, WILDCARD, Host, Internet, failure
from kraft.world.simulated.node import Node, Parking
from kraft.world.simulated.streams import Pipe, SimulatedStream

SYN_RETRY_SECONDS = 1.0
CONNECT_SECONDS_MAX = 127.0  # Linux gives up a connect after six retries.


class SimulatedListener:
    """Implements `kraft.world.ports.Listener`. The kernel completes connections up to the backlog, also while the
    node is paused."""

    __slots__ = ("_backlog", "_closed", "_home", "_node", "arrivals", "host", "port", "queue")

    def __init__(self, home: Host, node: Node, host: str, port: int, backlog: int) -> None:
        self._home = home
        self._node = node
        self.host = host
        self.port = port
        self._backlog = backlog
        self._closed = False
        self.queue: deque[SimulatedStream] = deque()
        self.arrivals = Parking(node)

    @property
    def node(self) -> Node:
        return self._node

    def is_full(self) -> bool:
        return len(self.queue) >= max(1, self._backlog)

    def offer(self, stream: SimulatedStream) -> None:
        self.queue.append(stream)
        self.arrivals.wake_all()

    async def accept(self) -> SimulatedStream:
        self._node.enter("accept", self.port)
        await trio.lowlevel.checkpoint()
        while True:
            if self._closed:
                raise ConnectionAbortedError(errno.ECONNABORTED, "closed on this side")
            if self.queue:
                stream = self.queue.popleft()
                self._node.note("accepted", stream.name)
                return stream
            await self.arrivals.wait()

    def take_tls(self, tls: Tls) -> None:
        _refuse(tls)

    def close(self) -> None:
        if not self._node.alive or self._closed:
            return
        self._node.enter("close_listener", self.port)
        self._closed = True
        rest = [listener for listener in self._home.listeners[self.port] if listener is not self]
        if rest:
            self._home.listeners[self.port] = rest
        else:
            del self._home.listeners[self.port]
        while self.queue:
            self.queue.popleft().reset()
        self.arrivals.wake_all()


class Attempt:
    """One connection attempt. Its packets go back and forth until it succeeds, fails, or is abandoned by its caller."""

    __slots__ = (
        "_address",
        "_internet",
        "_node",
        "_pause",
        "_port",
        "_source",
        "_started",
        "_target",
        "abandoned",
        "done",
        "failure",
        "stream",
    )

    def __init__(self, internet: Internet, node: Node, source: Host, target: Host, address: str, port: int) -> None:
        self._internet = internet
        self._node = node
        self._source = source
        self._target = target
        self._address = address
        self._port = port
        self._pause = SYN_RETRY_SECONDS
        self._started = internet.time.now
        self.done = Parking(node)
        self.abandoned = False
        self.failure: int | None = None
        self.stream: SimulatedStream | None = None
        internet.later(source, target, self._syn)

    def _syn(self) -> None:
        if self.abandoned or not self._node.alive:
            return
        internet, source, target = self._internet, self._source, self._target
        listener = target.find_listener(self._address, self._port)
        if internet.time.now - self._started > CONNECT_SECONDS_MAX:
            self._finish(errno.ETIMEDOUT)
        elif not (internet.passes(source, target) and internet.passes(target, source)) or (
            listener and listener.is_full()
        ):
            internet.time.call_after(self._pause, self._syn)
            self._pause = min(self._pause * 2, RETRY_SECONDS_MAX)
        elif listener is None:
            internet.later(target, source, lambda: self._finish(errno.ECONNREFUSED))
        else:
            self.stream, far = self._establish(listener)
            listener.offer(far)
            internet.later(target, source, lambda: self._finish(None))

    def _finish(self, failure: int | None) -> None:
        self.failure = failure
        self.done.wake_all()

    def _establish(self, listener: SimulatedListener) -> tuple[SimulatedStream, SimulatedStream]:
        internet, source, target = self._internet, self._source, self._target
        number = internet.new_connection()
        there, back = Pipe(internet, source, target), Pipe(internet, target, source)
        own_address = LOOPBACK if self._address == LOOPBACK else source.address
        near_local = (own_address, source.ephemeral_port())
        near = SimulatedStream(internet, source, self._node, f"{number}c", near_local, self._address, back, there)
        far = SimulatedStream(
            internet, target, listener.node, f"{number}s", (self._address, self._port), own_address, there, back
        )
        return near, far


class SimulatedNetwork:
    """Implements `kraft.world.ports.Network`. Other nodes are reached by their host's name or address, the node itself
    also as localhost."""

    __slots__ = ("_home", "_internet", "_node")

    def __init__(self, internet: Internet, home: Host, node: Node) -> None:
        self._internet = internet
        self._home = home
        self._node = node

    async def listen(self, host: str, port: int, backlog: int = 50, tls: Tls | None = None) -> SimulatedListener:
        _refuse(tls)
        self._node.enter("listen", host, port)
        await trio.lowlevel.checkpoint()
        address = self._own_address(host)
        if port == 0:
            port = self._home.ephemeral_port()
        taken = self._home.listeners.setdefault(port, [])
        if any(WILDCARD in (listener.host, address) or listener.host == address for listener in taken):
            raise failure(errno.EADDRINUSE)
        listener = SimulatedListener(self._home, self._node, address, port, backlog)
        taken.append(listener)
        self._node.note("listening", address, port)
        return listener

    def _own_address(self, host: str) -> str:
        if host in ("", WILDCARD, "::"):
            return WILDCARD
        if host in OWN_NAMES:
            return LOOPBACK
        home, address = self._internet.resolve(host, self._home)
        if home is not self._home:
            raise failure(errno.EADDRNOTAVAIL)
        return address

    async def connect(self, host: str, port: int, tls: Tls | None = None) -> SimulatedStream:
        _refuse(tls)
        self._node.enter("connect", host, port)
        target, address = self._internet.resolve(host, self._home)
        attempt = Attempt(self._internet, self._node, self._home, target, address, port)
        try:
            await attempt.done.wait()
        except BaseException:
            attempt.abandoned = True
            if attempt.stream and self._node.alive:
                attempt.stream.shut()
            raise
        if attempt.failure is not None or attempt.stream is None:
            self._node.note("connect failed", attempt.failure)
            raise failure(attempt.failure or errno.ECONNREFUSED)
        self._node.note("connected", attempt.stream.name)
        return attempt.stream


def _refuse(tls: Tls | None) -> None:
    if tls is not None:
        raise ValueError("the simulated network does not encrypt: its nodes listen by PLAINTEXT")
