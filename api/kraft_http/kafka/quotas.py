"""Quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from kraft.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse
from kraft_http.kafka.client import Kafka, raise_for

EXACT, DEFAULT = 0, 1

Entity = Mapping[str, str | None]
"""Names by type, as Kafka calls it. None is the default of the type."""


async def describe_quotas(kafka: Kafka, entity: Entity) -> list[tuple[Entity, Mapping[str, float]]]:
    """Limits by key of every entity that has these parts. Raises KafkaProblem."""
    components = [
        ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name)
        for kind, name in entity.items()
    ]
    request = DescribeClientQuotasRequest(components=components, strict=False)
    response = await kafka.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request, DescribeClientQuotasResponse)
    raise_for(response.error_code, response.error_message)
    return [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in sorted(entry.values, key=lambda each: each.key)},
        )
        for entry in response.entries or ()
    ]


async def alter_quotas(
    kafka: Kafka, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool
) -> None:
    """Set limits of one entity, or remove those that are None: all, or none. Raises KafkaProblem."""
    entry = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=limit or 0.0, remove=limit is None) for key, limit in changes.items()],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    response = await kafka.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, request, AlterClientQuotasResponse)
    for result in response.entries:
        raise_for(result.error_code, result.error_message)
