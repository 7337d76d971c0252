"""Access control entries: Confluent's four routes, and the authorizer's decision for one operation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from kraft.admin.acls import create_acls, delete_acls, describe_acls
from kraft.security.acls import (
    KIND_NAMES,
    OPERATION_NAMES,
    PATTERN_NAMES,
    PERMISSION_NAMES,
    AccessControlEntry,
    AclFilter,
)
from kraft_http.models.common import ResourceMetadata
from kraft_http.models.security import (
    AccessVerdict,
    AclBatch,
    AclBody,
    AclData,
    AclDataList,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    AclWords,
    DeletedAcls,
    OneOperation,
    OneResourceType,
    Principal,
    Text,
    number_of,
    words_of,
)
from kraft_http.requests.deps import Cluster, ClusterContext, Port, Writable, whole
from kraft_http.requests.errors import documented
from kraft_http.requests.links import segment

router = APIRouter(tags=["Permissions"])

V3 = "/v3/clusters/{cluster_id}/acls"
_ANY = "ANY"
_Name = Annotated[str | None, Query(min_length=1, max_length=32_767)]


def _filter(
    kind: str, name: str | None, pattern: str, principal: str | None, host: str | None, operation: str, permission: str
) -> AclFilter:
    return AclFilter(
        number_of(kind, KIND_NAMES),
        name,
        number_of(pattern, PATTERN_NAMES),
        principal,
        host,
        number_of(operation, OPERATION_NAMES),
        number_of(permission, PERMISSION_NAMES),
    )


def _self(cluster: ClusterContext, entry: AccessControlEntry) -> str:
    """The URL of the search that finds exactly this entry."""
    query = "&".join(f"{member}={segment(word)}" for member, word in words_of(entry).items())
    return f"{cluster.links.to('acls')}?{query}"


def _data(cluster: ClusterContext, entry: AccessControlEntry) -> AclData:
    return AclData(
        metadata=ResourceMetadata(self=_self(cluster, entry)), cluster_id=cluster.cluster_id, **words_of(entry)
    )


@router.get(V3, summary="Search entries", responses=documented(400, 403, 404))
async def list_acls(
    cluster: Cluster,
    resource_type: AclResourceType = _ANY,
    resource_name: _Name = None,
    pattern_type: AclPatternType = _ANY,
    principal: _Name = None,
    host: _Name = None,
    operation: AclOperation = _ANY,
    permission: AclPermission = _ANY,
) -> AclDataList:
    """List the entries that match all given parameters. `pattern_type=MATCH` with a name finds every entry that applies
    to it."""
    wanted = _filter(resource_type, resource_name, pattern_type, principal, host, operation, permission)
    found = await describe_acls(cluster.kafka, wanted)
    return AclDataList(metadata=whole(cluster.url), data=[_data(cluster, entry) for entry in found])


@router.post(V3, status_code=201, summary="Add an entry", dependencies=[Writable], responses=documented(400, 403, 404))
async def create_acl(cluster: Cluster, body: AclBody) -> Response:
    """Create an entry. One that exists stays as it is. `Location` is a search that finds it."""
    await create_acls(cluster.kafka, [body.entry()])
    return Response(status_code=201, headers={"Location": _self(cluster, body.entry())})


@router.post(
    f"{V3}:batch", status_code=201, summary="Add entries", dependencies=[Writable], responses=documented(400, 403, 404)
)
async def create_acl_batch(cluster: Cluster, body: AclBatch) -> Response:
    """Create entries. If one of them is rejected the response is an error, but the others are created."""
    await create_acls(cluster.kafka, [each.entry() for each in body.data])
    return Response(status_code=201)


@router.delete(V3, summary="Remove entries", dependencies=[Writable], responses=documented(400, 403, 404))
async def remove_acls(
    cluster: Cluster,
    resource_type: AclResourceType,
    pattern_type: AclPatternType,
    operation: AclOperation,
    permission: AclPermission,
    resource_name: _Name = None,
    principal: _Name = None,
    host: _Name = None,
) -> DeletedAcls:
    """Delete the entries that match the parameters. As in Confluent's API, four of them are required."""
    wanted = _filter(resource_type, resource_name, pattern_type, principal, host, operation, permission)
    removed = await delete_acls(cluster.kafka, [wanted])
    return DeletedAcls(data=[_data(cluster, entry) for entry in removed])


@router.get("/v1/acls:test", summary="Whether somebody may do something", responses=documented(400, 403))
async def judge_access(
    port: Port,
    principal: Annotated[Principal, Query()],
    operation: OneOperation,
    resource_type: OneResourceType,
    resource_name: Annotated[Text, Query()] = "kafka-cluster",
    host: Annotated[Text, Query()] = "127.0.0.1",
) -> AccessVerdict:
    """Show how this node's authorizer would decide now, and by which entry. Nothing is tried, and no denial is logged.
    Operations that imply another one count: a principal that may READ may DESCRIBE."""
    kind, wanted = number_of(resource_type, KIND_NAMES), number_of(operation, OPERATION_NAMES)
    facts = await port.access_of(principal, host, wanted, kind, resource_name)
    entry = None if facts.entry is None else AclWords(**words_of(facts.entry))
    return AccessVerdict(allowed=facts.allowed, reason=facts.reason, entry=entry)
