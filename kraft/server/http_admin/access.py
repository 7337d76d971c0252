"""The permissions of a caller of the HTTP admin if there is an authorizer.

Requests to this node's broker are authorized there. Requests to other brokers would arrive with this node's own
principal, which is a super user. So they are authorized here before they are sent, by the permissions that the handlers
declare.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kraft.common.errors import ApiError
from kraft.handlers.registry import RequestContext
from kraft.handlers.security.permissions import ANYBODY, ASKED_BY_CONTROLLER, ASKS_INSIDE
from kraft.network.reply import Peer
from kraft.protocol.api_keys import ApiKey, name_of
from kraft.protocol.error_codes import ErrorCode
from kraft.security.acls import Operation, ResourceKind
from kraft.security.authorizer import Access

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices, NodeServices
    from kraft.security.acl_rules import AclRules
    from kraft.security.acls import AccessControlEntry
    from kraft.security.authorizer import Authorizer
    from kraft.server.node import Node

Send = Callable[[Any], Awaitable[Any]]
_RECORDS = {ApiKey.PRODUCE: Operation.WRITE, ApiKey.FETCH: Operation.READ}


class Permissions:
    """A key that is equal for the same principal and host under the same ACLs. The node's rules are a new object after
    each change; keeping a reference here ensures that its identity is not reused."""

    __slots__ = ("_host", "_principal", "_rules")

    def __init__(self, principal: str, host: str, rules: AclRules | None) -> None:
        self._principal = principal
        self._host = host
        self._rules = rules

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Permissions)
            and self._rules is other._rules
            and (self._principal, self._host) == (other._principal, other._host)
        )

    def __hash__(self) -> int:
        return hash((self._principal, self._host))


class AdminAccess:
    """The permissions of one caller. `broker` is None on a node without that role."""

    def __init__(self, authorizer: Authorizer, broker: BrokerServices | None, peer: Peer) -> None:
        self._authorizer = authorizer
        self._broker = broker
        self._peer = peer

    def permissions(self) -> Permissions:
        """The caller's current permissions, as a key."""
        return Permissions(self._peer.principal, self._peer.host, self._authorizer.rules)

    def check_describe(self) -> None:
        """Check that the caller may describe the cluster. Raises ApiError CLUSTER_AUTHORIZATION_FAILED."""
        if not self._access().allows(Operation.DESCRIBE, ResourceKind.CLUSTER):
            raise self._refusal("Describe on the cluster")

    def may_see(self, kind: int) -> Callable[[str], bool]:
        """The function that returns whether the caller may currently describe the resource of that kind and name."""
        access = self._access()
        return lambda name: access.may(Operation.DESCRIBE, kind, name)

    def explain(
        self, principal: str, host: str, operation: int, kind: int, name: str
    ) -> tuple[bool, str, AccessControlEntry | None]:
        """The authorizer's decision about another principal, for a caller who may describe the cluster. Raises ApiError
        CLUSTER_AUTHORIZATION_FAILED."""
        self.check_describe()
        return Access(self._authorizer, self._authorizer.rules, principal, host).explain(operation, kind, name)

    async def send(self, api_key: int, version: int, request: Any, send: Send) -> Any:
        """Send the allowed part of the request to another broker, and return the response. Raises ApiError if the whole
        request is denied. A request whose permission only its receiver can check is allowed to super users only."""
        access = self._access()
        if access.is_super:
            return await send(request)
        handler = None if self._broker is None else self._broker.registry.get(api_key)
        if handler is None or handler.unguarded.permission in (ASKED_BY_CONTROLLER, ASKS_INSIDE):
            self._check_records(api_key, request, access)
            return await send(request)
        if handler.unguarded.permission is ANYBODY:
            return await send(request)
        relay = copy.copy(handler.unguarded)

        async def serve(allowed: Any, context: RequestContext, services: Any) -> Any:
            return await send(allowed)

        relay.serve_function = serve
        context = RequestContext(self._peer, api_key, version, 0, None)
        return await relay.permission.serve(request, context, self._broker, access, relay)

    def _access(self) -> Access:
        return self._authorizer.access_of(RequestContext(self._peer, 0, 0, 0, None))

    def _check_records(self, api_key: int, request: Any, access: Access) -> None:
        """Check Produce and Fetch, whose topics are given by name. Raises ApiError TOPIC_AUTHORIZATION_FAILED; for any
        other API CLUSTER_AUTHORIZATION_FAILED."""
        operation = _RECORDS.get(api_key)
        if operation is None:
            raise self._refusal(f"send {name_of(api_key)} through this node: send it to a node with the broker role")
        topics = request.topic_data if api_key == ApiKey.PRODUCE else request.topics
        for topic in topics:
            name = (topic.name if api_key == ApiKey.PRODUCE else topic.topic) or self._name(topic.topic_id)
            if name is None or not access.allows(operation, ResourceKind.TOPIC, name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _name(self, topic_id: bytes) -> str | None:
        return None if self._broker is None else self._broker.replicas.topic_names.get(topic_id)

    def _refusal(self, what: str) -> ApiError:
        return ApiError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{self._peer.principal} (the principal of this HTTP request) may not {what}",
        )


def access_of_caller(node: Node, principal: str, host: str) -> AdminAccess | None:
    """The permissions of a caller; None if the node has no authorizer."""
    broker = None if node.broker is None else node.broker.services
    services: NodeServices | None = broker
    if services is None and node.controller is not None:
        services = node.controller.services
    authorizer = None if services is None else services.authorizer
    if authorizer is None:
        return None
    listener = node.config.listeners[0]
    return AdminAccess(authorizer, broker, Peer(host, listener.name, (listener.host, listener.port), principal))
