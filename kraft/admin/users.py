"""Users who authenticate by SCRAM (KIP-554): list them, set and delete their passwords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kraft.admin.errors import check
from kraft.admin.transport import AdminTransport
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kraft.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from kraft.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kraft.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kraft.security.scram_credentials import BY_NUMBER, ITERATIONS_DEFAULT, ScramMechanism


@dataclass(frozen=True, slots=True)
class User:
    """A user with SCRAM credentials. The password itself is stored nowhere."""

    name: str
    iterations: Mapping[str, int]
    """Iterations by mechanism."""


async def describe_users(port: AdminTransport, names: Sequence[str] = ()) -> list[User]:
    """The users of `names`, or all, that have SCRAM credentials, sorted by name. Raises Refused, RESOURCE_NOT_FOUND for
    a name that has none."""
    wanted = [UserName(name=name) for name in dict.fromkeys(names)]
    request = DescribeUserScramCredentialsRequest(users=wanted or None)
    response = await port.retrying(lambda: port.ask(request, DescribeUserScramCredentialsResponse))
    check(response.error_code, "users", response.error_message)
    for result in response.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            check(result.error_code, f"user {result.user}", "there is no such user of SCRAM")
        check(result.error_code, f"user {result.user}", result.error_message)
    return sorted((_user(result) for result in response.results), key=lambda user: user.name)


def _user(described: DescribeUserScramCredentialsResult) -> User:
    infos = sorted(described.credential_infos, key=lambda info: info.mechanism)
    return User(
        described.user,
        {BY_NUMBER[info.mechanism].name: info.iterations for info in infos if info.mechanism in BY_NUMBER},
    )


async def put_user(
    port: AdminTransport,
    name: str,
    password: str,
    mechanisms: Sequence[ScramMechanism],
    iterations: int = ITERATIONS_DEFAULT,
) -> None:
    """Set a user's password, replacing an earlier one. Each mechanism needs a request of its own, since a request may
    change a user only once. The transport hashes the password; it is not sent. Raises Refused."""
    for mechanism in mechanisms:
        salt, salted = await port.salted_password(mechanism, password, iterations)
        change = ScramCredentialUpsertion(
            name=name, mechanism=mechanism.number, iterations=iterations, salt=salt, salted_password=salted
        )
        await _alter(port, name, AlterUserScramCredentialsRequest(upsertions=[change]))


async def remove_user(port: AdminTransport, name: str, mechanisms: Sequence[ScramMechanism]) -> None:
    """Delete a user's credentials of these mechanisms. Open sessions continue until they end. Raises Refused."""
    for mechanism in mechanisms:
        change = ScramCredentialDeletion(name=name, mechanism=mechanism.number)
        await _alter(port, name, AlterUserScramCredentialsRequest(deletions=[change]))


async def _alter(port: AdminTransport, name: str, request: AlterUserScramCredentialsRequest) -> None:
    async def attempt() -> None:
        for result in (await port.ask(request, AlterUserScramCredentialsResponse)).results:
            check(result.error_code, f"user {name}", result.error_message)

    await port.retrying(attempt)
