"""CreateAcls and DeleteAcls: what is refused, what is written, and what others do meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.controller.controller_result import MAX_RECORDS_PER_USER_OPERATION
from kraft.controller.controls.acl_control import COMPARED_MAX, create_acls, find_acls
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kraft.security.acls import ANY, AccessControlEntry, Operation, PatternType, Permission, ResourceKind
from kraft.world.simulated import Universe
from kraft.world.steps import at_once
from tests.unit.controller.harness import running, simulate
from tests.unit.controller.pure_cluster import PureCluster

CONTEXT = ControllerRequestContext(3)


def entry(name: str = "t", **fields: Any) -> AccessControlEntry:
    plain = AccessControlEntry(
        ResourceKind.TOPIC, name, PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW
    )
    return plain._replace(**fields)


def creation(wanted: AccessControlEntry) -> AclCreation:
    fields = wanted._asdict()
    return AclCreation(resource_pattern_type=fields.pop("pattern_type"), **fields)


def every(**fields: Any) -> DeleteAclsFilter:
    plain: dict[str, Any] = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return DeleteAclsFilter(**(plain | fields))


REFUSED = {
    "another cluster": (
        entry("x", resource_type=ResourceKind.CLUSTER),
        ErrorCode.INVALID_REQUEST,
        "The only valid name for the CLUSTER resource is kafka-cluster",
    ),
    "no name": (entry(""), ErrorCode.INVALID_REQUEST, "Invalid empty resource name"),
    "any kind": (entry(resource_type=ANY), ErrorCode.UNKNOWN_SERVER_ERROR, "resourceType ANY is for filters only"),
    "any operation": (entry(operation=ANY), ErrorCode.UNKNOWN_SERVER_ERROR, "operation ANY is for filters only"),
    "match": (
        entry(pattern_type=PatternType.MATCH),
        ErrorCode.UNKNOWN_SERVER_ERROR,
        "patternType MATCH is for filters only",
    ),
    "any permission": (
        entry(permission_type=ANY),
        ErrorCode.UNKNOWN_SERVER_ERROR,
        "permissionType ANY is for filters only",
    ),
    "unknown operation": (entry(operation=99), ErrorCode.INVALID_REQUEST, "Invalid operation UNKNOWN"),
    "no principal": (
        entry(principal="alice"),
        ErrorCode.INVALID_REQUEST,
        "Could not parse principal from `alice` "
        "(no colon is present separating the principal type from the principal name)",
    ),
}


def test_each_acl_entry_is_written_once_or_refused_with_its_own_error() -> None:
    async def main(universe: Universe) -> None:
        async with running(universe) as rig:
            wanted = [entry(), *(refused for refused, _, _ in REFUSED.values()), entry("u"), entry()]
            request = CreateAclsRequest(creations=[creation(each) for each in wanted])
            answers = (await rig.controller.requests.create_acls(request, CONTEXT)).results
            expected = [(0, ""), *((code, said) for _, code, said in REFUSED.values()), (0, ""), (0, "")]
            assert [(answer.error_code, answer.error_message) for answer in answers] == expected
            assert sorted(rig.image.acls.by_id.values()) == [entry(), entry("u")]

    simulate(main)


def test_acls_matching_several_filters_are_deleted_once_and_reported_for_each_filter() -> None:
    async def main(universe: Universe) -> None:
        async with running(universe) as rig:
            those = [entry(), entry("u"), entry("v", permission_type=Permission.DENY)]
            await rig.controller.requests.create_acls(
                CreateAclsRequest(creations=[creation(each) for each in those]), CONTEXT
            )
            filters = [every(resource_name_filter="t"), every(operation=99), every(permission_type=Permission.ALLOW)]
            answer = await rig.controller.requests.delete_acls(DeleteAclsRequest(filters=filters), CONTEXT)
            told = [
                (result.error_code, sorted(match.resource_name for match in result.matching_acls))
                for result in answer.filter_results
            ]
            assert told == [(0, ["t"]), (ErrorCode.INVALID_REQUEST, []), (0, ["t", "u"])]
            assert list(rig.image.acls.by_id.values()) == [those[2]]

    simulate(main)


def _acls(count: int) -> OrderedMap[bytes, AccessControlEntry]:
    return OrderedMap({number.to_bytes(16, "big"): entry(f"t{number}") for number in range(count)})


@pytest.mark.parametrize(
    ("filters", "count", "said"),
    [
        ([every(resource_name_filter="t1")] * (COMPARED_MAX // 1000 + 1), 1000, "send fewer"),
        ([every()] * 3, MAX_RECORDS_PER_USER_OPERATION // 3 + 1, "send several requests"),
    ],
)
def test_an_acl_request_with_too_much_work_is_refused(filters: list[Any], count: int, said: str) -> None:
    with pytest.raises(ApiError, match=said) as refused:
        at_once(find_acls(_acls(count), DeleteAclsRequest(filters=filters)))
    assert refused.value.code == ErrorCode.POLICY_VIOLATION


def test_comparing_acl_filters_yields_to_other_tasks() -> None:
    steps = sum(1 for _ in find_acls(_acls(50), DeleteAclsRequest(filters=[every(), every()])))
    assert steps == 100


@pytest.mark.parametrize(
    ("host", "metadata_version", "code", "message"),
    [
        ("10.0.0.0/8", 32, ErrorCode.NONE, ""),
        ("2001:db8::/32", 33, ErrorCode.NONE, ""),
        (
            "10.0.0.0/8",
            31,
            ErrorCode.UNSUPPORTED_VERSION,
            "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.",
        ),
        (
            "nonsense/8",
            30,
            ErrorCode.UNSUPPORTED_VERSION,
            "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.",
        ),
        (
            "10.0.0.0/33",
            32,
            ErrorCode.INVALID_REQUEST,
            "Invalid CIDR notation '10.0.0.0/33': Value [33] not in range [0,32]",
        ),
        ("", 30, ErrorCode.INVALID_REQUEST, "Host pattern cannot be null or empty"),
        ("anything else", 30, ErrorCode.NONE, ""),
    ],
)
def test_ranges_of_addresses_need_a_metadata_version_that_has_them(
    host: str, metadata_version: int, code: int, message: str
) -> None:
    cluster = PureCluster(metadata_version=metadata_version)
    request = CreateAclsRequest(creations=[creation(entry(host=host)), creation(entry("other"))])
    ids = iter((b"1" * 16, b"2" * 16))
    result = create_acls(cluster.view, request, lambda: next(ids))
    refused, other = result.response.results
    assert (refused.error_code, refused.error_message) == (code, message)
    assert other.error_code == ErrorCode.NONE
    assert [record.host for record in result.records] == ["*"] if code else [host, "*"]
