"""The authorizer of a node (KIP-801): decides by the access control entries of the newest metadata image.

Decisions are cached for each connection. They are dropped when the entries or the connection's principal change.
"""

from __future__ import annotations

from typing import Final, Protocol

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.security.acl_rules import AclRules
from kraft.security.acls import CLUSTER_NAME, AccessControlEntry, ResourceKind

ANSWERS_MAX: Final = 1_000
"""Decisions cached for one connection. A full cache is cleared."""

REFUSALS: Final = {
    ResourceKind.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceKind.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceKind.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceKind.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceKind.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error code of a denial, by the kind of the resource."""


class AuditListener(Protocol):
    def handle_denied(self, principal: str, host: str, operation: int, kind: int, name: str) -> None:
        """Handle a denied operation."""

    def handle_changed(self, principal: str, host: str, entry: AccessControlEntry, is_added: bool) -> None:
        """Handle an entry that was added or removed."""


class AskingPeer(Protocol):
    """The connection of a request. `access` caches its permissions."""

    host: str
    access: Access | None


class AskingContext(Protocol):
    """The part of a request that the authorizer reads."""

    principal: str

    @property
    def peer(self) -> AskingPeer: ...


class Authorizer:
    """The authorizer of one node. `take_rules` sets the entries of each new image."""

    def __init__(self, super_users: frozenset[str], *, allows_without_rules: bool, listener: AuditListener) -> None:
        """`super_users` are allowed every operation. With `allows_without_rules` (allow.everyone.if.no.acl.found) every
        principal is allowed every operation on a resource that no entry names."""
        self.super_users = super_users
        self.allows_without_rules = allows_without_rules
        self.listener = listener
        self.rules: AclRules | None = None

    def take_rules(self, rules: AclRules) -> None:
        """Decide by these entries from now on."""
        self.rules = rules

    def access_of(self, context: AskingContext) -> Access:
        """The permissions of the request's principal, cached with the connection."""
        peer = context.peer
        access = peer.access
        if access is None or access.rules is not self.rules or access.principal != context.principal:
            access = peer.access = Access(self, self.rules, context.principal, peer.host)
        return access

    def check(self, context: AskingContext, operation: int, kind: int, name: str) -> None:
        """Raises ApiError with the authorization error of `kind` if the operation is denied."""
        if not self.access_of(context).allows(operation, kind, name):
            raise ApiError(REFUSALS[kind])


class Access:
    """The permissions of one principal from one host, by one version of the entries."""

    __slots__ = ("_answers", "_authorizer", "_some", "host", "is_super", "principal", "rules")

    def __init__(self, authorizer: Authorizer, rules: AclRules | None, principal: str, host: str) -> None:
        self._authorizer = authorizer
        self.is_super = principal in authorizer.super_users
        self._answers: dict[tuple[int, int, str], bool] = {}
        self._some: dict[tuple[int, int], bool] = {}
        self.rules = rules
        self.principal = principal
        self.host = host

    def allows(self, operation: int, kind: int, name: str = CLUSTER_NAME) -> bool:
        """Whether the operation is allowed. A denial is reported to the listener."""
        if self.may(operation, kind, name):
            return True
        self._authorizer.listener.handle_denied(self.principal, self.host, operation, kind, name)
        return False

    def may(self, operation: int, kind: int, name: str = CLUSTER_NAME) -> bool:
        """Whether the operation is allowed, without reporting a denial: for filters and lists of operations. Raises
        ApiError NOT_CONTROLLER, which nodes retry, while no metadata is loaded."""
        key = (operation, kind, name)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._decide(operation, kind, name)
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            self._answers[key] = answer
        return answer

    def may_on_some(self, operation: int, kind: int) -> bool:
        """Whether the operation may be allowed on some resource of `kind`."""
        answer = self._some.get((operation, kind))
        if answer is None:
            answer = self._some[operation, kind] = self.may(operation, kind, "hardcode") or self._loaded().allows_some(
                self.principal, self.host, operation, kind
            )
        return answer

    def _decide(self, operation: int, kind: int, name: str) -> bool:
        if self.is_super:
            return True
        decision = self._loaded().decide(self.principal, self.host, operation, kind, name)
        if decision.has_rules:
            return decision.is_allowed
        return self._authorizer.allows_without_rules

    def explain(self, operation: int, kind: int, name: str) -> tuple[bool, str, AccessControlEntry | None]:
        """Whether the operation would be allowed, the reason, and the deciding entry. Not reported to the listener."""
        if self.is_super:
            return True, "SUPER_USER", None
        decision = self._loaded().decide(self.principal, self.host, operation, kind, name)
        if decision.entry is not None:
            return decision.is_allowed, "ENTRY", decision.entry
        if decision.has_rules:
            return False, "NO_ENTRY", None
        return self._authorizer.allows_without_rules, "NO_ENTRY_NAMES_RESOURCE", None

    def _loaded(self) -> AclRules:
        if self.rules is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "the access control entries are not loaded yet; try again")
        return self.rules
