"""The permissions that a request needs, as its handler declares them. A guarded registry checks them before it calls
the handler.

A permission check serves the allowed part of the request, and adds errors for the rest to the response. Produce, Fetch
and Metadata check for themselves, since they work on the frame. So do ListGroups and other APIs whose responses hide
what the caller may not see (`ASKS_INSIDE`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import ApiError
from kraft.protocol import api_keys
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_codes import message_of as error_message_of
from kraft.security.acls import CLUSTER_NAME, Operation, ResourceKind
from kraft.security.authorizer import REFUSALS, Access
from kraft.world.turns import TURN_ITEMS, Turn, in_turns

if TYPE_CHECKING:
    from kraft.handlers.registry import Handler, RequestContext

TOPIC, GROUP, CLUSTER = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER


class PermissionCheck(Protocol):
    async def serve(
        self, request: Any, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> Any:
        """Serve the allowed part of the request. Raises ApiError if nothing is allowed."""


class _Anybody:
    """Check nothing: no permission is needed, or the handler itself checks."""

    async def serve(
        self, request: Any, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> Any:
        assert handler.serve_function is not None
        return await handler.serve_function(request, context, services)


ANYBODY: PermissionCheck = _Anybody()
ASKS_INSIDE: PermissionCheck = _Anybody()
"""For APIs whose handlers check permissions themselves, with `services.authorizer`."""
ASKED_BY_CONTROLLER: PermissionCheck = _Anybody()
"""For APIs that the broker forwards: the controller authorizes the request for the client's principal."""


def check_cluster(operation: int, context: RequestContext, access: Access, *, tells_why: bool = True) -> None:
    """Raises ApiError CLUSTER_AUTHORIZATION_FAILED if the operation on the cluster is not allowed. The error has a
    message only with `tells_why`."""
    if not access.allows(operation, CLUSTER, CLUSTER_NAME):
        why = f"Request {api_keys.name_of(context.api_key)} is not authorized." if tells_why else ""
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, why)


def check_transactional_id(operation: int, transactional_id: str, access: Access) -> None:
    """Raises ApiError TRANSACTIONAL_ID_AUTHORIZATION_FAILED if the operation is not allowed."""
    if not access.allows(operation, ResourceKind.TRANSACTIONAL_ID, transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


class WhenServed:
    """The permissions of `then`, for APIs that a feature turns on. `require(services)` raises ApiError while the
    feature is off: callers without rights get this error too, as in Kafka."""

    def __init__(self, require: Callable[[Any], None], then: PermissionCheck) -> None:
        self._require = require
        self._then = then

    async def serve(
        self, request: Any, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> Any:
        """Check, then serve. Raises ApiError."""
        self._require(services)
        return await self._then.serve(request, context, services, access, handler)


class OnCluster:
    """The whole request needs one operation on the cluster. The operation `or_else` also suffices."""

    def __init__(self, operation: int, *, or_else: int | None = None, tells_why: bool = True) -> None:
        """With `tells_why` a rejection has an error message, for APIs whose rejections have one in Apache Kafka."""
        self._operation = operation
        self._tells_why = tells_why
        self._or_else = or_else

    async def serve(
        self, request: Any, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> Any:
        """Check, then serve. Raises ApiError CLUSTER_AUTHORIZATION_FAILED."""
        if self._or_else is None or not access.may(self._or_else, CLUSTER):
            check_cluster(self._operation, context, access, tells_why=self._tells_why)
        assert handler.serve_function is not None
        return await handler.serve_function(request, context, services)


class OnEach:
    """Each item of the request's list `items` needs an operation on its own resource. Errors for unauthorized items are
    appended to the response's list `answers`, in the API's form."""

    def __init__(
        self,
        items: str,
        answers: str,
        resource: Callable[[Any, Any, Any], tuple[int, int, str] | None],
        *,
        unless_cluster: int | None = None,
        tells_why: bool = False,
    ) -> None:
        """`resource(item, request, services)` returns operation, kind and name, or None if no permission is needed. A
        caller with the operation `unless_cluster` on the cluster is allowed every item. With `tells_why` the errors
        have a message, for APIs where Apache Kafka's have one."""
        self._tells_why = tells_why
        self._items = items
        self._answers = answers
        self._resource = resource
        self._unless_cluster = unless_cluster

    async def serve(
        self, request: Any, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> Any:
        assert handler.serve_function is not None
        items = getattr(request, self._items)
        if not items or (self._unless_cluster is not None and access.may(self._unless_cluster, CLUSTER)):
            return await handler.serve_function(request, context, services)
        allowed: list[Any] = []
        refused: dict[int, list[Any]] = {}
        turn = Turn()
        for item in items:
            if turn.is_over():
                await turn.next()
            needed = self._resource(item, request, services)
            if needed is None or access.allows(*needed):
                allowed.append(item)
            else:
                refused.setdefault(REFUSALS[needed[1]], []).append(item)
        if not refused:
            return await handler.serve_function(request, context, services)
        response = None
        if allowed:
            response = await handler.serve_function(self._with(request, allowed), context, services)
        for code, some in refused.items():
            why = error_message_of(code) if self._tells_why else None
            part = await in_turns(
                handler.error_response(self._with(request, some), context.api_version, code, why),
                TURN_ITEMS,
            )
            if response is None:
                response = part
            else:
                setattr(response, self._answers, [*getattr(response, self._answers), *getattr(part, self._answers)])
        return response

    def _with(self, request: Any, items: list[Any]) -> Any:
        part = copy.copy(request)
        setattr(part, self._items, items)
        return part


def on_topics(
    operation: int,
    answers: str = "topics",
    field: str = "name",
    *,
    unless_cluster: int | None = None,
    tells_why: bool = False,
) -> OnEach:
    """Each topic of the request needs `operation`. `field` is the item's field that holds the topic name."""
    return OnEach(
        "topics",
        answers,
        lambda item, *_: (operation, TOPIC, getattr(item, field)),
        unless_cluster=unless_cluster,
        tells_why=tells_why,
    )


def on_groups(operation: int, items: str, answers: str) -> OnEach:
    """Each group of the request needs `operation`."""
    return OnEach(items, answers, lambda item, *_: (operation, GROUP, item))


class OnGroup:
    """The request needs an operation on its group, and Read on each topic that it names."""

    def __init__(self, operation: int, topics: OnEach | None = None) -> None:
        self._operation = operation
        self._topics = topics

    async def serve(
        self, request: Any, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> Any:
        """Check, then serve. Raises ApiError GROUP_AUTHORIZATION_FAILED."""
        if not access.allows(self._operation, GROUP, request.group_id):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if self._topics is not None:
            return await self._topics.serve(request, context, services, access, handler)
        return await ANYBODY.serve(request, context, services, access, handler)


class OnTransaction:
    """The request needs Write on its transactional id, and then the permissions of `then`."""

    def __init__(self, then: PermissionCheck = ANYBODY) -> None:
        self._then = then

    async def serve(
        self, request: Any, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> Any:
        """Check, then serve. Raises ApiError TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
        check_transactional_id(Operation.WRITE, request.transactional_id, access)
        return await self._then.serve(request, context, services, access, handler)


class OnCoordinatorKeys:
    """The permissions of FindCoordinator: Describe on each group or transactional id; one key before version 4."""

    _KINDS = (GROUP, ResourceKind.TRANSACTIONAL_ID)

    def __init__(self) -> None:
        self._each = OnEach("coordinator_keys", "coordinators", self._resource)

    def _resource(self, key: str, request: Any, services: Any) -> tuple[int, int, str] | None:
        if 0 <= request.key_type < len(self._KINDS):
            return Operation.DESCRIBE, self._KINDS[request.key_type], key
        return None

    async def serve(
        self, request: Any, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> Any:
        if context.api_version >= 4:
            return await self._each.serve(request, context, services, access, handler)
        needed = self._resource(request.key, request, services)
        if needed is not None and not access.allows(*needed):
            raise ApiError(REFUSALS[needed[1]])
        return await ANYBODY.serve(request, context, services, access, handler)


class OnIdempotentWrite:
    """The permissions of InitProducerId: Write on the transactional id, and TwoPhaseCommit for two-phase commit
    (KIP-939); without a transactional id, IdempotentWrite on the cluster or Write on any topic (KIP-679)."""

    async def serve(
        self, request: Any, context: RequestContext, services: Any, access: Access, handler: Handler
    ) -> Any:
        if request.transactional_id is not None:
            check_transactional_id(Operation.WRITE, request.transactional_id, access)
            if request.enable2_pc:
                check_transactional_id(Operation.TWO_PHASE_COMMIT, request.transactional_id, access)
        elif not (
            access.may(Operation.IDEMPOTENT_WRITE, CLUSTER)
            or access.may_on_some(Operation.WRITE, TOPIC)
            or access.allows(Operation.IDEMPOTENT_WRITE, CLUSTER)  # For the listener.
        ):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return await ANYBODY.serve(request, context, services, access, handler)


def config_resource(kind: int, name: str, operation: int) -> tuple[int, int, str] | None:
    """The permission for a resource's configuration as (operation, kind, name); None for an unknown type, which is
    rejected elsewhere."""
    if kind == ResourceType.TOPIC:
        return operation, TOPIC, name
    if kind == ResourceType.GROUP:
        return operation, GROUP, name
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS):
        return operation, CLUSTER, CLUSTER_NAME
    return None
