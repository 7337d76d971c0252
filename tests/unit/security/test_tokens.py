"""Which tokens are taken, and that whatever else comes is a refused login and nothing worse."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from kraft.security.sasl.errors import SaslRefused
from kraft.security.sasl.oauthbearer import INVALID_TOKEN, OAuthBearerServer
from kraft.security.tokens import KEYS_MAX, Token, TokenRefused, TokenRules, check_token, key_id_of, parse_jwks
from tests.tokens import authority, stranger

NOW = 1_800_000_000
KEYS = parse_jwks(authority().jwks.encode())
RULES = TokenRules(issuer="https://issuer", audiences=("kafka", "other"))


def token(**claims: Any) -> str:
    return authority().sign(NOW, **{"iss": "https://issuer", "aud": "kafka", **claims})


def check(text: str, rules: TokenRules = RULES, now: float = NOW) -> Token:
    return check_token(text, KEYS, rules, int(now * 1000))


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def message(text: str, authorization: str = "") -> bytes:
    return f"n,{authorization},\x01auth=Bearer {text}\x01\x01".encode()


def server(rules: TokenRules = RULES) -> OAuthBearerServer:
    return OAuthBearerServer(lambda text: check(text, rules))


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256"])
def test_a_token_of_the_authority_is_accepted(algorithm: str) -> None:
    end = NOW + 300
    expected = Token(
        subject="alice", expires_at_ms=end * 1000, taken_until_ms=(end + 30) * 1000, scopes=("read", "write")
    )
    assert check(token(algorithm=algorithm, scope="read write")) == expected
    assert check(token(algorithm=algorithm, scope="read write", header={})) == expected


def test_claims_have_the_configured_names() -> None:
    rules = TokenRules(subject_claim="client_id", scope_claim="scp")
    found = check(token(aud=None, client_id=" kate ", scp=["a", 1, "b"]), rules)
    assert (found.subject, found.scopes) == ("kate", ("a", "b"))


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW - 30}, "has expired"),
        ({"exp": None}, "no exp or no iat"),
        ({"iat": None}, "no exp or no iat"),
        ({"exp": "soon"}, None),
        ({"exp": 2.0**60}, "exp is no time"),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"exp": NOW - 1}, "ends before it begins"),
        ({"exp": NOW + 5, "nbf": NOW + 6}, "ends before it begins"),
        ({"iss": "https://other"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "elsewhere"}, "another audience"),
        ({"aud": ["elsewhere"]}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"sub": None}, "no subject"),
        ({"sub": "  "}, "no subject"),
    ],
)
def test_a_token_with_a_wrong_claim_is_rejected(claims: dict[str, Any], reason: str | None) -> None:
    with pytest.raises(TokenRefused, match=reason):
        check(token(**claims))


def test_clocks_can_differ_by_the_allowed_skew() -> None:
    assert check(token(exp=NOW - 29, iat=NOW - 60)).subject == check(token(nbf=NOW + 30)).subject
    with pytest.raises(TokenRefused, match="expired"):
        check(token(exp=NOW - 29, iat=0), TokenRules(audiences=("kafka",), clock_skew_seconds=0))


def test_a_token_with_an_audience_is_rejected_where_none_is_expected() -> None:
    assert check(token(aud=None), TokenRules()).subject == "alice"
    with pytest.raises(TokenRefused, match="another audience"):
        check(token(), TokenRules())


def test_unsigned_and_foreign_tokens_are_rejected() -> None:
    good = token()
    header, claims, signature = good.split(".")
    shared = jwt.encode({"sub": "alice", "exp": NOW + 9, "iat": NOW}, "x" * 64, "HS256")
    for text, reason in (
        (f"{part({'alg': 'none'})}.{claims}.", "not signed by one of"),
        (f"{part({'alg': 'nOnE'})}.{claims}.{signature}", "not signed by one of"),
        (f"{part({'alg': 'RS256', 'crit': ['x']})}.{claims}.{signature}", "demands extensions|not a signed"),
        (shared, "not signed by one of"),
        (f"{header}.{part({'sub': 'admin', 'exp': NOW + 9, 'iat': NOW})}.{signature}", "no key of the authority"),
        (stranger().sign(NOW), "no key of the authority"),
        (token(header={"kid": "second"}), "no key of the authority"),
        ("x" * 70_000, "more than 65536 characters"),
        ("", "not a signed JSON Web Token"),
    ):
        with pytest.raises(TokenRefused, match=reason) as refused:
            check(text)
        assert "alice" not in str(refused.value)


@given(
    st.one_of(
        st.text(st.characters(max_codepoint=255), max_size=200),
        st.builds(
            lambda header, claims, signature: f"{part(header)}.{part(claims)}.{signature}",
            st.dictionaries(
                st.sampled_from(["alg", "kid", "typ", "b64", "crit", "zip"]), st.from_type(object).map(str)
            ),
            st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5),
            st.sampled_from(["", "AAAA", "===="]),
        ),
        st.builds(
            lambda position, letter: token()[:position] + letter + token()[position + 1 :],
            st.integers(0, 400),
            st.sampled_from("AB.-_=\x00é"),
        ),
    )
)
def test_an_arbitrary_or_damaged_token_is_refused_without_another_error(text: str) -> None:
    good = token()
    if text == good:
        return
    key_id_of(text)
    try:
        found = check(text)
    except TokenRefused:
        pass
    else:  # Base64 has letters whose last bits count for nothing.
        assert found == check(good)
    one = server()
    try:
        answer = one.evaluate(f"n,,\x01auth=Bearer {text}\x01\x01".encode("latin-1", "replace"))
        assert answer in (INVALID_TOKEN.encode(), b"")
    except SaslRefused:
        pass


CLAIM = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.text(max_size=3))


@given(st.dictionaries(st.sampled_from(["sub", "exp", "iat", "nbf", "iss", "aud", "scope"]), CLAIM))
def test_any_signed_claims_log_in_or_are_rejected(claims: dict[str, Any]) -> None:
    payload = json.dumps(claims).encode()
    text = jwt.PyJWS().encode(payload, authority().curve, "ES256", {"kid": "second"})
    try:
        found = check(text, TokenRules())
    except TokenRefused:
        return
    assert claims["exp"] > NOW - 30
    assert found.subject == claims["sub"].strip()


def test_another_scheme_is_rejected() -> None:
    """Kafka closes the connection without an answer."""
    with pytest.raises(SaslRefused, match="invalid credentials"):
        server().evaluate(b"n,,\x01auth=Basic abc\x01\x01")


@given(
    st.binary(max_size=100) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(part).map(str.encode)
)
def test_a_first_message_is_parsed_or_rejected(data: bytes) -> None:
    for text in (data, b"n,," + data, b"n,,\x01auth=" + data + b"\x01\x01", message("x") + data):
        try:
            assert server().evaluate(text) == INVALID_TOKEN.encode()
        except SaslRefused as refused:
            assert "invalid credentials with SASL mechanism OAUTHBEARER" in str(refused)  # noqa: PT017


def test_the_exchange_equals_kafkas() -> None:
    taken = server()
    assert taken.evaluate(message(token())) == b""
    assert (taken.user, taken.expires_at_ms) == ("alice", (NOW + 300) * 1000)
    extended = server()
    assert extended.evaluate(f"n,a=alice,\x01auth=Bearer {token()}\x01traceId=1 2\x01\x01".encode()) == b""
    refused = server()
    assert refused.evaluate(message(token(exp=NOW - 100))) == INVALID_TOKEN.encode()
    with pytest.raises(SaslRefused) as left:
        refused.evaluate(b"\x01")
    assert (str(left.value), left.value.reason, refused.user) == (INVALID_TOKEN, "the token has expired", None)
    with pytest.raises(SaslRefused, match=r"authorization id \(bo,b\) that is different from the token's .* \(alice\)"):
        server().evaluate(message(token(), "a=bo=2Cb"))


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", 'no list "keys"'),
        (b'{"keys": []}', "no public key"),
        (json.dumps({"keys": [{}] * (KEYS_MAX + 1)}).encode(), "more than 64 keys"),
        (b'{"keys": [1, {"kty": "oct", "k": "AAAA"}, {"kty": "RSA", "n": "!", "e": 5}]}', "no public key"),
    ],
)
def test_a_key_document_without_keys_is_rejected(document: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_jwks(document)


def test_untrustworthy_keys_are_skipped() -> None:
    entries = json.loads(authority().jwks)["keys"]
    weak = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(rsa.generate_private_key(65_537, 1024).public_key()))
    private = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(authority().rsa))
    foreign = [{**entries[0], "use": "enc"}, {**entries[0], "alg": "HS256"}, weak, private, {**entries[0], "kid": 7}]
    [kept] = parse_jwks(json.dumps({"keys": [*foreign, {**entries[0], "alg": "RS512"}]}).encode())
    assert (kept.key_id, kept.algorithms) == ("first", ("RS512",))
