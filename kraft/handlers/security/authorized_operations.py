"""Bit fields of the operations that a principal may perform (KIP-430). Without an authorizer they hold every operation
of the resource type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kraft.security.acls import CLUSTER_NAME, Operation, ResourceKind

if TYPE_CHECKING:
    from kraft.handlers.registry import RequestContext
    from kraft.security.authorizer import Access

NOT_ASKED: Final = -(2**31)

_TOPIC: Final = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_CLUSTER: Final = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
_GROUP: Final = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)


def _bits(operations: tuple[int, ...]) -> int:
    return sum(1 << operation for operation in operations)


_ALL: Final = {
    ResourceKind.TOPIC: (_TOPIC, _bits(_TOPIC)),
    ResourceKind.CLUSTER: (_CLUSTER, _bits(_CLUSTER)),
    ResourceKind.GROUP: (_GROUP, _bits(_GROUP)),
}


def operations_on(kind: int, name: str, access: Access | None) -> int:
    """The operations allowed on a resource. All of them if `access` is None."""
    operations, everything = _ALL[kind]
    if access is None:
        return everything
    return _bits(tuple(operation for operation in operations if access.may(operation, kind, name)))


def cluster_operations(access: Access | None) -> int:
    """The operations allowed on the cluster; 0 if the caller may not describe it."""
    if access is not None and not access.may(Operation.DESCRIBE, ResourceKind.CLUSTER):
        return 0
    return operations_on(ResourceKind.CLUSTER, CLUSTER_NAME, access)


def access_of(context: RequestContext, services: Any) -> Access | None:
    """The permissions of the request's principal; None if there is no authorizer."""
    authorizer = services.authorizer
    access: Access | None = None if authorizer is None else authorizer.access_of(context)
    return access
