"""Access control entries by id, as the log holds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.records.access_control_entry_record import AccessControlEntryRecord
from kraft.metadata.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord


class AccessControlEntry(NamedTuple):
    """One rule. Types and operations are Kafka's wire ids."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True)
class AclsImage:
    by_id: OrderedMap[bytes, AccessControlEntry] = field(default_factory=OrderedMap)

    def write(self) -> Iterator[Any]:
        for acl_id, entry in self.by_id.items():
            yield AccessControlEntryRecord(id=acl_id, **entry._asdict())


class AclsDraft:
    __slots__ = ("_base", "_by_id", "changed")

    def __init__(self, base: AclsImage) -> None:
        self._base = base
        self._by_id = base.by_id.mutate()
        self.changed: dict[bytes, AccessControlEntry | None] = {}

    def access_control_entry(self, record: AccessControlEntryRecord) -> None:
        self.changed.setdefault(record.id, self._base.by_id.get(record.id))
        self._by_id[record.id] = AccessControlEntry(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )

    def remove_access_control_entry(self, record: RemoveAccessControlEntryRecord) -> None:
        if self._by_id.get(record.id) is None:
            raise ValueError(f"a record removes access control entry {record.id.hex()}, which does not exist")
        self.changed.setdefault(record.id, self._base.by_id.get(record.id))
        del self._by_id[record.id]

    def finish(self) -> AclsImage:
        return AclsImage(OrderedMap(self._by_id.finish()))
