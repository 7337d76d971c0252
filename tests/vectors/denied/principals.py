"""Who asks, and what they may do: one principal for each single right, and some for what rights do together."""

from __future__ import annotations

from typing import Final, NamedTuple

from kraft.security.acls import AccessControlEntry, Operation, PatternType, Permission, ResourceKind
from tests.vectors.denied.broker_requests import HIDDEN, HIDDEN_GROUP, SHOWN, SHOWN_GROUP

ADMIN: Final = "admin"
"""The super user that prepares everything."""
HIDDEN_ID, SHOWN_ID = "hidden-id", "shown-id"
THE_CLUSTER: Final = "kafka-cluster"
MADE: Final = "made"
"""The topic that is asked for and never made."""
TOPIC, GROUP, CLUSTER, ID = (
    ResourceKind.TOPIC,
    ResourceKind.GROUP,
    ResourceKind.CLUSTER,
    ResourceKind.TRANSACTIONAL_ID,
)


class Grant(NamedTuple):
    """One entry of a principal."""

    kind: int
    name: str
    operation: int
    pattern: int = PatternType.LITERAL
    permission: int = Permission.ALLOW

    def entry(self, user: str) -> AccessControlEntry:
        return AccessControlEntry(
            self.kind, self.name, self.pattern, f"User:{user}", "*", self.operation, self.permission
        )


def _of(prefix: str, kind: int, name: str, *operations: str) -> dict[str, tuple[Grant, ...]]:
    """A principal for each operation on one resource."""
    return {
        f"{prefix}-{operation}": (Grant(kind, name, getattr(Operation, operation.upper().replace("-", "_"))),)
        for operation in operations
    }


EVERYTHING: Final = (
    Grant(TOPIC, "*", Operation.ALL),
    Grant(GROUP, "*", Operation.ALL),
    Grant(ID, "*", Operation.ALL),
    Grant(CLUSTER, THE_CLUSTER, Operation.ALL),
)
PRINCIPALS: Final[dict[str, tuple[Grant, ...]]] = {
    "nobody": (),
    **_of("topic", TOPIC, HIDDEN, "read", "write", "delete", "alter", "describe", "describe-configs", "alter-configs"),
    **_of("made", TOPIC, MADE, "create"),
    **_of("group", GROUP, HIDDEN_GROUP, "read", "delete", "describe", "describe-configs", "alter-configs"),
    **_of(
        "cluster",
        CLUSTER,
        THE_CLUSTER,
        "create",
        "alter",
        "describe",
        "cluster-action",
        "describe-configs",
        "alter-configs",
        "idempotent-write",
    ),
    **_of("id", ID, HIDDEN_ID, "write", "describe"),
    "watcher": (
        Grant(CLUSTER, THE_CLUSTER, Operation.DESCRIBE),
        Grant(GROUP, HIDDEN_GROUP, Operation.DESCRIBE),
    ),
    "writer": (Grant(TOPIC, HIDDEN, Operation.WRITE), Grant(ID, HIDDEN_ID, Operation.DESCRIBE)),
    "maker": (Grant(CLUSTER, THE_CLUSTER, Operation.CREATE), Grant(TOPIC, SHOWN, Operation.DESCRIBE)),
    "alterer": (Grant(CLUSTER, THE_CLUSTER, Operation.ALTER), Grant(TOPIC, HIDDEN, Operation.ALTER)),
    "keeper": (
        Grant(CLUSTER, THE_CLUSTER, Operation.DESCRIBE_CONFIGS),
        Grant(TOPIC, HIDDEN, Operation.DESCRIBE_CONFIGS),
        Grant(GROUP, SHOWN_GROUP, Operation.DESCRIBE),
    ),
    "reader": (Grant(TOPIC, HIDDEN, Operation.READ), Grant(GROUP, SHOWN_GROUP, Operation.READ)),
    "owner": (
        Grant(TOPIC, SHOWN, Operation.ALL),
        Grant(GROUP, SHOWN_GROUP, Operation.ALL),
        Grant(ID, SHOWN_ID, Operation.ALL),
    ),
    "denied": (
        *EVERYTHING,
        *(Grant(kind, "hidden", Operation.ALL, PatternType.PREFIXED, Permission.DENY) for kind in (TOPIC, GROUP, ID)),
    ),
    "all": EVERYTHING,
}
"""In the order in which they ask."""
