"""Users with SCRAM credentials."""

from __future__ import annotations

from typing import Final

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from kraft.protocol.messages.describe_user_scram_credentials_response import DescribeUserScramCredentialsResponse
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
