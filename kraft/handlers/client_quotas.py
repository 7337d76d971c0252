"""DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft.common.errors import ApiError
from kraft.handlers.controller_items import check_item_count
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import ASKED_BY_CONTROLLER, OnCluster
from kraft.metadata.image.client_quotas_image import QuotaEntity
from kraft.metadata.quota_keys import CLIENT_ID, IP, USER
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.alter_client_quotas_response import EntityData as AlteredEntity
from kraft.protocol.messages.alter_client_quotas_response import EntryData as AlteredEntry
from kraft.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from kraft.protocol.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kraft.security.acls import Operation
from kraft.world.steps import Steps
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

DESCRIBE = Handler(
    ApiKey.DESCRIBE_CLIENT_QUOTAS, between(0, 1), permission=OnCluster(Operation.DESCRIBE_CONFIGS, tells_why=False)
)
ALTER = Handler(ApiKey.ALTER_CLIENT_QUOTAS, between(0, 1), permission=ASKED_BY_CONTROLLER)

EXACT: Final = 0
DEFAULT: Final = 1
SPECIFIED: Final = 2
_MATCH_NAMES: Final = {DEFAULT: "MATCH_TYPE_DEFAULT", SPECIFIED: "MATCH_TYPE_SPECIFIED"}


class _Filter:
    """The entity filter of a DescribeClientQuotas request."""

    def __init__(self, request: DescribeClientQuotasRequest) -> None:
        """Raises ApiError INVALID_REQUEST or UNSUPPORTED_VERSION."""
        self._exact: dict[str, tuple[bool, str]] = {}
        self._named: set[str] = set()
        self._is_strict = request.strict
        for part in request.components:
            kind = part.entity_type
            if not kind:
                raise _invalid("Invalid empty entity type.")
            if kind in self._exact or kind in self._named:
                raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
            if kind not in (USER, CLIENT_ID, IP):
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
            if part.match_type == EXACT:
                if part.match is None:
                    raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
                self._exact[kind] = (True, part.match)
            elif part.match_type in _MATCH_NAMES:
                if part.match is not None:
                    name = _MATCH_NAMES[part.match_type]
                    raise _invalid(f"Request specified {name}, but also specified a match string.")
                if part.match_type == DEFAULT:
                    self._exact[kind] = (False, "")
                else:
                    self._named.add(kind)
            else:
                raise _invalid(f"Unknown match type {part.match_type}")
        kinds = self._exact.keys() | self._named
        if IP in kinds and len(kinds) > 1:
            raise _invalid(
                "Invalid entity filter component combination. IP filter component should not be used with user or "
                "clientId filter component."
            )

    def takes(self, entity: QuotaEntity) -> bool:
        parts = {kind: (is_named, name) for kind, is_named, name in entity}
        if self._is_strict and (len(parts) != len(self._exact) + len(self._named)):
            return False
        return all(parts.get(kind) == wanted for kind, wanted in self._exact.items()) and self._named <= parts.keys()


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


@DESCRIBE.serve
async def describe_client_quotas(
    request: DescribeClientQuotasRequest, context: RequestContext, broker: BrokerServices
) -> DescribeClientQuotasResponse:
    """Return the quotas of matching entities in this node's image. Raises ApiError INVALID_REQUEST or
    UNSUPPORTED_VERSION for an invalid filter."""
    wanted = _Filter(request)
    response = DescribeClientQuotasResponse(entries=[])
    assert response.entries is not None
    turn = Turn()
    for entity, quotas in broker.metadata.image.client_quotas.entities.items():
        if turn.is_over():
            await turn.next()
        if wanted.takes(entity):
            parts = [EntityData(entity_type=kind, entity_name=name if named else None) for kind, named, name in entity]
            values = [ValueData(key=key, value=value) for key, value in quotas.items()]
            response.entries.append(EntryData(entity=parts, values=values))
    return response


@DESCRIBE.error
def _describe_failed(
    request: DescribeClientQuotasRequest, code: int, message: str | None
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


@ALTER.serve
async def alter_client_quotas(
    request: AlterClientQuotasRequest, context: RequestContext, broker: BrokerServices
) -> AlterClientQuotasResponse:
    """Forward the request to the active controller."""
    check_item_count(sum(1 + len(entry.entity) + len(entry.ops) for entry in request.entries))
    response: AlterClientQuotasResponse = await broker.controller.forward(request, context)
    return response


@ALTER.error
def _alter_failed(
    request: AlterClientQuotasRequest, code: int, message: str | None
) -> Steps[AlterClientQuotasResponse]:
    response = AlterClientQuotasResponse()
    for entry in request.entries:
        parts = [AlteredEntity(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity]
        response.entries.append(AlteredEntry(error_code=code, error_message=message, entity=parts))
        yield None
    return response
