"""A storm on a listener, as a process of its own: `python -m tests.integration.login_storm HOST:PORT KIND SECONDS`.

`half` begins handshakes of TLS and never ends them; `silent` ends them and never logs in; `guess` logs in by wrong
passwords, as fast as it is refused.
"""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable

from kraft.protocol.framing import encode_request
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

THREADS = 8
HELD_MAX = 60
"""Connections that a thread keeps open."""
HELLO_HEAD = bytes.fromhex("16030100f0010000ec0303") + bytes(32)
"""The first bytes of a ClientHello that never ends."""


def connected(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, 5)


def encrypted(address: tuple[str, int]) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connected(address))


def half(address: tuple[str, int]) -> socket.socket:
    stream = connected(address)
    stream.sendall(HELLO_HEAD)
    return stream


def guess(address: tuple[str, int]) -> None:
    with encrypted(address) as stream:
        stream.sendall(encode_request(17, 1, 1, "storm", SaslHandshakeRequest(mechanism="PLAIN")))
        stream.recv(struct.unpack(">i", stream.recv(4))[0])
        request = SaslAuthenticateRequest(auth_bytes=b"\0alice\0guess")
        stream.sendall(encode_request(36, 1, 2, "storm", request))
        while stream.recv(4096):
            pass


def holding(make: Callable[[tuple[str, int]], socket.socket]) -> Callable[[tuple[str, int]], None]:
    """Make connections and keep the last of them."""
    held: list[socket.socket] = []

    def once(address: tuple[str, int]) -> None:
        held.append(make(address))
        while len(held) > THREADS * HELD_MAX:
            held.pop(0).close()

    return once


def main(where: str, kind: str, seconds: str) -> None:
    host, _, port = where.rpartition(":")
    address, end, counts = (host, int(port)), time.monotonic() + float(seconds), [0] * THREADS
    act = {"half": holding(half), "silent": holding(encrypted), "guess": guess}[kind]

    def storm(number: int) -> None:
        while time.monotonic() < end:
            try:
                act(address)
            except OSError:
                time.sleep(0.01)
            counts[number] += 1

    threads = [threading.Thread(target=storm, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(counts), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
