"""CreateAcls and DeleteAcls (KIP-140, KIP-801). Every entry and filter has its own result. All changes are written in
one batch. An entry that already exists is not written again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kraft.common.errors import ApiError
from kraft.common.metadata_versions import CIDR_ACLS_LEVEL, METADATA_VERSION_NAMES
from kraft.controller.controller_result import MAX_RECORDS_PER_USER_OPERATION, ControllerResult, check_operation_size
from kraft.controller.controller_view import ControllerView
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.records.access_control_entry_record import AccessControlEntryRecord
from kraft.metadata.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from kraft.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kraft.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from kraft.protocol.messages.describe_acls_request import DescribeAclsRequest
from kraft.security.acls import (
    ANY,
    CLUSTER_NAME,
    KIND_NAMES,
    OPERATION_NAMES,
    PATTERN_NAMES,
    PERMISSION_NAMES,
    UNKNOWN,
    AccessControlEntry,
    AclFilter,
    PatternType,
    ResourceKind,
)
from kraft.security.address_ranges import is_range, parse_range
from kraft.world.steps import Steps

COMPARED_MAX: Final = 200_000
"""Limit of comparisons of entries with filters in one DeleteAcls. A filter for exactly one entry needs none."""
NAME_BYTES_MAX: Final = 32_767
"""Longest name, principal or host in a record, in bytes."""


def create_acls(
    view: ControllerView, request: CreateAclsRequest, new_id: Callable[[], bytes]
) -> ControllerResult[CreateAclsResponse]:
    """Return the records and the response for CreateAcls. Raises ApiError POLICY_VIOLATION for more records than one
    operation may write."""
    response = CreateAclsResponse()
    with_ranges = view.capabilities.serves_address_ranges
    records: dict[AccessControlEntry, Any] = {}
    for creation in request.creations:
        result = AclCreationResult(error_message="")
        response.results.append(result)
        try:
            entry = entry_of(creation)
            _check_host(entry.host, with_ranges=with_ranges)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        if entry not in view.image.acls.rules and entry not in records:
            records[entry] = AccessControlEntryRecord(id=new_id(), **entry._asdict())
    check_operation_size(list(records))
    return ControllerResult(list(records.values()), response, atomic=True)


def entry_of(creation: AclCreation) -> AccessControlEntry:
    """Return the requested entry. Raises ApiError INVALID_REQUEST for invalid values, UNKNOWN_SERVER_ERROR for values
    that only a filter may have."""
    entry = AccessControlEntry(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )
    if entry.resource_type == ResourceKind.CLUSTER and entry.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not entry.resource_name:
        raise _invalid("Invalid empty resource name")
    for field, value, names, refused in (
        ("resourceType", entry.resource_type, KIND_NAMES, (ANY,)),
        ("patternType", entry.pattern_type, PATTERN_NAMES, (ANY, PatternType.MATCH)),
        ("operation", entry.operation, OPERATION_NAMES, (ANY,)),
        ("permissionType", entry.permission_type, PERMISSION_NAMES, (ANY,)),
    ):
        if value == UNKNOWN or value not in names:
            raise _invalid(f"Invalid {field} {names[UNKNOWN]}")
        if value in refused:
            # Kafka has no better code for a value that only a filter may have.
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{field} {names[value]} is for filters only")
    if ":" not in entry.principal:
        raise _invalid(
            f"Could not parse principal from `{entry.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    if any(len(text.encode()) > NAME_BYTES_MAX for text in (entry.resource_name, entry.principal, entry.host)):
        raise _invalid(f"A name, a principal and a host have at most {NAME_BYTES_MAX} bytes each")
    return entry


def _check_host(host: str, *, with_ranges: bool) -> None:
    """Check the host of a new entry (KIP-1276). Raises ApiError INVALID_REQUEST, or UNSUPPORTED_VERSION for a range in
    a cluster whose metadata.version does not have them."""
    if not host:
        raise _invalid("Host pattern cannot be null or empty")
    if not is_range(host):
        return
    if not with_ranges:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "CIDR-based ACL host patterns require metadata version "
            f"{METADATA_VERSION_NAMES[CIDR_ACLS_LEVEL]} or higher.",
        )
    try:
        parse_range(host)
    except ValueError as problem:
        raise _invalid(f"Invalid CIDR notation '{host}': {problem}") from None


@dataclass(frozen=True, slots=True)
class Found:
    """The entries that a DeleteAcls request matches. `filters` has, for each filter, the ids and entries, or the error
    that refuses it."""

    filters: tuple[list[tuple[bytes, AccessControlEntry]] | ApiError, ...]


def find_acls(acls: OrderedMap[bytes, AccessControlEntry], request: DeleteAclsRequest) -> Steps[Found]:
    """Compare every entry with every filter. Yields after each. Raises ApiError POLICY_VIOLATION for more work than one
    operation may cause."""
    found: list[list[tuple[bytes, AccessControlEntry]] | ApiError] = []
    compared = matches = 0
    for wanted in request.filters:
        try:
            taken = filter_of(wanted)
        except ApiError as error:
            found.append(error)
            continue
        compared += len(acls)
        if compared > max(COMPARED_MAX, len(acls)):
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"{len(request.filters)} filters over {len(acls)} entries are too many for one request; send fewer",
            )
        taken_entries: list[tuple[bytes, AccessControlEntry]] = []
        for acl_id, entry in acls.items():
            if taken.takes(entry):
                taken_entries.append((acl_id, entry))
            yield None
        matches += len(taken_entries)
        if matches > MAX_RECORDS_PER_USER_OPERATION:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"the filters match more than {MAX_RECORDS_PER_USER_OPERATION} entries; send several requests",
            )
        found.append(taken_entries)
    return Found(tuple(found))


def delete_acls(view: ControllerView, found: Found) -> ControllerResult[DeleteAclsResponse]:
    """Return the records and the response for DeleteAcls. Entries that another request has deleted since they were
    found are left out."""
    acls = view.image.acls.by_id
    response = DeleteAclsResponse()
    removed: dict[bytes, Any] = {}
    for entries in found.filters:
        result = DeleteAclsFilterResult(error_message=None)
        response.filter_results.append(result)
        if isinstance(entries, ApiError):
            result.error_code, result.error_message = entries.code, entries.message
            continue
        for acl_id, entry in entries:
            if acl_id in acls:
                removed[acl_id] = RemoveAccessControlEntryRecord(id=acl_id)
                result.matching_acls.append(DeleteAclsMatchingAcl(error_message=None, **entry._asdict()))
    check_operation_size(list(removed))
    return ControllerResult(list(removed.values()), response, atomic=True)


def filter_of(wanted: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    """Return the requested filter. Raises ApiError INVALID_REQUEST for a value that Kafka does not define."""
    taken = AclFilter(
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        wanted.pattern_type_filter,
        wanted.principal_filter,
        wanted.host_filter,
        wanted.operation,
        wanted.permission_type,
    )
    if taken.is_unknown:
        raise _invalid("The filter has a resource type, pattern type, operation or permission that is unknown.")
    return taken


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
