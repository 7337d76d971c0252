"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554). Describe returns which users have credentials,
never the credentials themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.handlers.controller_items import check_item_count
from kraft.handlers.registry import BROKER, CONTROLLER, Handler, RequestContext, between
from kraft.handlers.security.permissions import ASKED_BY_CONTROLLER, OnCluster
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from kraft.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kraft.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from kraft.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kraft.security.acls import Operation
from kraft.world.steps import Steps
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices, NodeServices

MAY_DESCRIBE = OnCluster(Operation.DESCRIBE, tells_why=False)
DESCRIBE = Handler(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, between(0, 0), permission=MAY_DESCRIBE, listeners=(BROKER,))
DESCRIBE_AT_CONTROLLER = Handler(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, between(0, 0), permission=MAY_DESCRIBE, listeners=(CONTROLLER,)
)
ALTER = Handler(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, between(0, 0), permission=ASKED_BY_CONTROLLER)


async def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: RequestContext, node: NodeServices
) -> DescribeUserScramCredentialsResponse:
    """Describe users from this node's image; without names, all users with credentials."""
    turn = Turn()
    known: dict[str, list[CredentialInfo]] = {}
    for (name, mechanism), credential in node.metadata.image.scram.credentials.items():
        known.setdefault(name, []).append(CredentialInfo(mechanism=mechanism, iterations=credential.iterations))
        if turn.is_over():
            await turn.next()
    mentions: dict[str, int] = {}
    for user in request.users or ():
        mentions[user.name] = mentions.get(user.name, 0) + 1
        if turn.is_over():
            await turn.next()
    response = DescribeUserScramCredentialsResponse()
    for name in mentions or known:
        response.results.append(_result(name, mentions.get(name, 1), known.get(name)))
        if turn.is_over():
            await turn.next()
    return response


def _failed(
    request: DescribeUserScramCredentialsRequest, code: int, message: str | None
) -> Steps[DescribeUserScramCredentialsResponse]:
    """The response with one result for each requested user. As in Apache Kafka, the results have no names."""
    response = DescribeUserScramCredentialsResponse(error_code=code, error_message=message)
    for _ in request.users or ():
        response.results.append(DescribeUserScramCredentialsResult(error_code=code, error_message=message))
        yield None
    return response


for _api in (DESCRIBE, DESCRIBE_AT_CONTROLLER):
    _api.serve(describe_user_scram_credentials)
    _api.error(_failed)


def _result(name: str, mentions: int, infos: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=name, error_message=None)
    if mentions > 1:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    elif infos is None:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
    else:
        result.credential_infos = infos
    return result


@ALTER.serve
async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: RequestContext, broker: BrokerServices
) -> AlterUserScramCredentialsResponse:
    """Forward the request to the active controller."""
    check_item_count(len(request.upsertions) + len(request.deletions))
    response: AlterUserScramCredentialsResponse = await broker.controller.forward(request, context)
    return response


@ALTER.error
def _alter_failed(
    request: AlterUserScramCredentialsRequest, code: int, message: str | None
) -> Steps[AlterUserScramCredentialsResponse]:
    response = AlterUserScramCredentialsResponse()
    names = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    for name in dict.fromkeys(names):
        response.results.append(AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message))
        yield None
    return response
