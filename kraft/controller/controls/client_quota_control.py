"""AlterClientQuotas (KIP-546). Each entity is changed or refused independently.
All changes are written in one batch."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Final

from kraft.common.errors import ApiError
from kraft.controller.controller_result import ControllerResult, check_operation_size
from kraft.controller.controller_view import ControllerView
from kraft.metadata.image.client_quotas_image import QuotaEntity, quota_entity
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.quota_keys import ADDRESS_KEYS, CLIENT_ID, CLIENT_KEYS, IP, USER, WHOLE_NUMBER_KEYS
from kraft.metadata.records.client_quota_record import ClientQuotaRecord
from kraft.metadata.records.client_quota_record import EntityData as RecordEntity
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, OpData
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.alter_client_quotas_response import EntityData as AnsweredEntity
from kraft.protocol.messages.alter_client_quotas_response import EntryData as Answer

LONG_MAX: Final = 2.0**63
_HOST_NAME: Final = re.compile(r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,62})(\.[A-Za-z0-9]([A-Za-z0-9-]{0,62}))*\.?$")


def alter_client_quotas(
    view: ControllerView, request: AlterClientQuotasRequest
) -> ControllerResult[AlterClientQuotasResponse]:
    """Return the records and the response for AlterClientQuotas. Raises ApiError POLICY_VIOLATION for more records than
    one operation may write."""
    records: list[Any] = []
    answers: dict[QuotaEntity, Answer] = {}
    for entry in request.entries:
        parts = [RecordEntity(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity]
        entity = quota_entity(parts)
        try:
            if entity in answers:
                raise _invalid(f"Ignoring duplicate entity {_shown(parts)}")
            answers[entity] = _answer(entity)
            records += _alter(view, parts, entry.ops)
        except ApiError as error:
            answers[entity].error_code, answers[entity].error_message = error.code, error.message
    check_operation_size(records)
    response = AlterClientQuotasResponse(entries=list(answers.values()))
    return ControllerResult([] if request.validate_only else records, response, atomic=True)


def _answer(entity: QuotaEntity) -> Answer:
    parts = [AnsweredEntity(entity_type=kind, entity_name=name if named else None) for kind, named, name in entity]
    return Answer(error_message=None, entity=parts)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _alter(view: ControllerView, parts: list[RecordEntity], ops: list[OpData]) -> list[Any]:
    """Return the records that change one entity; none if nothing changes. Raises ApiError INVALID_REQUEST."""
    keys = _keys_of(parts)
    now: OrderedMap[str, float] = view.image.client_quotas.entities.get(quota_entity(parts)) or OrderedMap()
    records: list[Any] = []
    altered: set[str] = set()
    for op in ops:
        if op.key in altered:
            raise _invalid(f"Quota key {op.key} appears twice: nothing is changed for {_shown(parts)}")
        altered.add(op.key)
        if op.remove:
            if op.key in now:
                records.append(ClientQuotaRecord(entity=list(parts), key=op.key, value=0.0, remove=True))
            continue
        _check_value(op, keys)
        if now.get(op.key) != op.value:
            records.append(ClientQuotaRecord(entity=list(parts), key=op.key, value=op.value, remove=False))
    return records


def _keys_of(parts: list[RecordEntity]) -> tuple[str, ...]:
    """Return the quota keys that an entity may have. Raises ApiError INVALID_REQUEST for an invalid entity."""
    if not parts:
        raise _invalid("Invalid empty client quota entity")
    kinds = [part.entity_type for part in parts]
    for part in parts:
        if part.entity_type not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {part.entity_type}")
        if part.entity_name == "":
            raise _invalid(f"Empty {part.entity_type} not supported")
        if kinds.count(part.entity_type) > 1:
            raise _invalid(f"A client quota entity has one {part.entity_type}, not several")
    if IP not in kinds:
        return CLIENT_KEYS
    if len(parts) > 1:
        raise _invalid("A quota of an IP cannot be combined with a user or a client-id")
    address = parts[0].entity_name
    if address is not None and not _may_be_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return ADDRESS_KEYS


def _may_be_address(text: str) -> bool:
    """Whether the text is an IP address or may be a host name. Kafka resolves the name here. This decision uses no
    network, so a quota of a host name applies only to connections whose address has the same text."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return bool(_HOST_NAME.match(text)) and not text.replace(".", "").isdigit()
    return True


def _check_value(op: OpData, keys: tuple[str, ...]) -> None:
    """Check a quota's key and value. Raises ApiError INVALID_REQUEST."""
    if op.key not in keys:
        raise _invalid(f"Invalid configuration key {op.key}")
    if not op.value > 0:
        raise _invalid(f"Quota {op.key} must be greater than 0")
    if op.key not in WHOLE_NUMBER_KEYS:
        return
    if op.value > LONG_MAX:
        raise _invalid(f"Proposed value for {op.key} is too large for a LONG.")
    if op.value != int(op.value):
        raise _invalid(f"{op.key} cannot be a fractional value.")


def _shown(parts: list[RecordEntity]) -> str:
    """The entity in the form in which Kafka prints it."""
    named = ", ".join(f"{part.entity_type}={part.entity_name}" for part in parts)
    return f"ClientQuotaEntity(entries={{{named}}})"
