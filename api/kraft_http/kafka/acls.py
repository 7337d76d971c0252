"""Access control entries: find, add and remove them."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.create_acls_response import CreateAclsResponse
from kraft.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kraft.protocol.messages.delete_acls_response import DeleteAclsResponse
from kraft.protocol.messages.describe_acls_request import DescribeAclsRequest
from kraft.protocol.messages.describe_acls_response import DescribeAclsResponse
from kraft.security.acls import AccessControlEntry, AclFilter
from kraft_http.kafka.client import Kafka, raise_for

VERSION = 3


async def describe_acls(kafka: Kafka, wanted: AclFilter) -> list[AccessControlEntry]:
    """Those that the filter takes, sorted. Raises KafkaProblem."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission_type,
    )
    response = await kafka.ask(ApiKey.DESCRIBE_ACLS, VERSION, request, DescribeAclsResponse)
    raise_for(response.error_code, response.error_message)
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


async def create_acls(kafka: Kafka, entries: Sequence[AccessControlEntry]) -> None:
    """Add entries; those that are there stay. Raises KafkaProblem for the first that is refused."""
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
    response = await kafka.ask(ApiKey.CREATE_ACLS, VERSION, request, CreateAclsResponse)
    for result in response.results:
        raise_for(result.error_code, result.error_message)


async def delete_acls(kafka: Kafka, wanted: AclFilter) -> list[AccessControlEntry]:
    """Remove those that the filter takes, and return them, sorted. Raises KafkaProblem."""
    one = DeleteAclsFilter(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission_type,
    )
    response = await kafka.ask(ApiKey.DELETE_ACLS, VERSION, DeleteAclsRequest(filters=[one]), DeleteAclsResponse)
    removed: dict[AccessControlEntry, None] = {}
    for result in response.filter_results:
        raise_for(result.error_code, result.error_message)
        for match in result.matching_acls:
            raise_for(match.error_code, match.error_message)
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
    return sorted(removed)
