"""The changes of configurations, quotas, credentials and tokens that a request to the active controller made, for the
audit log."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from kraft.common.config.dynamic.alterations import OPERATION_NAMES
from kraft.common.config.resource_type import ResourceType
from kraft.common.config.resources import TOPIC_KEYS, is_secret
from kraft.protocol.error_codes import ErrorCode
from kraft.security.scram_credentials import BY_NUMBER

CONFIG, QUOTA, CREDENTIAL, TOKEN = "config", "quota", "credential", "delegation token"
_SET, _DELETE = "set", "delete"
_RESOURCE_NAMES: Final = {
    ResourceType.TOPIC: "topic",
    ResourceType.BROKER: "broker",
    ResourceType.GROUP: "group",
    ResourceType.CLIENT_METRICS: "client-metrics",
}


class Change(NamedTuple):
    """One completed change. `kind` is CONFIG, QUOTA, CREDENTIAL or TOKEN."""

    kind: str
    fields: Mapping[str, Any]


class ChangeListener(Protocol):
    """Is notified of changes after they are committed."""

    def handle_changes(self, principal: str, host: str, changes: Iterator[Change]) -> None:
        """Handle the changes of one request. `host` is the client's address."""


def config_changes(request: Any, response: Any) -> Iterator[Change]:
    """The changes of IncrementalAlterConfigs or AlterConfigs. AlterConfigs replaces all configs of a resource."""
    if request.validate_only:
        return
    refused = {(each.resource_type, each.resource_name) for each in response.responses if each.error_code}
    for resource in request.resources:
        if (resource.resource_type, resource.resource_name) in refused:
            continue
        where = {
            "resource_type": _RESOURCE_NAMES.get(resource.resource_type, str(resource.resource_type)),
            "resource_name": resource.resource_name,
        }
        for config in resource.configs:
            code = getattr(config, "config_operation", None)
            operation = "replace" if code is None else OPERATION_NAMES[code].lower()
            shows = operation != _DELETE and not _hides(resource.resource_type, config.name)
            yield Change(
                CONFIG, {**where, "key": config.name, "change": operation, "value": config.value if shows else None}
            )
        if not resource.configs:
            yield Change(CONFIG, {**where, "key": "", "change": "replace", "value": None})


def _hides(resource_type: int, key: str) -> bool:
    """Whether the value may be a secret and is left out. Only broker configs have secrets."""
    return resource_type == ResourceType.BROKER and key not in TOPIC_KEYS and is_secret(key)


def quota_changes(request: Any, response: Any) -> Iterator[Change]:
    """The changes of AlterClientQuotas. The response has one entry for an entity, even if the request repeats it."""
    if request.validate_only:
        return
    done = {_entity_of(each) for each in response.entries if not each.error_code}
    for entry in request.entries:
        if _entity_of(entry) not in done:
            continue
        entity = ", ".join(
            f"{part.entity_type} {'(default)' if part.entity_name is None else part.entity_name}"
            for part in entry.entity
        )
        for op in entry.ops:
            change, value = (_DELETE, None) if op.remove else (_SET, min(op.value, sys.float_info.max))
            yield Change(QUOTA, {"entity": entity, "key": op.key, "change": change, "value": value})


def _entity_of(entry: Any) -> frozenset[tuple[str, str | None]]:
    return frozenset((part.entity_type, part.entity_name) for part in entry.entity)


def credential_changes(request: Any, response: Any) -> Iterator[Change]:
    """The changes of AlterUserScramCredentials."""
    done = {each.user for each in response.results if each.error_code == ErrorCode.NONE}
    for change, entries in ((_SET, request.upsertions), (_DELETE, request.deletions)):
        for entry in entries:
            if entry.name in done:
                mechanism = BY_NUMBER[entry.mechanism].name
                yield Change(CREDENTIAL, {"user": entry.name, "mechanism": mechanism, "change": change})
