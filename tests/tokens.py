"""An authority that signs tokens, for tests: its keys, and the document in which it publishes them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa


class Authority:
    """One RSA key (`first`) and one on a curve (`second`)."""

    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
        self.curve = ec.generate_private_key(ec.SECP256R1())

    @property
    def jwks(self) -> str:
        rsa_key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.rsa.public_key()))
        curve_key = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.curve.public_key()))
        named = {"use": "sig"}
        return json.dumps({"keys": [{**rsa_key, **named, "kid": "first"}, {**curve_key, **named, "kid": "second"}]})

    def sign(self, now: float, *, algorithm: str = "RS256", header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token of alice that ends after five minutes, unless `claims` say otherwise. None drops a claim."""
        told = {"sub": "alice", "iat": now, "exp": now + 300, **claims}
        key, key_id = (self.curve, "second") if algorithm.startswith("ES") else (self.rsa, "first")
        kept = {name: value for name, value in told.items() if value is not None}
        return jwt.encode(kept, key, algorithm, {"kid": key_id} if header is None else header)


@cache
def authority() -> Authority:
    return Authority()


@cache
def stranger() -> Authority:
    return Authority()
