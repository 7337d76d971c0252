"""TLS on raw non-blocking sockets: contexts from keys in memory, and a stream that encrypts.

OpenSSL reads and writes the socket itself, a record of at most `RECORD_BYTES` at a time, so nothing is copied through
memory buffers. A record that the socket does not take whole stays in OpenSSL; its plaintext counts as sent, and it
leaves before anything else is sent.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import Final

import trio

from kraft.world.hosts import TlsHandshakeFailed
from kraft.world.ports import Buffer, File, Tls
from kraft.world.real.files import RealFile
from kraft.world.real.network import RETRY_BYTES, TURN_BYTES, RealStream, broken, read_piece

RECORD_BYTES: Final = 16 * 1024
RECORD_OVERHEAD_BYTES_MAX: Final = 1024
ALERT_TYPE: Final = 21
DISGUISED_ALERT_LENGTH: Final = (19).to_bytes(2, "big")
"""Length of an encrypted alert in TLS 1.3, which looks like data: one byte each for level, description and content
type, 16 for the tag of the cipher (RFC 8446, 5.2)."""
_ALERT_OF_CERTIFICATES: Final = re.compile("ALERT_.*(CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED)")
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(tls: Tls) -> ssl.SSLContext:
    """The context of a listener. Raises ValueError with a message."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0  # They would wake a client that waits for an answer, for nothing.
    context.verify_mode = _VERIFY[tls.client_auth]
    _trust(context, tls)
    _show(context, tls)
    _limit(context, tls)
    return context


def client_context(tls: Tls) -> ssl.SSLContext:
    """The context of a client. Raises ValueError with a message."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.check_hostname = tls.check_host
    if not tls.trusted:
        context.load_default_certs()
    _trust(context, tls)
    if tls.certificate_chain:
        _show(context, tls)
    _limit(context, tls)
    return context


def _trust(context: ssl.SSLContext, tls: Tls) -> None:
    if tls.trusted:
        try:
            context.load_verify_locations(cadata=tls.trusted)
        except (ssl.SSLError, ValueError) as problem:
            raise ValueError(f"the trusted certificates cannot be read: {_reason(problem)}") from problem


def _show(context: ssl.SSLContext, tls: Tls) -> None:
    """Load the chain and its key into the context. OpenSSL reads them only from a path. The path here refers to a file
    in memory, so the key is never on a disk."""
    with _in_memory(tls.certificate_chain) as chain, _in_memory(tls.private_key) as key:
        try:
            # With a password of "", OpenSSL fails where it would ask on the terminal for one.
            context.load_cert_chain(chain, key, tls.key_password or "")
        except ssl.SSLError as problem:
            raise ValueError(f"the private key and its certificates cannot be used: {_reason(problem)}") from problem


def _limit(context: ssl.SSLContext, tls: Tls) -> None:
    context.minimum_version, context.maximum_version = _VERSIONS[tls.protocols[0]], _VERSIONS[tls.protocols[-1]]
    if tls.ciphers:
        try:
            context.set_ciphers(":".join(tls.ciphers))
        except ssl.SSLError as problem:
            raise ValueError(f"none of the cipher suites is known to {ssl.OPENSSL_VERSION}") from problem


@contextlib.contextmanager
def _in_memory(text: str) -> Iterator[str]:
    if not hasattr(os, "memfd_create"):
        raise ValueError("a certificate of our own needs Linux: elsewhere its key would have to lie on a disk")
    descriptor = os.memfd_create("kraft-tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _reason(problem: Exception) -> str:
    """OpenSSL's error message, without the source location."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"the peer's certificate is not accepted: {problem.verify_message}"
    if isinstance(problem, ssl.SSLError) and problem.reason:
        return problem.reason.lower().replace("_", " ")
    return str(problem)


class TlsStream(RealStream):
    """A TLS stream: it encrypts what is sent and decrypts what is received. Nothing may be sent or received before
    `handshake` returned."""

    __slots__ = ("_context", "_server_name", "_tls", "_turns", "_unsent")
    is_encrypted = True

    def __init__(
        self,
        connected: socket.socket,
        peer: str,
        file_buffer: memoryview,
        context: ssl.SSLContext,
        turns: trio.Lock,
        server_name: str | None = None,
    ) -> None:
        """`turns` is shared by all streams of a loop, and spreads handshakes over the loop's turns. `server_name` is
        the host that a client wants to reach."""
        super().__init__(connected, peer, file_buffer)
        self._context = context
        self._server_name = server_name
        self._turns = turns
        self._tls: ssl.SSLSocket
        self._unsent: bytes | None = None
        """The rest of a record that the socket has not accepted yet."""

    async def handshake(self) -> None:
        """See the port. Each turn of the loop does one step of one handshake: its computation takes about a
        millisecond, and requests should not wait for those of hundreds of handshakes."""
        try:
            self._socket = self._tls = self._context.wrap_socket(
                self._socket,
                server_side=self._server_name is None,
                do_handshake_on_connect=False,
                server_hostname=self._server_name,
            )
        except OSError as error:
            raise broken(error) from error
        while True:
            async with self._turns:
                is_readable = self._step()
                await trio.lowlevel.checkpoint()
            if is_readable is None:
                return
            await (super().wait_readable() if is_readable else self.wait_writable())

    def _step(self) -> bool | None:
        """Do one step. Returns None when the handshake is complete, else whether it waits for data from the peer (True)
        or to send (False)."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return True
        except ssl.SSLWantWriteError:
            return False
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise ConnectionResetError("the peer left during its TLS handshake") from error
        except ssl.SSLError as error:
            raise TlsHandshakeFailed(f"TLS handshake failed: {_reason(error)}") from error
        except ValueError as error:
            raise ConnectionAbortedError("the connection was closed during its TLS handshake") from error
        except OSError as error:
            raise broken(error) from error
        return None

    @property
    def peer_certificate(self) -> bytes | None:
        if self._context.verify_mode == ssl.CERT_NONE:
            return None
        try:
            return self._tls.getpeercert(binary_form=True)
        except ValueError:
            return None  # Closed meanwhile: the peer gets no response anyway.

    def receive_nowait(self, buffer: memoryview) -> int | None:
        count = 0
        while True:
            try:
                received: int = self._tls.read(len(buffer) - count, buffer[count:])  # type: ignore[assignment]  # Into a buffer.
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return count or None
            except OSError as error:
                if count:
                    return count
                raise _failed(error) from error
            except ValueError as error:
                raise ConnectionAbortedError("closed on this side") from error
            count += received
            if count == len(buffer) or (received < RECORD_BYTES and not (received and self._tls.pending())):
                return count

    async def wait_readable(self, expected: int = 1) -> None:
        try:
            pending = self._tls.pending()
        except ValueError as error:
            raise ConnectionAbortedError("closed on this side") from error
        if pending:
            await trio.lowlevel.checkpoint()
            return
        # A part of a record may be in OpenSSL already, so fewer bytes may come than are expected.
        await super().wait_readable(max(1, expected - RECORD_BYTES - RECORD_OVERHEAD_BYTES_MAX))

    def _is_last(self, rest: bytes) -> bool:
        """Whether the unread bytes are the last ones. A peer sends an alert before it ends the stream. TLS 1.3
        disguises the alert as data, but it is shorter than any frame."""
        if self._tls.pending():
            return False
        return not rest or rest[0] == ALERT_TYPE or rest[3:] == DISGUISED_ALERT_LENGTH

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        accepted = 0
        if self._flush():
            for record in _records(buffers):
                accepted += self._accept(record)
                if self._unsent is not None:
                    break
        return accepted

    def _flush(self) -> bool:
        """Send held-back records. Returns whether nothing is left."""
        if self._unsent is None:
            return True
        unsent, self._unsent = self._unsent, None
        self._accept(unsent)
        return self._unsent is None

    def _accept(self, record: Buffer) -> int:
        try:
            return self._tls.send(record)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            self._unsent = bytes(record)
            return len(record)
        except OSError as error:
            raise _failed(error) from error
        except ValueError as error:
            raise ConnectionAbortedError("closed on this side") from error

    async def send_all(self, buffers: Sequence[Buffer]) -> None:
        await self._until_flushed()
        for record in _records(buffers):
            self._turn += self._accept(record)
            await self._until_flushed()
        if self._turn >= TURN_BYTES:
            self._turn = 0
            await trio.lowlevel.checkpoint()

    async def _until_flushed(self) -> None:
        while self._unsent is not None:
            await self.wait_writable()
            self._flush()

    async def send_file(self, file: File, offset: int, count: int, *, only_resident: bool = False) -> int:
        if not isinstance(file, RealFile):
            raise TypeError(f"{type(file).__name__} is a file of another world")
        start, end = offset, offset + count
        while offset < end:
            # Nothing is awaited before the piece is encrypted: the shared buffer is ours for that long.
            piece = read_piece(file, self._file_buffer[: min(end - offset, RETRY_BYTES)], offset, only_resident)
            if not piece:
                break
            sent = self.send_nowait((piece,))
            offset += sent
            self._turn += sent
            await self._until_flushed()
            if self._turn >= TURN_BYTES:
                self._turn = 0
                await trio.lowlevel.checkpoint()
        return offset - start

    def close(self) -> None:
        if self._socket.fileno() >= 0 and self._unsent is None and isinstance(self._socket, ssl.SSLSocket):
            with contextlib.suppress(OSError, ValueError):
                self._socket.unwrap()  # Says that nothing follows, and does not wait for the same from the peer.
        super().close()


def _failed(error: OSError) -> ConnectionError:
    if isinstance(error, ssl.SSLError):
        # With TLS 1.3 a server judges a client's certificate when the client takes the handshake for done.
        kind = TlsHandshakeFailed if _ALERT_OF_CERTIFICATES.search(error.reason or "") else ConnectionAbortedError
        return kind(f"TLS failed: {_reason(error)}")
    return broken(error)


def _records(buffers: Sequence[Buffer]) -> Iterator[Buffer]:
    """Pieces of one record each; small buffers are joined."""
    small: list[Buffer] = []
    size = 0
    for buffer in buffers:
        view = memoryview(buffer)
        if size + len(view) > RECORD_BYTES:
            if small:
                yield b"".join(small)
            while len(view) > RECORD_BYTES:
                yield view[:RECORD_BYTES]
                view = view[RECORD_BYTES:]
            small, size = [], 0
        small.append(view)
        size += len(view)
    if size:
        yield small[0] if len(small) == 1 else b"".join(small)
