"""Client quotas by entity (KIP-546). An entity is a tuple of (type, name) pairs, sorted by type. The default of a type
has the name None."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.records.client_quota_record import ClientQuotaRecord, EntityData

# Each part is (entity type, whether it is named, name), so that a default and a name can be compared.
QuotaEntity = tuple[tuple[str, bool, str], ...]


def quota_entity(parts: list[EntityData]) -> QuotaEntity:
    return tuple(sorted((part.entity_type, part.entity_name is not None, part.entity_name or "") for part in parts))


@dataclass(frozen=True, slots=True)
class ClientQuotasImage:
    """Quota values by entity and key. An entity without values is absent."""

    entities: OrderedMap[QuotaEntity, OrderedMap[str, float]] = field(default_factory=OrderedMap)

    def write(self) -> Iterator[Any]:
        for entity, quotas in self.entities.items():
            parts = [EntityData(entity_type=kind, entity_name=name if named else None) for kind, named, name in entity]
            for key, value in quotas.items():
                yield ClientQuotaRecord(entity=list(parts), key=key, value=value, remove=False)


class ClientQuotasDraft:
    __slots__ = ("_base", "_entities", "changed")

    def __init__(self, base: ClientQuotasImage) -> None:
        self._base = base
        self._entities = base.entities.mutate()
        self.changed: dict[QuotaEntity, OrderedMap[str, float] | None] = {}

    def client_quota(self, record: ClientQuotaRecord) -> None:
        entity = quota_entity(record.entity)
        quotas: OrderedMap[str, float] = self._entities.get(entity) or OrderedMap()
        self.changed.setdefault(entity, self._base.entities.get(entity))
        after = quotas.without(record.key) if record.remove else quotas.set(record.key, record.value)
        if after:
            self._entities[entity] = after
        else:
            self._entities.pop(entity, None)

    def finish(self) -> ClientQuotasImage:
        return ClientQuotasImage(OrderedMap(self._entities.finish()))
