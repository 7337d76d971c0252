"""`--add-scram 'SCRAM-SHA-256=[name=alice,password=..]'`: Kafka's option for a credential at format (KIP-900), with
Kafka's rules and messages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from kraft.common.errors import ConfigurationError
from kraft.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from kraft.security.scram_credentials import (
    ITERATIONS_DEFAULT,
    MECHANISMS,
    SALT_BYTES,
    ScramMechanism,
    keys_of,
    salted_password,
)
from kraft.world.ports import Randomness

FIELDS = ("name", "salt", "iterations", "password", "saltedpassword")


def parse_scram_credentials(arguments: Sequence[str], random: Randomness) -> list[UserScramCredentialRecord]:
    """The records of all arguments, in order; a missing salt is generated. Raises ConfigurationError with every
    problem."""
    records, problems = [], []
    for argument in arguments:
        try:
            mechanism, fields = _split(argument.strip())
            records.append(_record(mechanism, fields, random))
        except ValueError as problem:
            problems.append(f"--add-scram: {problem}")
    if problems:
        raise ConfigurationError(problems)
    return records


def _split(argument: str) -> tuple[ScramMechanism, dict[str, str]]:
    """The mechanism and its settings. Raises ValueError."""
    name, equals, settings = argument.partition("=")
    if not equals:
        raise ValueError("Failed to find equals sign in SCRAM argument: expected MECHANISM=[name=..,password=..]")
    mechanism = MECHANISMS.get(name)
    if mechanism is None:
        raise ValueError(f"The add-scram mechanism {name} is not supported; supported are {' and '.join(MECHANISMS)}.")
    if not (settings.startswith("[") and settings.endswith("]")):
        raise ValueError("Expected configuration string to start with [ and to end with ]")
    fields = {}
    for component in settings[1:-1].split(","):
        key, equals, value = component.partition("=")
        if not equals:
            raise ValueError(
                "No equals sign found in a SCRAM component; settings are separated by commas, so none may hold one"
            )
        fields[key] = value[1:-1] if len(value) >= 2 and value[0] == value[-1] == '"' else value
    return mechanism, fields


def _record(mechanism: ScramMechanism, fields: dict[str, str], random: Randomness) -> UserScramCredentialRecord:
    if "name" not in fields:
        raise ValueError("You must supply 'name' to add-scram")
    salt = _bytes_of(fields, "salt")
    iterations = _iterations(mechanism, fields.get("iterations"))
    if "password" not in fields and "saltedpassword" not in fields:
        raise ValueError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if "password" not in fields and salt is None:
        raise ValueError("You must supply 'salt' with 'saltedpassword' to add-scram")
    unknown = sorted(
        {key for key in fields if key not in FIELDS}
        | ({"saltedpassword"} if {"password", "saltedpassword"} <= fields.keys() else set())
    )
    if unknown:
        raise ValueError(f"Unknown SCRAM configurations: {', '.join(unknown)}")
    if salt is None:
        salt = random.stream("scram-salt").randbytes(SALT_BYTES)
    salted = _bytes_of(fields, "saltedpassword")
    if salted is None:
        salted = salted_password(mechanism, fields["password"], salt, iterations)
    keys = keys_of(mechanism, salted)
    return UserScramCredentialRecord(
        name=fields["name"], mechanism=mechanism.number, salt=salt, iterations=iterations, **keys._asdict()
    )


def _bytes_of(fields: dict[str, str], key: str) -> bytes | None:
    try:
        return base64.b64decode(fields[key], validate=True) if key in fields else None
    except binascii.Error as problem:
        raise ValueError(f"Failed to decode given {key}: expected base64") from problem


def _iterations(mechanism: ScramMechanism, text: str | None) -> int:
    try:
        count = ITERATIONS_DEFAULT if text is None else int(text)
    except ValueError as problem:
        raise ValueError(f"Failed to parse iterations count: {text}") from problem
    if not mechanism.iterations_min <= count <= mechanism.iterations_max:
        bounds = f">= {mechanism.iterations_min} and <= {mechanism.iterations_max}"
        raise ValueError(f"The 'iterations' value must be {bounds} for add-scram using {mechanism.name}")
    return count
