"""The audit of denials and of changes to ACLs, configurations, quotas and credentials: each is an event in the log and
in the node's journal. Logins and throttling have audits of their own.

Denials are rate-limited: a client that retries in a loop must not push all other events out of log and journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kraft.common.config.node.checks import super_users
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.rate_limiter import RateLimiter
from kraft.handlers.security.audited_changes import CONFIG, CREDENTIAL, QUOTA, TOKEN, Change
from kraft.metadata.publisher import MetadataUpdate
from kraft.security.acls import (
    KIND_NAMES,
    OPERATION_NAMES,
    PATTERN_NAMES,
    PERMISSION_NAMES,
    AccessControlEntry,
)
from kraft.security.authorizer import Authorizer
from kraft.server.events.event_journal import EventJournal, EventKind
from kraft.server.events.login_audit import PERIOD_SECONDS, TOLD_MAX, LoginAudit
from kraft.server.events.throttle_audit import ThrottleAudit

if TYPE_CHECKING:
    from kraft.common.logging import Loggers
    from kraft.metadata.loader import MetadataLoader
    from kraft.world.ports import Clock

CHANGES_TOLD_MAX: Final = 100
"""Limit of changes of one request that have their own event."""
VALUE_CHARACTERS_MAX: Final = 1_000
"""The characters kept of each text in an event, and of the name of a denied resource. The log has the complete
change."""
_KINDS: Final = {
    CONFIG: EventKind.CONFIG_CHANGED,
    QUOTA: EventKind.QUOTA_CHANGED,
    CREDENTIAL: EventKind.CREDENTIAL_CHANGED,
    TOKEN: EventKind.TOKEN_CHANGED,
}


class AuditLog:
    """See `kraft.security.authorizer.AuditListener`."""

    def __init__(self, events: EventJournal, loggers: Loggers, clock: Clock) -> None:
        self._events = events
        self._log = loggers.get("security")
        self.logins = LoginAudit(events, self._log, clock)
        self.throttles = ThrottleAudit(events, loggers.get("quotas"), clock)
        self._denials = RateLimiter(clock, TOLD_MAX, PERIOD_SECONDS)

    def handle_denied(self, principal: str, host: str, operation: int, kind: int, name: str) -> None:
        """See `AuditListener`. The field `untold` counts the denials that were suppressed since the last reported
        one."""
        untold = self._denials.take()
        if untold is None:
            return
        fields = {
            "principal": principal,
            "host": host,
            "operation": OPERATION_NAMES[operation],
            "resource_type": KIND_NAMES[kind],
            "resource_name": name[:VALUE_CHARACTERS_MAX],
            "untold": untold,
        }
        self._log.warning("access denied", **fields)
        self._events.append(EventKind.ACCESS_DENIED, **fields)

    def handle_changed(self, principal: str, host: str, entry: AccessControlEntry, is_added: bool) -> None:
        """See `AuditListener`."""
        fields = {
            "principal": principal,
            "host": host,
            "acl_principal": entry.principal,
            "acl_host": entry.host,
            "permission": PERMISSION_NAMES[entry.permission_type],
            "operation": OPERATION_NAMES[entry.operation],
            "resource_type": KIND_NAMES[entry.resource_type],
            "pattern_type": PATTERN_NAMES[entry.pattern_type],
            "resource_name": entry.resource_name,
        }
        self._log.info("acl added" if is_added else "acl removed", **fields)
        self._events.append(EventKind.ACL_ADDED if is_added else EventKind.ACL_REMOVED, **_cut(fields))

    def handle_changes(self, principal: str, host: str, changes: Iterator[Change]) -> None:
        """See `ChangeListener`."""
        for change in islice(changes, CHANGES_TOLD_MAX):
            fields = {"principal": principal, "host": host, **change.fields}
            self._log.info(f"{change.kind} changed", **fields)
            self._events.append(_KINDS[change.kind], **_cut(fields))
        left_out = sum(1 for _ in changes)
        if left_out:
            self._log.info("more was changed by the same request", principal=principal, host=host, left_out=left_out)


def _cut(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with their texts truncated, for an event."""
    return {name: each[:VALUE_CHARACTERS_MAX] if isinstance(each, str) else each for name, each in fields.items()}


class AuthorizerPublisher:
    """A metadata publisher that passes the image's ACLs to the authorizer."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def publish(self, update: MetadataUpdate) -> None:
        """See `kraft.metadata.publisher.MetadataPublisher`."""
        self._authorizer.take_rules(update.image.acls.rules)


def follow_metadata(authorizer: Authorizer | None, loader: MetadataLoader) -> None:
    """Have the loader keep the node's authorizer up to date, if there is one."""
    if authorizer is not None:
        loader.add_publisher(AuthorizerPublisher(authorizer))


def make_authorizer(config: NodeConfig, audit: AuditLog) -> Authorizer | None:
    """The node's authorizer; None if none is configured."""
    if not config.text("authorizer.class.name"):
        return None
    return Authorizer(
        super_users(config.text("super.users")),
        allows_without_rules=config.flag("allow.everyone.if.no.acl.found"),
        listener=audit,
    )
