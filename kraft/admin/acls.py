"""Access control entries (KIP-140): show, add and remove them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kraft.admin.errors import check
from kraft.admin.transport import AdminTransport
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.create_acls_response import CreateAclsResponse
from kraft.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kraft.protocol.messages.delete_acls_response import DeleteAclsResponse
from kraft.protocol.messages.describe_acls_request import DescribeAclsRequest
from kraft.protocol.messages.describe_acls_response import DescribeAclsResponse
from kraft.security.acls import KIND_NAMES, AccessControlEntry, AclFilter


async def describe_acls(port: AdminTransport, wanted: AclFilter) -> list[AccessControlEntry]:
    """The entries that match a filter, sorted. Raises Refused."""
    response = await port.retrying(lambda: port.ask(DescribeAclsRequest(**_conditions(wanted)), DescribeAclsResponse))
    check(response.error_code, "access control entries", response.error_message)
    return sorted(
        AccessControlEntry(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in response.resources
        for acl in resource.acls
    )


async def create_acls(port: AdminTransport, entries: Sequence[AccessControlEntry]) -> None:
    """Create entries. Existing ones stay as they are. Raises Refused for the first that is rejected."""
    request = creation(entries)

    async def attempt() -> None:
        response = await port.ask(request, CreateAclsResponse)
        for entry, result in zip(entries, response.results, strict=True):
            check(result.error_code, _subject(entry), result.error_message)

    await port.retrying(attempt)


async def delete_acls(port: AdminTransport, filters: Sequence[AclFilter]) -> list[AccessControlEntry]:
    """Delete the entries that match any of the filters. Returns them, sorted. Raises Refused."""
    request = deletion(filters)
    removed: dict[AccessControlEntry, None] = {}

    async def attempt() -> None:
        for result in (await port.ask(request, DeleteAclsResponse)).filter_results:
            check(result.error_code, "access control entries", result.error_message)
            for match in result.matching_acls:
                check(match.error_code, "access control entries", match.error_message)
                entry = AccessControlEntry(
                    match.resource_type,
                    match.resource_name,
                    match.pattern_type,
                    match.principal,
                    match.host,
                    match.operation,
                    match.permission_type,
                )
                removed[entry] = None

    await port.retrying(attempt)
    return sorted(removed)


def creation(entries: Iterable[AccessControlEntry]) -> CreateAclsRequest:
    """The request that creates the entries."""
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=entry.resource_type,
                resource_name=entry.resource_name,
                resource_pattern_type=entry.pattern_type,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission_type,
            )
            for entry in entries
        ]
    )


def deletion(filters: Iterable[AclFilter]) -> DeleteAclsRequest:
    """The request that deletes the entries that match any of the filters."""
    return DeleteAclsRequest(filters=[DeleteAclsFilter(**_conditions(wanted)) for wanted in filters])


def _conditions(wanted: AclFilter) -> dict[str, Any]:
    """The fields of a filter, which describing and deleting share."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission_type,
    }


def _subject(entry: AccessControlEntry) -> str:
    kind = KIND_NAMES.get(entry.resource_type, "?").lower().replace("_", " ")
    return f"the entry of {entry.principal} for {kind} {entry.resource_name}"
