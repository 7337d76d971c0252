"""Quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kraft.admin.errors import check
from kraft.admin.transport import AdminTransport
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from kraft.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse

EXACT, DEFAULT, SPECIFIED = range(3)
"""Match types of `DescribeClientQuotasRequest`: an entity by name, the default of its type, any entity of its type."""

Entity = Mapping[str, str | None]
"""Names by type (user, client-id, ip). None is the default of the type, which applies to names without their own
quota."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """An entity and its limits by key."""

    entity: Entity
    limits: Mapping[str, float]


async def describe_quotas(port: AdminTransport, entity: Entity) -> list[Quotas]:
    """The quotas of every entity that has the parts of `entity`; all quotas if it has none. Raises Refused."""
    components = [
        ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name)
        for kind, name in entity.items()
    ]
    request = DescribeClientQuotasRequest(components=components, strict=False)
    response = await port.retrying(lambda: port.ask(request, DescribeClientQuotasResponse))
    check(response.error_code, "quotas", response.error_message)
    found = [
        Quotas(
            {each.entity_type: each.entity_name for each in entry.entity},
            {value.key: value.value for value in sorted(entry.values, key=lambda value: value.key)},
        )
        for entry in response.entries or ()
    ]
    return sorted(found, key=lambda each: sorted((kind, name or "") for kind, name in each.entity.items()))


async def alter_quotas(
    port: AdminTransport, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool = False
) -> None:
    """Set limits of one entity, or remove those that are None: all of them or none. Raises Refused."""
    entry = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=limit or 0.0, remove=limit is None) for key, limit in changes.items()],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)

    async def attempt() -> None:
        result = (await port.ask(request, AlterClientQuotasResponse)).entries[0]
        check(result.error_code, "quotas", result.error_message)

    await port.retrying(attempt)
