"""TCP over raw non-blocking sockets, waiting through trio's event loop.

Each call tries the kernel first and waits only if it must: a wait costs an epoll registration and a turn of the loop, a
send that fits the socket buffer costs neither. A stream that keeps succeeding yields after every `TURN_BYTES`, so that
it does not starve others. Every failure of a connection, of whatever errno, is raised as a ConnectionError.
"""

from __future__ import annotations

import errno
import os
import select
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio

from kraft.world.addresses import address_of
from kraft.world.hosts import UnknownHost
from kraft.world.ports import Buffer, File, Tls
from kraft.world.real.files import RealFile, read_if_resident

if TYPE_CHECKING:
    import ssl

TURN_BYTES = 1024 * 1024  # At most this much is sent without a checkpoint: about 0.2 ms of copying.
RETRY_BYTES = 256 * 1024  # What is read at a time for a socket that did not take all of the last piece.
BUFFERS_PER_CALL = 1024  # IOV_MAX on Linux.
# Of a large frame so much is awaited before the loop wakes for it.
AWAITED_BYTES_MIN, AWAITED_BYTES_MAX = 64 * 1024, 256 * 1024
PEEKED_BYTES = 5  # The header of a TLS record.
CLIENT_CONTEXTS_MAX = 16  # Of as many sets of keys as are in use at once; renewed ones take the place of old ones.
Address = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]


def broken(error: OSError) -> ConnectionError:
    """A connection's failure as a ConnectionError, with its errno."""
    if isinstance(error, ConnectionError):
        return error
    return ConnectionResetError(error.errno, error.strerror)


def _closed() -> ConnectionError:
    return ConnectionAbortedError(errno.ECONNABORTED, "closed on this side")


def _check_open(waited: socket.socket) -> None:
    """Check, before a wait, that the socket is open. All closed sockets have the descriptor -1: trio would keep the
    first waiting for ever, and report the next one as busy. Raises ConnectionAbortedError."""
    if waited.fileno() < 0:
        raise _closed()


class RealStream:
    """Implements `kraft.world.ports.Stream` on a connected socket."""

    __slots__ = ("_awaited", "_end_poll", "_file_buffer", "_socket", "_turn", "local", "peer")
    is_encrypted = False

    @property
    def peer_certificate(self) -> bytes | None:
        return None

    def __init__(self, connected: socket.socket, peer: str, file_buffer: memoryview) -> None:
        """`file_buffer` is shared by all streams of a loop, and used only between two awaits."""
        self._socket = connected
        self._file_buffer = file_buffer
        self._turn = 0  # Bytes sent since the last checkpoint.
        self._awaited = 1  # SO_RCVLOWAT: so many bytes make the socket readable.
        self._end_poll: select.epoll | None = None  # There while `wait_ended` waits.
        self.peer = peer
        self.local: tuple[str, int] = connected.getsockname()[:2]
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    @property
    def peer_port(self) -> int:
        """The peer's port; 0 if the connection has ended."""
        try:
            return int(self._socket.getpeername()[1])
        except OSError:
            return 0

    async def handshake(self) -> None:
        await trio.lowlevel.checkpoint()

    def receive_nowait(self, buffer: memoryview) -> int | None:
        try:
            return self._socket.recv_into(buffer)
        except BlockingIOError:
            return None
        except OSError as error:
            raise broken(error) from error

    async def wait_readable(self, expected: int = 1) -> None:
        _check_open(self._socket)
        awaited = min(expected, AWAITED_BYTES_MAX) if expected >= AWAITED_BYTES_MIN else 1
        try:
            if awaited != self._awaited:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, awaited)
                self._awaited = awaited
            await trio.lowlevel.wait_readable(self._socket)
        except trio.ClosedResourceError as error:
            raise _closed() from error
        except OSError as error:
            raise broken(error) from error

    async def wait_ended(self) -> None:
        """See the port. The loop's own poller reports bytes and the end alike, so a poller of its own, which reports
        only the end, is used during the wait. Without epoll it waits until this side closes."""
        _check_open(self._socket)
        if not hasattr(select, "epoll"):
            await trio.sleep_forever()
        with select.epoll(1) as poll:
            poll.register(self._socket, select.EPOLLRDHUP)
            self._end_poll = poll
            try:
                await self._until_event(poll)
                while not self._is_last(self._peek()):
                    poll.modify(self._socket, 0)  # The end would be told until all is read. A break still is.
                    await self._until_event(poll)
            finally:
                self._end_poll = None

    async def _until_event(self, poll: select.epoll) -> None:
        try:
            while not (events := poll.poll(0, 1)):
                await trio.lowlevel.wait_readable(poll.fileno())
        except (trio.ClosedResourceError, ValueError) as error:
            raise _closed() from error
        if events[0][1] & (select.EPOLLHUP | select.EPOLLERR):
            number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            raise broken(OSError(number or errno.ECONNRESET, os.strerror(number or errno.ECONNRESET)))

    def _peek(self) -> bytes:
        try:
            return socket.socket.recv(self._socket, PEEKED_BYTES, socket.MSG_PEEK)  # Encrypted or not.
        except OSError as error:
            raise broken(error) from error

    def _is_last(self, rest: bytes) -> bool:
        """Whether the stream ends after `rest`, the first unread bytes."""
        return not rest

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        try:
            if len(buffers) == 1:
                return self._socket.send(buffers[0])
            return self._socket.sendmsg(buffers[:BUFFERS_PER_CALL])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise broken(error) from error

    async def wait_writable(self) -> None:
        _check_open(self._socket)
        self._turn = 0
        try:
            await trio.lowlevel.wait_writable(self._socket)
        except trio.ClosedResourceError as error:
            raise _closed() from error

    async def send_all(self, buffers: Sequence[Buffer]) -> None:
        rest = sum(map(len, buffers))
        while rest:
            sent = self.send_nowait(buffers)
            rest -= sent
            self._turn += sent
            if not rest:
                break
            buffers = _after(buffers, sent)
            await self.wait_writable()
        if self._turn >= TURN_BYTES:
            self._turn = 0
            await trio.lowlevel.checkpoint()

    async def send_file(self, file: File, offset: int, count: int, *, only_resident: bool = False) -> int:
        """Send through a buffer that all streams share, with two copies in memory. Where the kernel copies anyway, such
        as on loopback, that is faster than sendfile, which looks up every page (ADR 6). If the socket accepts only part
        of a read, the rest is read again, in smaller pieces, when the socket is writable. With `only_resident`, the
        read itself stops at data that is not in memory (RWF_NOWAIT)."""
        if not isinstance(file, RealFile):
            raise TypeError(f"{type(file).__name__} is a file of another world")
        start, end, chunk = offset, offset + count, TURN_BYTES
        while offset < end:
            # Nothing is awaited between filling the buffer and handing it to the kernel: it is ours for that long.
            piece = read_piece(file, self._file_buffer[: min(end - offset, chunk)], offset, only_resident)
            size = len(piece)
            if not size:
                break
            try:
                sent = self._socket.send(piece)
            except BlockingIOError:
                chunk = RETRY_BYTES
                await self.wait_writable()
                continue
            except OSError as error:
                raise broken(error) from error
            if sent < size:
                chunk = RETRY_BYTES
            offset += sent
            self._turn += sent
            if self._turn >= TURN_BYTES:
                self._turn = 0
                await trio.lowlevel.checkpoint()
        return offset - start

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            if self._end_poll is not None:
                trio.lowlevel.notify_closing(self._end_poll.fileno())
                self._end_poll.close()
            self._socket.close()


def read_piece(file: RealFile, buffer: memoryview, offset: int, only_resident: bool) -> memoryview:
    """Read up to the size of `buffer`. With `only_resident`, read nothing if the first byte is not in memory. Raises
    OSError, also at the end of the file."""
    size = read_if_resident(file, buffer, offset) if only_resident else os.preadv(file.descriptor, [buffer], offset)
    if size is None:
        return buffer[:0]
    if size == 0:
        raise OSError(errno.EIO, f"{file.path} ends before byte {offset + len(buffer)}")
    return buffer[:size]


def _after(buffers: Sequence[Buffer], sent: int) -> list[Buffer]:
    """The rest of `buffers` after their first `sent` bytes."""
    left: list[Buffer] = []
    for buffer in buffers:
        if sent >= len(buffer):
            sent -= len(buffer)
        else:
            left.append(memoryview(buffer)[sent:] if sent else buffer)
            sent = 0
    return left


StreamOf = Callable[[socket.socket, str], RealStream]
StreamsOf = Callable[[Tls | None], StreamOf]


class RealListener:
    """Implements `kraft.world.ports.Listener`. Once closed, `accept` raises ConnectionError."""

    __slots__ = ("_socket", "_stream_of", "_streams_of", "host", "port")

    def __init__(self, listening: socket.socket, streams_of: StreamsOf, tls: Tls | None) -> None:
        """`streams_of` returns the factory for streams of accepted sockets. Raises ValueError for keys that cannot be
        used."""
        self._socket = listening
        self._streams_of = streams_of
        self._stream_of = streams_of(tls)
        self.host, self.port = listening.getsockname()[:2]

    async def accept(self) -> RealStream:
        await trio.lowlevel.checkpoint()
        while True:
            try:
                connected, address = self._socket.accept()
                connected.setblocking(False)
                return self._stream_of(connected, address_of(str(address[0])))
            except BlockingIOError:
                try:
                    await trio.lowlevel.wait_readable(self._socket)
                except trio.ClosedResourceError as error:
                    raise _closed() from error
            except ConnectionError:
                continue  # The peer gave up between its connect and our accept.
            except OSError as error:
                if error.errno == errno.EBADF:
                    raise _closed() from error
                # A peer already gone shows as these when its options are set.
                if error.errno not in (errno.EINVAL, errno.ENOTCONN):
                    raise

    def take_tls(self, tls: Tls) -> None:
        self._stream_of = self._streams_of(tls)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class RealNetwork:
    """Implements `kraft.world.ports.Network`."""

    __slots__ = ("_client_contexts", "_file_buffer", "_handshake_turns")

    def __init__(self) -> None:
        self._file_buffer = memoryview(bytearray(TURN_BYTES))  # Pages that are never touched cost nothing.
        self._handshake_turns = trio.Lock()
        self._client_contexts: dict[Tls, ssl.SSLContext] = {}

    async def listen(self, host: str, port: int, backlog: int = 50, tls: Tls | None = None) -> RealListener:
        """An empty host is every address, IPv4 and IPv6."""
        if not host:
            dual = socket.has_dualstack_ipv6()
            listening = socket.create_server(
                ("", port), family=socket.AF_INET6 if dual else socket.AF_INET, backlog=backlog, dualstack_ipv6=dual
            )
        else:
            family, address = (await _resolve(host, port))[0]
            listening = _bind(family, address, backlog)
        listening.setblocking(False)
        try:
            return RealListener(listening, self._accepted, tls)
        except BaseException:
            listening.close()
            raise

    def _accepted(self, tls: Tls | None) -> StreamOf:
        """The function that makes streams of sockets that a listener accepts."""
        if tls is None:
            return lambda connected, peer: RealStream(connected, peer, self._file_buffer)
        from kraft.world.real.tls import TlsStream, server_context  # Who does not encrypt need not import ssl.

        context = server_context(tls)
        return lambda connected, peer: TlsStream(connected, peer, self._file_buffer, context, self._handshake_turns)

    async def connect(self, host: str, port: int, tls: Tls | None = None) -> RealStream:
        failure: OSError | None = None
        for family, address in await _resolve(host, port):
            try:
                connected = await _connect(family, address)
            except OSError as error:
                failure = failure or error
                continue
            if tls is None:
                return RealStream(connected, str(address[0]), self._file_buffer)
            return await self._encrypt(connected, str(address[0]), host, tls)
        raise failure or ConnectionRefusedError(errno.ECONNREFUSED, f"{host} has no address")

    async def _encrypt(self, connected: socket.socket, peer: str, host: str, tls: Tls) -> RealStream:
        from kraft.world.real.tls import TlsStream, client_context

        try:
            context = self._client_contexts.get(tls)
            if context is None:
                if len(self._client_contexts) >= CLIENT_CONTEXTS_MAX:
                    self._client_contexts.clear()
                context = self._client_contexts[tls] = client_context(tls)
            stream = TlsStream(connected, peer, self._file_buffer, context, self._handshake_turns, host)
        except BaseException:
            connected.close()
            raise
        try:
            await stream.handshake()
        except BaseException:
            stream.close()
            raise
        return stream


def _bind(family: int, address: Address, backlog: int) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(backlog)
    except BaseException:
        listening.close()
        raise
    return listening


async def _connect(family: int, address: Address) -> socket.socket:
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        try:
            connecting.connect(address)
            await trio.lowlevel.checkpoint()
        except BlockingIOError:
            await trio.lowlevel.wait_writable(connecting)
        status = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            raise OSError(status, os.strerror(status))
        # On loopback, a connection to an ephemeral port without a listener may connect to itself.
        if connecting.getsockname() == connecting.getpeername():
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        return connecting
    except BaseException:
        connecting.close()
        raise


async def _resolve(host: str, port: int) -> list[tuple[int, Address]]:
    """The addresses of a host in the resolver's order. Numeric hosts need no thread. Raises UnknownHost; OSError also
    for an invalid host name."""
    try:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            try:
                found = await trio.to_thread.run_sync(
                    lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), abandon_on_cancel=True
                )
            except socket.gaierror as problem:
                if problem.errno == socket.EAI_NONAME:
                    raise UnknownHost(*problem.args) from problem
                raise
    except (ValueError, OverflowError) as problem:
        # A peer may send anything; IDNA refuses labels that are empty or too long.
        raise OSError(errno.EINVAL, f"{host!r}, port {port}, is no address: {problem}") from problem
    return [(entry[0], entry[4]) for entry in found]
