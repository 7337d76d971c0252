"""Access control entries by id, as in the log, and the index that the authorizer uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.records.access_control_entry_record import AccessControlEntryRecord
from kraft.metadata.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kraft.security.acl_rules import AclRules
from kraft.security.acls import AccessControlEntry


@dataclass(frozen=True, slots=True)
class AclsImage:
    by_id: OrderedMap[bytes, AccessControlEntry] = field(default_factory=OrderedMap)
    rules: AclRules = field(default_factory=AclRules, compare=False, repr=False)
    """The authorizer's index, derived from `by_id`."""

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
        by_id = OrderedMap(self._by_id.finish())
        removed = [entry for entry in self.changed.values() if entry is not None]
        added = [entry for acl_id in self.changed if (entry := by_id.get(acl_id)) is not None]
        return AclsImage(by_id, self._base.rules.changed(removed, added))
