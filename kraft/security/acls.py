"""Access control entries: Kafka's ids and names for them, and the filters that find them (KIP-11, KIP-290).

The entries that decide on a request are selected in `kraft.security.acl_rules`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kraft.security.address_ranges import is_in_range, is_range
from kraft.world.addresses import address_of

UNKNOWN: Final = 0
ANY: Final = 1
WILDCARD: Final = "*"
ANY_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of kind CLUSTER."""


class ResourceKind:
    """The type of an entry's resource."""

    TOPIC: Final = 2
    GROUP: Final = 3
    CLUSTER: Final = 4
    TRANSACTIONAL_ID: Final = 5
    DELEGATION_TOKEN: Final = 6
    USER: Final = 7


class PatternType:
    """How an entry's resource name is matched. MATCH is for filters only."""

    MATCH: Final = 2
    LITERAL: Final = 3
    PREFIXED: Final = 4


class Operation:
    """An operation on a resource."""

    ALL: Final = 2
    READ: Final = 3
    WRITE: Final = 4
    CREATE: Final = 5
    DELETE: Final = 6
    ALTER: Final = 7
    DESCRIBE: Final = 8
    CLUSTER_ACTION: Final = 9
    DESCRIBE_CONFIGS: Final = 10
    ALTER_CONFIGS: Final = 11
    IDEMPOTENT_WRITE: Final = 12
    CREATE_TOKENS: Final = 13
    DESCRIBE_TOKENS: Final = 14
    TWO_PHASE_COMMIT: Final = 15


class Permission:
    """Whether an entry allows or denies an operation."""

    DENY: Final = 2
    ALLOW: Final = 3


def _names(holder: type) -> dict[int, str]:
    return {UNKNOWN: "UNKNOWN", ANY: "ANY"} | {
        value: name for name, value in vars(holder).items() if isinstance(value, int) and name.isupper()
    }


KIND_NAMES: Final = _names(ResourceKind)
PATTERN_NAMES: Final = _names(PatternType)
OPERATION_NAMES: Final = _names(Operation)
PERMISSION_NAMES: Final = _names(Permission)

IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset((Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.ALTER_CONFIGS,)),
}
"""By operation, the operations whose permission implies it."""


class AccessControlEntry(NamedTuple):
    """One rule. Types and operations are Kafka's wire ids."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def is_about(self, host: str) -> bool:
        """Whether the entry applies to that host, an address. IPv6 addresses match in any notation: Java writes them in
        full (`0:0:0:0:0:0:0:1`), as do existing entries. An entry may name a range of addresses."""
        if self.host in (WILDCARD, host):
            return True
        if is_range(self.host):
            return is_in_range(host, self.host)
        return ":" in host and ":" in self.host and address_of(self.host) == address_of(host)

    def concerns(self, host: str, operation: int) -> bool:
        """Whether the entry applies to that operation from that host. Only an allowed operation implies others."""
        if not self.is_about(host):
            return False
        if self.operation in (Operation.ALL, operation):
            return True
        return self.permission_type == Permission.ALLOW and self.operation in IMPLIED_BY.get(operation, ())


class AclFilter(NamedTuple):
    """A filter of entries. None and ANY match everything; MATCH matches every pattern that applies to the name."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    @property
    def is_unknown(self) -> bool:
        """Whether a field has an unknown value."""
        return (
            self.resource_type not in KIND_NAMES
            or self.pattern_type not in PATTERN_NAMES
            or self.operation not in OPERATION_NAMES
            or self.permission_type not in PERMISSION_NAMES
            or UNKNOWN in (self.resource_type, self.pattern_type, self.operation, self.permission_type)
        )

    def takes(self, entry: AccessControlEntry) -> bool:
        return (
            self.resource_type in (ANY, entry.resource_type)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (ANY, entry.operation)
            and self.permission_type in (ANY, entry.permission_type)
            and self._takes_name(entry)
        )

    def _takes_name(self, entry: AccessControlEntry) -> bool:
        if self.pattern_type not in (ANY, PatternType.MATCH, entry.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == entry.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if entry.pattern_type == PatternType.LITERAL:
            return entry.resource_name == WILDCARD
        return self.resource_name.startswith(entry.resource_name)
