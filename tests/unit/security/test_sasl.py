"""The messages of logins: RFC 5802's and RFC 7677's own example, Kafka's rules, and both sides against each other."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.metadata.image.scram_image import ScramCredential
from kraft.security.sasl.authentication import SaslSession, SaslSettings
from kraft.security.sasl.errors import SaslRefused
from kraft.security.sasl.jaas import PLAIN_MODULE, parse_jaas
from kraft.security.sasl.plain import PlainServer, plain_message
from kraft.security.sasl.scram import Challenge, ScramClient, ScramServer
from kraft.security.scram_credentials import MECHANISMS, ScramMechanism, keys_of, salted_password

SHA_1 = ScramMechanism("SCRAM-SHA-1", 0, "sha1")
SOAK = os.environ.get("KRAFT_SOAK") == "1"
SHA_256 = MECHANISMS["SCRAM-SHA-256"]
NAMES = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=12)


def credential(
    mechanism: ScramMechanism, password: str, salt: bytes = b"salt", iterations: int = 4096
) -> ScramCredential:
    keys = keys_of(mechanism, salted_password(mechanism, password, salt, iterations))
    return ScramCredential(salt, keys.stored_key, keys.server_key, iterations)


class Example(ScramServer):
    """RFC 7677, section 3."""

    FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    ANSWER = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    FINAL = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    LAST = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

    def __init__(self, password: str = "pencil") -> None:
        salt = bytes.fromhex("5b6d99689d123 58eec a04b1412 36fa81".replace(" ", ""))
        kept = credential(SHA_256, password, salt)
        super().__init__(SHA_256, lambda user: kept if user == "user" else None, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")


def test_the_server_responds_as_in_rfc_7677() -> None:
    server = Example()
    assert server.evaluate(Example.FIRST) == Example.ANSWER
    assert server.user is None
    assert server.evaluate(Example.FINAL) == Example.LAST
    assert server.user == "user"


def test_the_client_sends_the_messages_of_rfc_7677() -> None:
    client = ScramClient(SHA_256, "user", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == Example.FIRST
    assert client.final(client.salt("pencil", client.challenge(Example.ANSWER))) == Example.FINAL
    client.finish(Example.LAST)
    with pytest.raises(SaslRefused, match="does not know"):
        client.finish(b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_the_client_sends_the_messages_of_rfc_5802() -> None:
    client = ScramClient(SHA_1, "user", "fyko+d2lbbFgONRv9qkxdawL")
    answer = b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    assert client.final(client.salt("pencil", client.challenge(answer))) == (
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    )
    client.finish(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=")


@pytest.mark.parametrize("password", ["pencils", ""])
def test_a_proof_of_another_password_is_rejected(password: str) -> None:
    server = Example(password)
    server.evaluate(Example.FIRST)
    with pytest.raises(SaslRefused, match="invalid credentials with SASL mechanism SCRAM-SHA-256"):
        server.evaluate(Example.FINAL)
    assert server.user is None


@pytest.mark.parametrize(
    "first",
    [
        b"", b"\xff", b"n,,n=stranger,r=x", b"y,,n=user,r=x", b"p=tls-unique,,n=user,r=x", b"n,,n=user",
        b"n,,n=us=er,r=x",
        b"n,,n=user,r=x,tokenauth=true", b"n,a=other,n=user,r=x",
    ],
)  # fmt: skip
def test_an_invalid_first_message_is_rejected(first: bytes) -> None:
    with pytest.raises(SaslRefused):
        Example().evaluate(first)


@pytest.mark.parametrize(
    ("old", "new"), [(b"c=biws", b"c=eSws"), (b"hNlF$k0,", b"hNlF$k1,"), (b"p=dHzb", b"p="), (b",p=", b",q=")]
)
def test_an_invalid_final_message_is_rejected(old: bytes, new: bytes) -> None:
    server = Example()
    server.evaluate(Example.FIRST)
    with pytest.raises(SaslRefused):
        server.evaluate(Example.FINAL.replace(old, new))


@pytest.mark.parametrize(
    "answer",
    [b"", b"r=other,s=QSXCR+Q6sek8bf92,i=4096", b"r=mine,s=QSXCR+Q6sek8bf92,i=4096",
     b"r=mine1,s=QSXCR+Q6sek8bf92,i=1", b"r=mine1,s=QSXCR+Q6sek8bf92,i=99999999", b"r=mine1,s=x,i=4096"],
)  # fmt: skip
def test_a_client_rejects_an_unauthenticated_server(answer: bytes) -> None:
    with pytest.raises(SaslRefused):
        ScramClient(SHA_256, "user", "mine").challenge(answer)


@settings(deadline=None, max_examples=15)
@given(NAMES, NAMES, st.sampled_from(sorted(MECHANISMS)))
def test_client_and_server_agree_for_any_name_and_password(user: str, password: str, name: str) -> None:
    mechanism = MECHANISMS[name]
    server = ScramServer(mechanism, {user: credential(mechanism, password)}.get, "server")
    client = ScramClient(mechanism, user, "client")
    challenge = client.challenge(server.evaluate(client.first()))
    assert challenge == Challenge(b"salt", 4096)
    client.finish(server.evaluate(client.final(client.salt(password, challenge))))
    assert server.user == user


@given(st.lists(st.binary(max_size=60) | st.sampled_from([Example.FIRST, Example.FINAL]), max_size=4))
def test_any_messages_are_answered_or_rejected(messages: list[bytes]) -> None:
    server = Example()
    for message in messages:
        try:
            server.evaluate(message)
        except SaslRefused:
            break
    assert server.user is None or messages[:2] == [Example.FIRST, Example.FINAL]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"\xff\0a\0b", "not UTF-8"),
        (b"a\0b", "expected 3 tokens, got 2"),
        (b"\0\0b", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0bob\0\0", "expected 3 tokens, got 4"),
        (b"\0bob\0secret", "Invalid username or password"),
        (b"bob\0alice\0secret", "authorization id that is different"),
    ],
)
def test_plain_rejects_with_kafkas_words(message: bytes, told: str) -> None:
    server = PlainServer({"alice": "secret"})
    with pytest.raises(SaslRefused, match=told):
        server.evaluate(message)
    assert server.user is None


def test_plain_accepts_name_and_password() -> None:
    server = PlainServer({"älice": "sécret"})
    assert server.evaluate(plain_message("älice", "sécret")) == b""
    assert server.user == "älice"


def session(session_ms_max: int = 0) -> SaslSession:
    users = {"alice": "a", "bob": "b"}
    told = SaslSettings(mechanisms=("PLAIN", "SCRAM-SHA-256"), plain_users=users, session_ms_max=session_ms_max)
    return SaslSession(told, lambda user, mechanism: None, lambda: "nonce")


def test_a_session_expires_and_is_reauthenticated_only_by_the_same_user_and_mechanism() -> None:
    logged_in = session(5000)
    assert not logged_in.begin("GSSAPI", 1)
    assert logged_in.begin("PLAIN", 1)
    assert logged_in.evaluate(plain_message("alice", "a"), 100.0, 0) == (b"", 5000)
    assert (logged_in.has_ended(104.9), logged_in.has_ended(105.0)) == (False, True)
    assert logged_in.begin("PLAIN", 1)
    assert logged_in.evaluate(plain_message("alice", "a"), 104.0, 0) == (b"", 5000)
    assert not logged_in.has_ended(108.9)
    with pytest.raises(SaslRefused, match="not supported for re-authentication"):
        logged_in.begin("SCRAM-SHA-256", 1)
    assert logged_in.begin("PLAIN", 1)
    with pytest.raises(SaslRefused, match="Cannot change principals"):
        logged_in.evaluate(plain_message("bob", "b"), 105.0, 0)


def test_jaas_is_parsed_as_by_java() -> None:
    text = f"""{PLAIN_MODULE} required username="ad;min" password='p"w' user_alice="a\\"=b" serviceName=kafka ;"""
    login = parse_jaas(text)
    assert login.module == PLAIN_MODULE
    assert login.options == {"username": "ad;min", "password": 'p"w', "user_alice": 'a"=b', "serviceName": "kafka"}
    assert login.users == {"alice": 'a"=b'}
    assert "p" + '"w' not in repr(login)


@pytest.mark.parametrize(
    "text",
    ["", "x", "x required", "x maybe;", 'x required a="secret"', 'x required a="secret;', 'x required a "secret";',
     'x required a="1" a="2";', "x required; y required;", "= required;", 'x required a=;'],
)  # fmt: skip
def test_an_invalid_login_module_is_rejected_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"it |option ") as refused:
        parse_jaas(text)
    assert "secret" not in str(refused.value)


KEYS = st.text(st.sampled_from("abcXYZ019_-.$"), min_size=1, max_size=12)
VALUES = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@settings(max_examples=1000 if SOAK else 100)
@given(st.dictionaries(KEYS, VALUES, max_size=5), st.sampled_from("\"'"))
def test_any_quoted_text_is_read_back(options: dict[str, str], quote: str) -> None:
    """Backslashes and the quotation mark itself need a backslash, nothing else."""
    quoted = {
        key: quote + value.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote for key, value in options.items()
    }
    text = " ".join(["x required", *(f"{key}={value}" for key, value in quoted.items())]) + ";"
    assert parse_jaas(text) == ("x", options)


@pytest.mark.parametrize("unit", ['"', "'", "\\", " ", "=", ";", "a", 'a="', 'a="b" ', '\\"', " \n"])
def test_long_invalid_texts_are_rejected_quickly(unit: str) -> None:
    for text in (unit, "x required " + unit, 'x required a="' + unit):
        with pytest.raises(ValueError, match=r"it |option "):
            parse_jaas(text + unit * (200_000 // len(unit)))


def _parse(text: str) -> object:
    return parse_jaas(text)


@given(st.text(max_size=40) | st.text(alphabet="x =;\"'\\ required", max_size=40), st.just(_parse))
def test_any_text_is_jaas_or_a_value_error(text: str, parse: Callable[[str], object]) -> None:
    try:
        parse(text)
    except ValueError:
        pass
