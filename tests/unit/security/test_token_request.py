"""How a client asks for its token, what it makes of the answer, and when it asks again."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kraft.security.sasl.jaas import parse_jaas
from kraft.security.sasl.oauthbearer import OAUTHBEARER_MODULE, OAuthBearerServer, bearer_message
from kraft.security.tls import TlsSettings
from kraft.security.token_request import (
    LOGIN_HANDLER,
    ClientToken,
    NoToken,
    RefreshRules,
    TokenEndpoint,
    due_at_ms,
    read_endpoint,
    read_token,
    request_body,
    request_headers,
    token_in_answer,
)
from kraft.security.tokens import Token
from tests.tokens import authority

NOW = 1_800_000_000
URL = {"sasl.oauthbearer.token.endpoint.url": "https://issuer/token"}
CREDENTIALS = {
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.credentials.client.secret": "a secret&",
}
TRUST = {"ssl.truststore.location": "nodes.pem"}


def endpoint(options: str = "", **changes: str) -> TokenEndpoint:
    values = {**URL, **{name.replace("__", "."): text for name, text in changes.items()}}
    jaas = parse_jaas(f"{OAUTHBEARER_MODULE} required {options};")
    return read_endpoint(values.get, jaas.options, TRUST)


def test_config_keys_override_the_options_of_the_jaas_text() -> None:
    by_keys = read_endpoint({**URL, **CREDENTIALS, "sasl.oauthbearer.scope": "a b"}.get, {"clientId": "you"}, TRUST)
    assert (by_keys.client_id, by_keys.client_secret, by_keys.scope) == ("me", "a secret&", "a b")
    assert by_keys.tls == TlsSettings(values=TRUST, is_server=False, prefix="sasl.oauthbearer.token.endpoint.url: ")
    by_options = endpoint(
        'clientId="you" clientSecret="s" scope="c" extension_logicalCluster="lkc" ssl.key.password="p"'
    )
    assert (by_options.client_id, by_options.client_secret, by_options.scope) == ("you", "s", "c")
    assert by_options.extensions == {"logicalCluster": "lkc"}
    assert by_options.tls.values == {"ssl.key.password": "p"}
    assert "secret" not in repr(by_keys)
    assert by_keys.path is None


def test_the_token_request_is_the_client_credentials_grant() -> None:
    asks = read_endpoint({**URL, **CREDENTIALS, "sasl.oauthbearer.scope": "a b"}.get, {}, {})
    assert request_body(asks) == b"grant_type=client_credentials&scope=a+b"
    told = dict(request_headers(asks))
    assert base64.b64decode(told["Authorization"].removeprefix("Basic ")) == b"me:a secret&"
    assert told["Content-Type"] == "application/x-www-form-urlencoded"
    encoded = read_endpoint({**URL, **CREDENTIALS, "sasl.oauthbearer.header.urlencode": "true"}.get, {}, {})
    told = dict(request_headers(encoded))
    assert base64.b64decode(told["Authorization"].removeprefix("Basic ")) == b"me:a+secret%26"
    assert request_body(encoded) == b"grant_type=client_credentials"


def test_a_token_in_a_file_needs_no_credentials() -> None:
    assert endpoint(sasl__oauthbearer__token__endpoint__url="file:///run/a%20token").path == "/run/a token"


@pytest.mark.parametrize(
    ("options", "changes", "sentence"),
    [
        ("", {}, "client.id and .secret are missing"),
        ('clientId="a"', {}, "client.id and .secret are missing"),
        ("", {"sasl__oauthbearer__token__endpoint__url": "ftp://issuer"}, "has to name where tokens come from"),
        ("", {"sasl__oauthbearer__token__endpoint__url": "https://a:b@issuer"}, "has to name where tokens come from"),
        ('unsecuredLoginStringClaim_sub="alice"', {}, "unsecuredLoginStringClaim_sub is not known here"),
        ("", {"sasl__login__callback__handler__class": "a.B"}, f"only {LOGIN_HANDLER} is known"),
        ('clientId="a" clientSecret="b" extension_auth="x"', {}, "extension_auth cannot be sent"),
        ('clientId="a" clientSecret="b" extension_a1="x"', {}, "extension_a1 cannot be sent"),
        ('clientId="a" clientSecret="b"', {"sasl__login__read__timeout__ms": "soon"}, "soon is not a number"),
        ('clientId="a" clientSecret="b"', {"sasl__login__refresh__window__factor": "3"}, "not within 0.5 and 1"),
    ],
)
def test_unusable_token_settings_are_rejected_with_one_sentence(
    options: str, changes: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        endpoint(options, **changes)


def test_a_server_accepts_the_clients_message() -> None:
    seen: list[str] = []

    def check(text: str) -> Token:
        seen.append(text)
        return Token(subject="alice", expires_at_ms=1, taken_until_ms=1)

    server = OAuthBearerServer(check)
    assert server.evaluate(bearer_message("a.b.c", {"traceId": "7"})) == b""
    assert (seen, server.user) == (["a.b.c"], "alice")


def test_the_token_response_has_an_access_token_or_an_id_token() -> None:
    assert token_in_answer(200, b'{"access_token": "a.b.c", "id_token": "x"}') == "a.b.c"
    assert token_in_answer(201, b'{"id_token": "d.e.f"}') == "d.e.f"


@pytest.mark.parametrize(
    ("status", "body", "sentence", "is_final"),
    [
        (401, b'{"error": "invalid_client", "error_description": "secret"}', r"401 \(invalid_client\)$", True),
        (401, b'{"error": "Secret 7"}', "status 401$", True),
        (503, b"<html>", "status 503$", False),
        (429, b"", "status 429$", False),
        (408, b"", "status 408$", False),
        (200, b"[1]", "no access_token", True),
        (200, b'{"access_token": " "}', "no access_token", True),
        (200, b"[" * 100_000, "no access_token", True),
    ],
)
def test_a_token_response_without_a_token_is_reported(status: int, body: bytes, sentence: str, is_final: bool) -> None:
    with pytest.raises(NoToken, match=sentence) as caught:
        token_in_answer(status, body)
    assert caught.value.is_final == is_final


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_a_token_is_read_without_validation() -> None:
    text = authority().sign(NOW, sub=" alice ")
    read = read_token(f"{text}\n", "sub", NOW * 1000)
    assert read == ClientToken(text=text, subject="alice", issued_at_ms=NOW * 1000, expires_at_ms=(NOW + 300) * 1000)
    assert text not in repr(read)
    assert read_token(f"e30.{part({'exp': NOW, 'id': 'bob'})}.x", "id", 0).issued_at_ms is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nonsense", "three parts"),
        ("a..c", "three parts"),
        ("a.b.c", "claims cannot be read"),
        (f"e30.{part([1])}.x", "claims cannot be read"),
        (f"e30.{part({'sub': 'a'})}.x", "no time at which it expires"),
        (f"e30.{part({'sub': 'a', 'exp': True})}.x", "no time at which it expires"),
        (f"e30.{part({'sub': 'a', 'exp': 2**60})}.x", "no time at which it expires"),
        (f"e30.{part({'exp': NOW + 1})}.x", r"names nobody \(sub\)"),
        (f"e30.{part({'sub': 'a', 'exp': NOW})}.x", "has expired already"),
    ],
)
def test_an_invalid_token_is_reported(text: str, sentence: str) -> None:
    with pytest.raises(NoToken, match=sentence):
        read_token(text, "sub", NOW * 1000)


@pytest.mark.parametrize(
    ("lives", "chance", "due"),
    [
        (3600, 0.0, 2880),
        (3600, 1.0, 3060),
        (1000, 0.0, 700),  # The buffer at its end.
        (100, 0.0, 80),  # Too short for both buffers.
        (400, 0.0, 100),
    ],
)
def test_the_refresh_time_of_a_token_equals_kafkas(lives: int, chance: float, due: int) -> None:
    token = ClientToken(text="", subject="a", issued_at_ms=0, expires_at_ms=lives * 1000)
    assert due_at_ms(token, RefreshRules(), 0, chance) == due * 1000


def test_a_new_token_close_to_its_refresh_time_is_kept_for_a_while() -> None:
    token = ClientToken(text="", subject="a", issued_at_ms=0, expires_at_ms=3_600_000)
    assert due_at_ms(token, RefreshRules(), 3_200_000, 0.0) == 3_260_000
    unknown: dict[str, Any] = {"text": "", "subject": "a", "issued_at_ms": None}
    assert due_at_ms(ClientToken(**unknown, expires_at_ms=3_600_000), RefreshRules(), 1_600_000, 0.0) == 3_200_000
