"""Logging in by a delegation token: SCRAM with the token's id, and what is refused."""

from __future__ import annotations

import base64

import pytest

from kraft.metadata.image.delegation_tokens_image import DelegationToken
from kraft.security import delegation_tokens
from kraft.security.delegation_tokens import TokenCredentials, TokenLogin, hmac_of
from kraft.security.sasl.authentication import SaslSession, SaslSettings
from kraft.security.sasl.errors import SaslRefused
from kraft.security.sasl.scram import ScramClient
from kraft.security.scram_credentials import MECHANISMS, ScramMechanism

NOW = 1_000_000
TOKENS = {"t": DelegationToken("User:alice", "User:bob", (), NOW, NOW + 9000, NOW + 5000)}
MECHANISM = "SCRAM-SHA-256"


def session(tokens: TokenCredentials | None, wall_ms: int = NOW, longest_ms: int = 0) -> SaslSession:
    def login(token_id: str, mechanism: ScramMechanism) -> TokenLogin | None:
        return tokens.login(token_id, TOKENS.get(token_id), mechanism, wall_ms) if tokens else None

    told = SaslSettings(mechanisms=(MECHANISM,), session_ms_max=longest_ms)
    return SaslSession(told, lambda user, mechanism: None, lambda: "server", login)


def log_in(to: SaslSession, token_id: str = "t", secret: str = "s", wall_ms: int = NOW) -> int:
    """How long the session lasts."""
    assert to.begin(MECHANISM, 1)
    client = ScramClient(MECHANISMS[MECHANISM], token_id, "client", by_token=True)
    challenge = client.challenge(to.evaluate(client.first(), 0.0, wall_ms)[0])
    password = base64.b64encode(hmac_of(secret, token_id)).decode()
    answer, lasts = to.evaluate(client.final(client.salt(password, challenge)), 0.0, wall_ms)
    client.finish(answer)
    return lasts


def test_a_token_login_is_its_owner_until_the_token_expires() -> None:
    door = session(TokenCredentials("s"))
    assert log_in(door) == 5000
    assert (door.user, door.by_token) == ("alice", True)
    assert not door.has_ended(4.9)
    assert door.has_ended(5.0)


@pytest.mark.parametrize(("longest_ms", "lasts"), [(0, 5000), (4000, 4000), (9000, 5000)])
def test_a_listener_can_end_sessions_earlier(longest_ms: int, lasts: int) -> None:
    assert log_in(session(TokenCredentials("s"), longest_ms=longest_ms)) == lasts


@pytest.mark.parametrize(
    ("token_id", "secret", "wall_ms"),
    [("u", "s", NOW), ("t", "guess", NOW), ("t", "s", NOW + 5001), ("alice", "s", NOW)],
)
def test_unknown_wrong_and_expired_tokens_are_rejected(token_id: str, secret: str, wall_ms: int) -> None:
    door = session(TokenCredentials("s"), wall_ms)
    with pytest.raises(SaslRefused, match="invalid credentials"):
        log_in(door, token_id, secret, wall_ms)
    assert door.user is None


def test_a_token_that_expires_during_its_login_is_rejected() -> None:
    door = session(TokenCredentials("s"))
    with pytest.raises(SaslRefused, match="has expired"):
        log_in(door, wall_ms=NOW + 5000)
    assert (door.user, door.by_token) == (None, False)


def test_a_token_login_is_rejected_where_tokens_are_disabled() -> None:
    with pytest.raises(SaslRefused, match="invalid credentials"):
        log_in(session(None))


def test_token_credentials_are_cached_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "CREDENTIALS_MAX", 2)
    known, mechanism = TokenCredentials("s"), MECHANISMS[MECHANISM]

    def credential(token_id: str) -> object:
        login = known.login(token_id, TOKENS["t"], mechanism, NOW)
        assert login is not None
        return login.credential

    first, second = credential("a"), credential("b")
    assert credential("a") is first
    credential("c")
    assert credential("a") is first
    assert credential("b") is not second, "it was forgotten"
    assert credential("b") == second
    assert first != second, "each has a salt of its own"
