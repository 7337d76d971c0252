"""Encrypted streams keep the contract of streams, and let in only whom they should."""

from __future__ import annotations

import os
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.world.ports import Listener, Stream, Tls, World
from kraft.world.real import RealWorld
from kraft.world.real.files import RealFileSystem
from kraft.world.real.tls import RECORD_BYTES, client_context, server_context
from tests.certificates import certificates
from tests.unit.world.harness import Body, Harness
from tests.unit.world.network_contract import NetworkContract, receive_exactly


class ShakingListener:
    """Shakes hands with whoever connects, and hands the stream out afterwards."""

    def __init__(self, inner: Listener, nursery: trio.Nursery, streams: list[Stream]) -> None:
        """`streams` gets every stream, so that those which nobody takes can be closed."""
        self._inner, self._nursery, self._streams = inner, nursery, streams
        self.host, self.port = inner.host, inner.port
        self._ready_in, self._ready = trio.open_memory_channel[Stream](100)
        self._scope = trio.CancelScope()
        nursery.start_soon(self._take)

    async def _take(self) -> None:
        with self._scope:
            while True:
                try:
                    stream = await self._inner.accept()
                except ConnectionError:
                    self._ready_in.close()
                    return
                self._streams.append(stream)
                self._nursery.start_soon(self._shake, stream)

    async def _shake(self, stream: Stream) -> None:
        try:
            await stream.handshake()
            await self._ready_in.send(stream)
        except (ConnectionError, trio.ClosedResourceError):
            return

    async def accept(self) -> Stream:
        try:
            return await self._ready.receive()
        except trio.EndOfChannel:
            raise ConnectionAbortedError("closed") from None

    def close(self) -> None:
        self._inner.close()


class EncryptedNetwork:
    def __init__(self, world: RealWorld, nursery: trio.Nursery) -> None:
        self._network, self._nursery = world.network, nursery
        self.streams: list[Stream] = []

    async def listen(self, host: str, port: int, backlog: int = 50) -> Any:
        inner = await self._network.listen(host, port, backlog, certificates().server)
        return ShakingListener(inner, self._nursery, self.streams)

    async def connect(self, host: str, port: int) -> Stream:
        return await self._network.connect(host, port, certificates().anybody)


class EncryptedHarness(Harness):
    def __init__(self, root: Path) -> None:
        self.root = str(root)

    def run(self, body: Body) -> None:
        async def main() -> None:
            world = RealWorld(seed=1, log_sink=lambda line: None)
            async with trio.open_nursery() as nursery:
                network = EncryptedNetwork(world, nursery)
                facade: Any = SimpleNamespace(network=network, clock=world.clock, files=world.files)
                try:
                    await body(facade)
                finally:
                    for stream in network.streams:
                        stream.close()
                    nursery.cancel_scope.cancel()

        trio.run(main)

    def files(self) -> RealFileSystem:
        return RealFileSystem()


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return EncryptedHarness(tmp_path)


class TestEncryptedStreams(NetworkContract):
    pass


@asynccontextmanager
async def pair(
    server: Tls | None = None, client: Tls | None = None
) -> AsyncIterator[tuple[World, Stream, Stream, Listener]]:
    """Both ends, the connecting one first."""
    world = RealWorld(seed=1, log_sink=lambda line: None)
    listener = await world.network.listen("127.0.0.1", 0, 50, server or certificates().server)
    ends: dict[str, Stream] = {}

    async def accept() -> None:
        ends["far"] = await listener.accept()
        await ends["far"].handshake()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept)
            ends["near"] = await world.network.connect("localhost", listener.port, client or certificates().anybody)
        yield world, ends["near"], ends["far"], listener
    finally:
        for closable in (*ends.values(), listener):
            closable.close()


SIZES = st.lists(
    st.one_of(st.integers(0, 40), st.sampled_from([RECORD_BYTES - 1, RECORD_BYTES, RECORD_BYTES + 1, 100_000])),
    min_size=1,
    max_size=8,
)


@given(st.lists(SIZES, min_size=1, max_size=6), st.integers(1, 70_000))
@settings(max_examples=30, deadline=None)
def test_bytes_sent_over_tls_in_any_chunks_arrive_complete_and_in_order(batches: list[list[int]], at_once: int) -> None:
    payloads = [[bytes([n % 251]) * size for n, size in enumerate(sizes)] for sizes in batches]
    whole = b"".join(b"".join(batch) for batch in payloads)

    async def main() -> None:
        async with pair() as (_, near, far, _), trio.open_nursery() as nursery:

            async def send() -> None:
                for batch in payloads:
                    await near.send_all(batch)

            nursery.start_soon(send)
            got = bytearray()
            while len(got) < len(whole):
                got += await receive_exactly(far, min(at_once, len(whole) - len(got)))
            assert got == whole

    trio.run(main)


def test_bytes_counted_as_sent_leave_before_any_later_ones() -> None:
    """Also where the socket took a part of its record only."""
    sent: list[bytes] = []

    async def main() -> None:
        async with pair() as (_, near, far, _), trio.open_nursery() as nursery:
            number = 0
            while True:
                chunk = bytes([number % 256]) * 50_000
                count = near.send_nowait([chunk])
                sent.append(chunk[:count])
                number += 1
                if count < len(chunk):
                    break
            assert near.send_nowait([b"not yet"]) == 0
            whole = b"".join(sent) + b"end"
            nursery.start_soon(near.send_all, [b"end"])
            assert await receive_exactly(far, len(whole)) == whole

    trio.run(main)


def test_buffered_decrypted_bytes_make_a_stream_readable() -> None:
    async def main() -> None:
        async with pair() as (_, near, far, _):
            await near.send_all([b"x" * 1000])
            await far.wait_readable()
            taken = None
            while taken is None:
                taken = far.receive_nowait(memoryview(bytearray(10)))
            with trio.fail_after(30):
                await far.wait_readable()
                await far.wait_readable(990)
            assert await receive_exactly(far, 990) == b"x" * 990

    trio.run(main)


def test_the_end_of_a_tls_stream_is_seen_and_a_closed_stream_raises() -> None:
    async def main() -> None:
        async with pair() as (_, near, far, _):
            near.close()
            with trio.fail_after(30):
                await far.wait_readable()
            assert far.receive_nowait(memoryview(bytearray(10))) == 0
            for deed in (
                lambda: near.receive_nowait(memoryview(bytearray(10))),
                lambda: near.send_nowait([b"x"]),
            ):
                with pytest.raises(ConnectionError):
                    deed()
            with pytest.raises(ConnectionError):
                await near.wait_readable()

    trio.run(main)


async def refused(server: Tls, client: Tls | None) -> tuple[str, str]:
    """Why a handshake fails, as each side says."""
    world = RealWorld(seed=1, log_sink=lambda line: None)
    listener = await world.network.listen("127.0.0.1", 0, 50, server)
    reasons = {"server": "", "client": ""}

    async def accept() -> None:
        stream = await listener.accept()
        try:
            await stream.handshake()
            await stream.wait_readable()
        except ConnectionError as problem:
            reasons["server"] = str(problem)
        finally:
            stream.close()

    async def connect() -> None:
        try:
            stream = await world.network.connect("localhost", listener.port, client)
            try:
                await stream.send_all([struct.pack(">i", 9), b"plaintext"])
                while stream.receive_nowait(memoryview(bytearray(100))) is None:
                    await stream.wait_readable()
            finally:
                stream.close()
        except ConnectionError as problem:
            reasons["client"] = str(problem)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept)
            nursery.start_soon(connect)
    listener.close()
    return reasons["server"], reasons["client"]


def test_a_tls_peer_that_is_refused_gets_the_reason() -> None:
    found = certificates()
    key, chain = found.elsewhere()
    required = replace(found.server, client_auth="required")
    cases: list[tuple[Tls, Tls | None, str]] = [
        (found.server, replace(found.anybody, trusted=found.stranger), "not accepted"),
        (replace(found.server, certificate_chain=chain, private_key=key), found.anybody, "Hostname mismatch"),
        (required, found.anybody, "peer did not return a certificate"),
        (found.server, None, "wrong version number"),
        (replace(found.server, protocols=("TLSv1.3",)), replace(found.anybody, protocols=("TLSv1.2",)), "protocol"),
    ]
    for server, client, reason in cases:
        said = " / ".join(trio.run(refused, server, client))
        assert reason in said, (reason, said)


def test_a_client_with_a_certificate_is_accepted_and_host_name_checks_can_be_disabled() -> None:
    found = certificates()
    key, chain = found.elsewhere()
    elsewhere = replace(found.server, certificate_chain=chain, private_key=key, client_auth="required")

    async def main() -> None:
        async with pair(elsewhere, replace(found.client, check_host=False)) as (_, near, far, _):
            await near.send_all([b"hello"])
            assert await receive_exactly(far, 5) == b"hello"

    trio.run(main)


def test_new_tls_keys_apply_to_the_next_connection_and_invalid_ones_change_nothing() -> None:
    found = certificates()
    key, chain = found.renewed()

    def shown(stream: Any) -> bytes | None:
        certificate: bytes | None = stream._tls.getpeercert(True)
        return certificate

    async def main() -> None:
        async with pair() as (world, near, _, listener):
            before = shown(near)
            with pytest.raises(ValueError, match="private key and its certificates cannot be used"):
                listener.take_tls(replace(found.server, private_key=key))
            listener.take_tls(replace(found.server, private_key=key, certificate_chain=chain))
            async with trio.open_nursery() as nursery:

                async def accept() -> None:
                    stream = await listener.accept()
                    await stream.handshake()
                    stream.close()

                nursery.start_soon(accept)
                again = await world.network.connect("localhost", listener.port, found.anybody)
            assert shown(again) != before
            assert shown(again) == ssl.PEM_cert_to_DER_cert(chain)
            again.close()

    trio.run(main)


def test_tls_keys_are_passed_to_the_library_only_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []
    load = ssl.SSLContext.load_cert_chain

    def noted(context: ssl.SSLContext, chain: str, key: str, password: str) -> None:
        paths.extend((os.readlink(chain), os.readlink(key)))
        load(context, chain, key, password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", noted)
    server_context(certificates().server)
    client_context(certificates().client)
    assert len(paths) == 4
    assert all(path.startswith("/memfd:") for path in paths)
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(ValueError, match="needs Linux"):
        server_context(certificates().server)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"trusted": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"}, "trusted certificates"),
        ({"private_key": certificates().client_key}, "key values mismatch"),
        ({"ciphers": ("NONSENSE",)}, "cipher suites"),
    ],
)
def test_unusable_tls_keys_are_refused_with_a_reason(change: dict[str, Any], reason: str) -> None:
    make: Callable[[Tls], ssl.SSLContext]
    for make in (server_context, client_context):
        with pytest.raises(ValueError, match=reason):
            make(replace(certificates().server, **change))


def test_the_repr_of_a_tls_configuration_hides_its_keys() -> None:
    assert "PRIVATE" not in repr(certificates().server)
    assert "CERTIFICATE" not in repr(certificates().server)


def test_only_the_configured_cipher_suites_are_used() -> None:
    wanted = ("ECDHE-ECDSA-AES256-GCM-SHA384",)
    context = server_context(replace(certificates().server, protocols=("TLSv1.2",), ciphers=wanted))
    of_1_2: Sequence[Any] = [each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"]
    assert tuple(of_1_2) == wanted
    assert context.maximum_version == ssl.TLSVersion.TLSv1_2
