"""Signed tokens with claims of all kinds, at all times: every answer against a model that reads the claims.

A seed is one listener's rules and some tokens.
`python -m tests.properties.token_decisions --these SEED...` runs seeds, and says in a line of JSON what came of each.
"""

from __future__ import annotations

import random
import sys
from typing import Any, Final

from kraft.security.tokens import TokenRefused, TokenRules, check_token, parse_jwks
from tests.properties.seeds import run_seeds
from tests.tokens import authority, stranger

TOKENS_A_SEED: Final = 20
NOW: Final = 1_800_000_000
TIMES: Final = (None, NOW - 1000, NOW - 31, NOW - 30, NOW - 29, NOW - 1, NOW, NOW + 1, NOW + 30, NOW + 31, NOW + 1000)
ISSUERS: Final = (None, "https://a", "https://b")
AUDIENCES: Final = (None, "kafka", "other", ["other"], ["other", "kafka"])
SKEWS: Final = (0, 30)


def random_claims(draw: random.Random) -> dict[str, Any]:
    good = {"sub": "alice", "iat": NOW - 2000, "exp": NOW + 1000, "iss": "https://a", "aud": "kafka"}
    changes = {
        "exp": draw.choice(TIMES),
        "nbf": draw.choice(TIMES),
        "iat": draw.choice((None, NOW - 2000, NOW - 10)),
        "iss": draw.choice(ISSUERS),
        "aud": draw.choice(AUDIENCES),
        "sub": draw.choice((None, "bob", " ")),
    }
    return {**good, **{name: changes[name] for name in draw.sample(sorted(changes), draw.randrange(3))}}


def random_rules(draw: random.Random) -> TokenRules:
    return TokenRules(
        issuer=draw.choice((None, "https://a")),
        audiences=draw.choice(((), ("kafka",), ("kafka", "more"))),
        clock_skew_seconds=draw.choice(SKEWS),
    )


def expected(claims: dict[str, Any], rules: TokenRules) -> str | None:
    """Who is let in, as RFC 7519 and KIP-768 have it."""
    ends, began, starts = (claims.get(name) for name in ("exp", "iat", "nbf"))
    if ends is None or began is None or ends <= NOW - rules.clock_skew_seconds or ends < max(began, starts or 0):
        return None
    if starts is not None and starts > NOW + rules.clock_skew_seconds:
        return None
    told = claims.get("aud")
    audiences = [told] if isinstance(told, str) else told or []
    if (audiences or rules.audiences) and not set(audiences) & set(rules.audiences):
        return None
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        return None
    return (claims.get("sub") or "").strip() or None


def disagreement(draw: random.Random) -> str:
    """The first answer that is not the model's; empty where there is none."""
    keys, rules = parse_jwks(authority().jwks.encode()), random_rules(draw)
    for _ in range(TOKENS_A_SEED):
        claims, is_own = random_claims(draw), draw.random() < 0.9
        signer, algorithm = authority() if is_own else stranger(), draw.choice(("RS256", "ES256"))
        wanted = expected(claims, rules) if is_own else None
        try:
            found = check_token(signer.sign(NOW, algorithm=algorithm, **claims), keys, rules, NOW * 1000).subject
        except TokenRefused:
            found = None
        if found != wanted:
            return f"{claims} by {rules}, own {is_own}: {found} is let in, and should be {wanted}"
    return ""


def violation_of(seed: int) -> str:
    """Empty where the law holds."""
    violation = disagreement(random.Random(seed))
    return f"tokens: {violation}" if violation else ""


if __name__ == "__main__":
    sys.exit(run_seeds("token_decisions", __doc__, violation_of))
