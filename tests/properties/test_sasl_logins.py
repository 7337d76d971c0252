"""Whatever a client of a SASL listener sends, before, in the midst of and after a login: each frame is answered or
breaks the protocol, and nobody gets in but by a proof of the password, made for this connection.

The client knows alice's password. It tells lies, too: what it says is cut short, changed, said twice, for bob, whose
password it does not know, or taken from a connection on which it was right.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import Any, Final

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from kraft.common.errors import ProtocolError
from kraft.metadata.image.scram_image import ScramCredential
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.framing import SIZE_BYTES, encode_request
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.security.sasl.errors import SaslRefused
from kraft.security.sasl.plain import plain_message
from kraft.security.sasl.scram import ScramClient
from kraft.security.scram_credentials import MECHANISMS, keys_of, salted_password
from tests.unit.handlers.security.sasl_exchange import Door

EXAMPLES: Final = 5000 if os.environ.get("KRAFT_SOAK") == "1" else 150
STEPS_MAX: Final = 8
MECHANISM: Final = "SCRAM-SHA-256"
SALT: Final = b"salt"
PASSWORDS: Final = {"alice": "a", "bob": "unknown to the client"}

Step = tuple[str, str | bytes, str | int]
Script = list[Step]

MESSAGES: Final = ("plain", "first", "final", "old final", "noise")
LIES: Final = ("", "cut", "longer", "changed", "twice", "bob")
messages, lies = st.sampled_from(MESSAGES), st.sampled_from(LIES)
noise = st.binary(max_size=60).map(bytes)
steps = st.one_of(
    st.tuples(st.just("handshake"), st.sampled_from(["PLAIN", MECHANISM, "GSSAPI", ""]), st.integers(0, 1)),
    st.tuples(st.just("say"), messages, lies),
    st.tuples(st.just("say"), messages, lies),
    st.tuples(st.just("raw"), messages, lies),
    st.tuples(st.just("say"), noise, st.just("")),
    st.tuples(st.just("heartbeat"), st.just(""), st.just("")),
    st.tuples(st.just("bytes"), st.binary(max_size=40), st.just("")),
    st.tuples(
        st.just("bytes"),
        st.builds(
            lambda key, version, rest: struct.pack(">hhih", key, version, 1, -1) + rest,
            st.sampled_from([ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS]),
            st.integers(-1, 4),
            st.binary(max_size=40),
        ),
        st.just(""),
    ),
)


@cache
def salted(user: str) -> bytes:
    return salted_password(MECHANISMS[MECHANISM], PASSWORDS[user], SALT, 4096)


@cache
def credentials() -> dict[str, ScramCredential]:
    keys = {user: keys_of(MECHANISMS[MECHANISM], salted(user)) for user in PASSWORDS}
    return {user: ScramCredential(SALT, key.stored_key, key.server_key, 4096) for user, key in keys.items()}


def request(body: Any, version: int) -> bytes:
    return bytes(encode_request(body.API_KEY, version, 7, "me", body)[SIZE_BYTES:])


class Liar:
    """A connection and what its client says. `proven`: it has said what lets alice in, to this connection."""

    def __init__(self, old_final: bytes, seed: int) -> None:
        self.door = Door(scram=credentials(), seed=seed)
        self.client = ScramClient(MECHANISMS[MECHANISM], "alice", "client")
        self.final = b""
        self.proven = False
        self._old_final = old_final

    def message(self, kind: str | bytes, lie: str) -> bytes:
        """What it says."""
        if isinstance(kind, bytes):
            return kind
        user = "bob" if lie == "bob" else "alice"
        if kind == "first" and lie == "bob":
            self.client = ScramClient(MECHANISMS[MECHANISM], user, "client")
        made = {
            "plain": plain_message(user, PASSWORDS["alice"]),
            "first": self.client.first(),
            "final": self.final,
            "old final": self._old_final,
            "noise": b"\xff\0alice\0a",
        }[kind]
        told = {"cut": made[:-1], "longer": made + b"x", "changed": _changed(made), "twice": made + made}
        made = told.get(lie, made)
        self.proven = self.proven or made in (plain_message("alice", PASSWORDS["alice"]), self.final or None)
        return made

    def hear(self, answer: bytes) -> None:
        """A challenge in it is answered next, by alice's password."""
        start = answer.find(b"r=client")
        if start >= 0:
            try:
                self.client.challenge(answer[start : answer.find(b"i=4096", start) + 6])
            except SaslRefused:
                return
            self.final = self.client.final(salted("alice"))

    async def do(self, step: Step) -> bool:
        """Whether the connection is there afterwards."""
        kind, what, how = step
        if kind == "handshake":
            frame = request(SaslHandshakeRequest(mechanism=str(what)), int(how))
        elif kind == "heartbeat":
            frame = request(HeartbeatRequest(), 4)
        elif kind == "bytes":
            frame = bytes(what)  # type: ignore[arg-type]
        else:
            frame = self.message(what, str(how))
            if kind == "say":
                frame = request(SaslAuthenticateRequest(auth_bytes=frame), 2)
        try:
            answer, closes = await self.door.frame(frame)
        except ProtocolError:
            return False
        self.hear(answer)
        return not closes


def _changed(message: bytes) -> bytes:
    """In one byte, the ninth from the end, as base64 may be."""
    return message[:-9] + (b"B" if message[-9:-8] == b"A" else b"A") + message[-8:]


async def play(script: Script, old_final: bytes, seed: int) -> Liar:
    liar = Liar(old_final, seed)
    for step in script:
        goes_on = await liar.do(step)
        peer = liar.door.peer
        assert not peer.proven or liar.proven
        assert not peer.proven or peer.principal == "User:alice"
        assert set(liar.door.seen) <= ({"User:alice"} if peer.proven else set())
        if not goes_on:
            break
    return liar


def run(script: Script, old_final: bytes = b"", seed: int = 0) -> Liar:
    return trio.run(play, script, old_final, seed, clock=MockClock(autojump_threshold=0))


BY_SCRAM: Final[Script] = [
    ("handshake", MECHANISM, 1),
    ("say", "first", ""),
    ("say", "final", ""),
    ("heartbeat", "", ""),
]


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("message", MESSAGES)
def test_no_forged_message_at_any_step_of_a_login_authenticates(message: str, lie: str) -> None:
    for way, version in (("say", 1), ("raw", 0)):
        plain: Script = [("handshake", "PLAIN", version)]
        scram: Script = [("handshake", MECHANISM, version), (way, "first", ""), (way, "final", "")]
        for begun in ([], plain, *(scram[:count] for count in range(1, 4))):
            run([*begun, (way, message, lie), ("heartbeat", "", "")], old_final_of_another_connection())


@settings(max_examples=EXAMPLES)
@given(st.lists(steps, max_size=STEPS_MAX), st.integers(0, 3))
def test_no_client_authenticates_without_a_proof_for_its_connection(script: Script, begun: int) -> None:
    """Often within a login that was begun in order."""
    run([*BY_SCRAM[:begun], *script], old_final_of_another_connection())


@cache
def old_final_of_another_connection() -> bytes:
    return run(BY_SCRAM, seed=1).final


def test_an_honest_client_authenticates() -> None:
    """Or the law would be of nothing."""
    for script in (
        BY_SCRAM,
        [("handshake", "PLAIN", 1), ("say", "plain", ""), ("heartbeat", "", "")],
        [("handshake", "PLAIN", 0), ("raw", "plain", ""), ("heartbeat", "", "")],
        [("handshake", MECHANISM, 0), ("raw", "first", ""), ("raw", "final", ""), ("heartbeat", "", "")],
    ):
        assert run(script).door.seen == ["User:alice"]  # type: ignore[arg-type]


def test_messages_of_another_connection_do_not_authenticate() -> None:
    liar = run([*BY_SCRAM[:2], ("say", "old final", ""), ("heartbeat", "", "")], old_final_of_another_connection())
    assert old_final_of_another_connection() != b""
    assert liar.door.seen == []
