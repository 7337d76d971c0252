"""Access control entries (KIP-140): show, add and remove them."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.client.cluster import Cluster
from kraft.client.errors import check
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kraft.protocol.messages.describe_acls_request import DescribeAclsRequest
from kraft.security.acls import KIND_NAMES, AccessControlEntry, AclFilter


async def describe_acls(cluster: Cluster, wanted: AclFilter) -> list[AccessControlEntry]:
    """The entries that a filter takes, sorted. Raises ApiError."""
    response = await cluster.call(
        DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission_type,
        )
    )
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


async def create_acls(cluster: Cluster, entries: Sequence[AccessControlEntry]) -> None:
    """Add entries. Those that there are already stay as they are. Raises ApiError for the first that is refused."""
    request = CreateAclsRequest(
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

    async def attempt() -> None:
        response = await cluster.call(request)
        for entry, result in zip(entries, response.results, strict=True):
            check(result.error_code, _subject(entry), result.error_message)

    await cluster.retrying(attempt)


async def delete_acls(cluster: Cluster, filters: Sequence[AclFilter]) -> list[AccessControlEntry]:
    """Remove the entries that any of the filters takes. Returns them, sorted. Raises ApiError."""
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.resource_name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission_type,
            )
            for wanted in filters
        ]
    )
    removed: set[AccessControlEntry] = set()

    async def attempt() -> None:
        for result in (await cluster.call(request)).filter_results:
            check(result.error_code, "access control entries", result.error_message)
            for match in result.matching_acls:
                check(match.error_code, "access control entries", match.error_message)
                removed.add(
                    AccessControlEntry(
                        match.resource_type,
                        match.resource_name,
                        match.pattern_type,
                        match.principal,
                        match.host,
                        match.operation,
                        match.permission_type,
                    )
                )

    await cluster.retrying(attempt)
    return sorted(removed)


def _subject(entry: AccessControlEntry) -> str:
    kind = KIND_NAMES.get(entry.resource_type, "?").lower().replace("_", " ")
    return f"the entry of {entry.principal} for {kind} {entry.resource_name}"
