"""SCRAM credentials (RFC 5802, KIP-84): salt, iterations and two keys with which a server checks a password without
storing it.

As in Kafka, the UTF-8 bytes of a password are used as they are (no SASLprep).
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

ITERATIONS_DEFAULT: Final = 4096
SALT_BYTES: Final = 24


class ScramMechanism(NamedTuple):
    """The SCRAM mechanisms. `number` is the mechanism's id in records and requests (KIP-554)."""

    name: str
    number: int
    hash_name: str
    iterations_min: int = 4096
    iterations_max: int = 16384


MECHANISMS: Final = {
    each.name: each
    for each in (ScramMechanism("SCRAM-SHA-256", 1, "sha256"), ScramMechanism("SCRAM-SHA-512", 2, "sha512"))
}

BY_NUMBER: Final = {each.number: each for each in MECHANISMS.values()}


class ScramKeys(NamedTuple):
    stored_key: bytes
    server_key: bytes


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Hi() of RFC 5802. Takes milliseconds: do not call it on the loop of a node."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def keys_of(mechanism: ScramMechanism, salted: bytes) -> ScramKeys:
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    return ScramKeys(
        hashlib.new(mechanism.hash_name, client_key).digest(), hmac.digest(salted, b"Server Key", mechanism.hash_name)
    )
