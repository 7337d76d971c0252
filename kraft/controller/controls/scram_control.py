"""AlterUserScramCredentials (KIP-554). Each user is changed or refused independently. All changes are written in one
batch."""

from __future__ import annotations

from typing import Any

from kraft.common.errors import ApiError
from kraft.controller.controller_result import ControllerResult, check_operation_size
from kraft.controller.controller_view import ControllerView
from kraft.metadata.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kraft.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kraft.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kraft.security.scram_credentials import BY_NUMBER, ScramMechanism, keys_of


def alter_user_scram_credentials(
    view: ControllerView, request: AlterUserScramCredentialsRequest
) -> ControllerResult[AlterUserScramCredentialsResponse]:
    """Return the records and the response for AlterUserScramCredentials. Raises ApiError POLICY_VIOLATION for more
    records than one operation may write."""
    records: dict[str, list[Any]] = {}
    refused: dict[str, ApiError] = {}
    change: Any
    for change in (*request.deletions, *request.upsertions):
        mine = records.setdefault(change.name, [])
        if change.name in refused:
            continue
        try:
            if mine:  # As in Kafka, one change per user, whatever the mechanism.
                raise ApiError(
                    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
            if not view.capabilities.serves_scram:
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
            mine.append(_record(view, change))
        except ApiError as problem:
            refused[change.name] = problem
    taken = [record for name, mine in records.items() if name not in refused for record in mine]
    check_operation_size(taken)
    return ControllerResult(taken, _answer(records, refused), atomic=True)


def _answer(names: dict[str, list[Any]], refused: dict[str, ApiError]) -> AlterUserScramCredentialsResponse:
    response = AlterUserScramCredentialsResponse()
    for name in names:
        problem = refused.get(name)
        response.results.append(
            AlterUserScramCredentialsResult(
                user=name,
                error_code=0 if problem is None else problem.code,
                error_message=None if problem is None else problem.message,
            )
        )
    return response


def _record(view: ControllerView, change: Any) -> Any:
    """Return the record that sets or removes one credential. Raises ApiError."""
    if not change.name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = BY_NUMBER.get(change.mechanism)
    if mechanism is None:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialUpsertion):
        return _put(change, mechanism)
    if view.image.scram.credentials.get((change.name, change.mechanism)) is None:
        raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)


def _put(change: ScramCredentialUpsertion, mechanism: ScramMechanism) -> UserScramCredentialRecord:
    if change.iterations < mechanism.iterations_min:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > mechanism.iterations_max:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not change.salted_password:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")
    keys = keys_of(mechanism, bytes(change.salted_password))
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=bytes(change.salt),
        iterations=change.iterations,
        **keys._asdict(),
    )
