"""Logins by signed tokens (OAUTHBEARER): real clients, the HTTP admin, and the same messages as Apache Kafka."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from jepsen.java import short_lived
from jepsen.java.kafka import ApacheKafka
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import free_ports
from tests.capabilities import require_capability
from tests.tokens import authority, stranger

SECONDS_MAX = 60
SECURITY = "org.apache.kafka.common.security"
OAUTH = "listener.name.clients.oauthbearer.sasl."
RULES = {
    f"{OAUTH}server.callback.handler.class": f"{SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler",
    f"{OAUTH}jaas.config": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required ;",
    "listener.name.clients.sasl.oauthbearer.expected.audience": "kafka",
    "listener.name.clients.sasl.oauthbearer.expected.issuer": "https://issuer",
}


def token(signer: Any = None, **claims: Any) -> str:
    told = {"iss": "https://issuer", "aud": "kafka", **claims}
    return str((signer or authority()).sign(time.time(), **told))


class Guarded(NamedTuple):
    node: NodeProcess
    keys: Path

    def librdkafka(self, text: str, lifetime: float = 300) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.node.bootstrap,
            "log_level": 0,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (text, time.time() + lifetime),
        }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("oauth")
    keys = directory / "jwks.json"
    keys.write_text(authority().jwks)
    plain = f'{SECURITY}.plain.PlainLoginModule required username="node" password="n" user_node="n";'
    settings = {
        "listeners": "CLIENTS://127.0.0.1:0,INNER://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INNER:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.inner.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.inner.plain.sasl.jaas.config": plain,
        "listener.name.clients.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{OAUTH}oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "connections.max.reauth.ms": "4000",
        "kraft.admin.authentication": "basic",
        **RULES,
    }
    (directory / "node.properties").write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
    with NodeProcess(directory, "--config", str(directory / "node.properties"), admin=True) as node:
        yield Guarded(node, keys)


def is_let_in(guarded: Guarded, text: str) -> bool:
    lets_in = AdminClient(guarded.librdkafka(text))
    try:
        return bool(lets_in.list_topics(timeout=3).brokers)
    except Exception:  # noqa: BLE001 - librdkafka's failures have many kinds.
        return False


def test_librdkafka_logs_in_with_a_token_and_again_before_its_session_expires(guarded: Guarded) -> None:
    admin = AdminClient(guarded.librdkafka(token()))
    admin.poll(1)
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(SECONDS_MAX)
    failures: list[Any] = []
    producer = Producer({**guarded.librdkafka(token()), "acks": "all"})
    deadline = time.monotonic() + 6
    while time.monotonic() < deadline:
        producer.produce("t", b"x", callback=lambda problem, _: problem and failures.append(problem))
        assert producer.flush(SECONDS_MAX) == 0
        time.sleep(0.5)
    assert failures == []


def test_aiokafka_logs_in_with_a_token(guarded: Guarded) -> None:
    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return token(algorithm="ES256")

    async def write() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=guarded.node.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(),
        )
        async with asyncio.timeout(SECONDS_MAX), producer:
            await producer.send_and_wait("u", b"more")

    asyncio.run(write())


def test_an_invalid_token_is_refused_and_reported(guarded: Guarded) -> None:
    assert is_let_in(guarded, token())
    now = time.time()
    for text, reason in (
        (token(exp=now - 60), "the token has expired"),
        (token(stranger()), "no key of the authority has signed the token"),
        (token(aud="elsewhere"), "the token is for another audience"),
    ):
        assert logged_in(guarded.node.bootstrap, first(text), b"\x01") == [
            (0, "", b'{"status":"invalid_token"}', False),
            (58, '{"status":"invalid_token"}', b"", False),
        ]
        assert reason in guarded.node.log_path.read_text()
        assert text not in guarded.node.log_path.read_text()
    assert not is_let_in(guarded, token(exp=now - 60))


def test_the_http_admin_accepts_a_token_until_it_expires(guarded: Guarded) -> None:
    def ask(text: str) -> int:
        headers = {"Authorization": f"Bearer {text}"}
        return httpx.get(f"{guarded.node.admin_url}/v3/clusters", headers=headers, timeout=SECONDS_MAX).status_code

    assert [ask(token()), ask(token(stranger())), ask("x")] == [200, 401, 401]
    short = token(exp=time.time() - 25, iat=0)  # The skew of 30 seconds lets it in for five more.
    assert ask(short) == 200
    until(lambda: ask(short) == 401)


def test_replaced_keys_of_the_authority_are_used(guarded: Guarded) -> None:
    assert not is_let_in(guarded, token(stranger()))
    (guarded.keys.parent / "new").write_text(stranger().jwks)
    os.replace(guarded.keys.parent / "new", guarded.keys)
    until(lambda: is_let_in(guarded, token(stranger())))
    assert not is_let_in(guarded, token())
    guarded.keys.write_text("no keys")
    until(lambda: "could not be renewed" in guarded.node.log_path.read_text())
    assert is_let_in(guarded, token(stranger())), "the keys from before hold"
    guarded.keys.write_text(authority().jwks)
    until(lambda: is_let_in(guarded, token()))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def first(text: str, head: str = "n,,") -> bytes:
    return f"{head}\x01auth=Bearer {text}\x01\x01".encode()


def logged_in(address: str, *messages: bytes) -> list[tuple[int, str | None, bytes, bool]]:
    """A handshake, then each message: error code, message, answer, and whether a lifetime was told."""
    host, port = address.rsplit(":", 1)
    answers = []
    with socket.create_connection((host, int(port)), SECONDS_MAX) as connection:
        connection.settimeout(SECONDS_MAX)
        asked(connection, 17, 1, SaslHandshakeRequest(mechanism="OAUTHBEARER"))
        for message in messages:
            try:
                answer = asked(connection, 36, 1, SaslAuthenticateRequest(auth_bytes=message))
            except ConnectionError:
                answers.append((-1, "closed", b"", False))
                break
            found, _ = SaslAuthenticateResponse.decode_from(memoryview(answer), 4, 1)
            told = found.session_lifetime_ms > 0
            answers.append((found.error_code, found.error_message, bytes(found.auth_bytes), told))
    return answers


def asked(connection: socket.socket, key: int, version: int, request: Any) -> bytes:
    frame = struct.pack(">hhih", key, version, 7, -1) + request.encode(version)
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    [size] = struct.unpack(">i", received(connection, 4))
    return received(connection, size)


def received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data


def exchanges_of_all_kinds() -> list[tuple[bytes, ...]]:
    """Messages of a client, each exchange on a connection of its own."""
    now = time.time()
    return [
        (first(token()),),
        (first(token(algorithm="ES256")),),
        (first(token(algorithm="PS384")),),
        (first(token(), "n,a=alice,"),),
        (first(token(), "n,a=bob,"),),
        (f"n,,\x01auth=Bearer {token()}\x01traceId=1\x01\x01".encode(),),
        (f"n,,\x01auth=bearer  {token()}\x01\x01".encode(),),
        (first(token(exp=now - 60)), b"\x01"),
        (first(token(iat=now - 300, exp=now - 20)),),
        (first(token(exp=now - 20)), b"\x01"),
        (first(token(nbf=now + 20, exp=now + 10)), b"\x01"),
        (first(token(exp=None)), b"\x01"),
        (first(token(iat=None)), b"\x01"),
        (first(token(nbf=now + 60)), b"\x01"),
        (first(token(aud="elsewhere")), b"\x01"),
        (first(token(aud=None)), b"\x01"),
        (first(token(aud=["elsewhere", "kafka"])),),
        (first(token(iss="https://other")), b"\x01"),
        (first(token(sub=None)), b"\x01"),
        (first(token(sub="  ")), b"\x01"),
        (first(token(stranger())), b"\x01"),
        (first(token(header={"kid": "none"})), b"\x01"),
        (first("a.b.c"), b"\x01"),
        (first("nonsense"), b"\x01"),
        (first("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9."), b"\x01"),
        (b"nonsense",),
        (b"n,,\x01host=here\x01\x01",),
        (b"",),
    ]


@pytest.mark.java
def test_the_oauthbearer_exchange_equals_that_of_apache_kafka(guarded: Guarded, tmp_path: Path) -> None:
    require_capability("java17")
    require_capability("mvn")
    keys = tmp_path / "jwks.json"
    keys.write_text(authority().jwks)
    clients, inner, controller = free_ports(3)
    kafka = ApacheKafka(
        tmp_path / "kafka",
        port=clients,
        controller_port=controller,
        settings={
            "listeners": f"CLIENTS://127.0.0.1:{clients},INNER://127.0.0.1:{inner},CONTROLLER://127.0.0.1:{controller}",
            "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INNER",
            "listener.name.clients.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.clients.sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
            "connections.max.reauth.ms": "4000",
            **RULES,
        },
        options=[
            *short_lived.options("kafka"),
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{keys}",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={keys}",
        ],
    )
    with kafka:
        compared = [
            (messages, logged_in(guarded.node.bootstrap, *messages), logged_in(kafka.bootstrap, *messages))
            for messages in exchanges_of_all_kinds()
        ]
    assert [each for each in compared if each[1] != each[2]] == []
