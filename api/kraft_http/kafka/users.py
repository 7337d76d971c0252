"""Users with SCRAM credentials."""

from __future__ import annotations

from typing import Final

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kraft.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from kraft.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from kraft.protocol.messages.describe_user_scram_credentials_response import DescribeUserScramCredentialsResponse
from kraft.security.scram_credentials import MECHANISMS
from kraft_http.kafka.client import Kafka, raise_for

_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


async def describe_users(kafka: Kafka) -> dict[str, dict[str, int]]:
    """Iterations by mechanism of every user, by name. Raises KafkaProblem."""
    response = await kafka.ask(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        DescribeUserScramCredentialsRequest(users=None),
        DescribeUserScramCredentialsResponse,
    )
    raise_for(response.error_code, response.error_message)
    return {
        result.user: {
            _MECHANISMS.get(info.mechanism, str(info.mechanism)): info.iterations
            for info in sorted(result.credential_infos, key=lambda info: info.mechanism)
        }
        for result in sorted(response.results, key=lambda result: result.user)
        if result.error_code == 0
    }


async def put_user(kafka: Kafka, user: str, password: str, mechanism: str, iterations: int) -> None:
    """Give a user a password of one mechanism. It is hashed on this node. Raises KafkaProblem."""
    known = MECHANISMS[mechanism]
    salt, salted = await kafka.port.salted_password(known, password, iterations)
    change = ScramCredentialUpsertion(
        name=user, mechanism=known.number, iterations=iterations, salt=salt, salted_password=salted
    )
    await _alter(kafka, AlterUserScramCredentialsRequest(upsertions=[change]))


async def delete_user(kafka: Kafka, user: str, mechanism: str) -> None:
    """Take a user's password of one mechanism. Raises KafkaProblem."""
    change = ScramCredentialDeletion(name=user, mechanism=MECHANISMS[mechanism].number)
    await _alter(kafka, AlterUserScramCredentialsRequest(deletions=[change]))


async def _alter(kafka: Kafka, request: AlterUserScramCredentialsRequest) -> None:
    response = await kafka.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request, AlterUserScramCredentialsResponse)
    for result in response.results:
        raise_for(result.error_code, result.error_message)
