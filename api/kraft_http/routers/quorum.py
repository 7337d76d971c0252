"""The metadata quorum: voters, observers, their progress; adding and removing voters."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from kraft.admin.cluster import QuorumReplica as Replica
from kraft.admin.cluster import describe_quorum
from kraft.admin.members import add_voter, remove_voter
from kraft.common.ids import ZERO_UUID, uuid_from_text, uuid_to_text
from kraft_http.models.clusters import QuorumData, QuorumEndpoint, QuorumReplica
from kraft_http.models.common import INT32_MAX, ResourceMetadata
from kraft_http.models.operations import AddVoterBody
from kraft_http.requests.deps import Cluster, Writable
from kraft_http.requests.errors import ApiProblem, documented, not_found

router = APIRouter(prefix="/v3/clusters/{cluster_id}/quorum", tags=["Quorum"])

VoterIdPath = Annotated[int, Path(ge=0, le=INT32_MAX, description="Node id of the voter.")]
UUID_PATTERN = r"^[A-Za-z0-9_-]{22}$"


@router.get("", summary="Describe the metadata quorum", responses=documented(404))
async def get_quorum(cluster: Cluster) -> QuorumData:
    quorum = await describe_quorum(cluster.kafka)
    endpoints: dict[int, list[QuorumEndpoint]] = {}
    for node_id, name, host, port in quorum.endpoints:
        endpoints.setdefault(node_id, []).append(QuorumEndpoint(name=name, host=host, port=port))

    def shown(replica: Replica) -> QuorumReplica:
        return QuorumReplica(
            node_id=replica.node_id,
            directory_id=None if replica.directory_id == ZERO_UUID else uuid_to_text(replica.directory_id),
            is_leader=replica.node_id == quorum.leader_id,
            log_end_offset=replica.log_end_offset,
            lag=replica.lag,
            last_fetch_timestamp=replica.last_fetch_ms,
            last_caught_up_timestamp=replica.last_caught_up_ms,
            endpoints=endpoints.get(replica.node_id, []),
        )

    return QuorumData(
        kind="KafkaQuorum",
        metadata=ResourceMetadata(self=cluster.links.to("quorum"), resource_name=cluster.links.name("quorum")),
        cluster_id=cluster.cluster_id,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        voters=[shown(replica) for replica in quorum.voters],
        observers=[shown(replica) for replica in quorum.observers],
    )


@router.post(
    "/voters",
    status_code=201,
    summary="Make an observer a voter",
    dependencies=[Writable],
    responses=documented(400, 403, 404, 409),
)
async def post_voter(
    cluster: Cluster,
    body: AddVoterBody,
    response: Response,
    timeout_ms: Annotated[
        int, Query(ge=0, le=30_000, description="Longest time for the node to respond and to catch up.")
    ] = 30_000,
) -> QuorumData:
    """Add a voter. The node must already run, as an observer. One change at a time. Needs kraft.version 1 (dynamic
    voters)."""
    directory_id = _uuid(body.directory_id)
    await add_voter(
        cluster.kafka,
        body.node_id,
        directory_id,
        [(each.name, each.host, each.port) for each in body.endpoints],
        timeout_ms,
    )
    response.headers["Location"] = cluster.links.to("quorum")
    return await get_quorum(cluster)


@router.delete(
    "/voters/{voter_id}",
    status_code=204,
    summary="Take a node's vote away",
    dependencies=[Writable],
    responses=documented(400, 403, 404, 409),
)
async def delete_voter(
    cluster: Cluster,
    voter_id: VoterIdPath,
    directory_id: Annotated[
        str | None,
        Query(
            pattern=UUID_PATTERN,
            description="Directory id of the voter. Required if the node votes with several directories.",
        ),
    ] = None,
) -> Response:
    """Remove a voter. Its metadata stays on its disk; a running node continues as an observer. Needs kraft.version
    1."""
    if directory_id is not None:
        directory = _uuid(directory_id)
    else:
        found = [
            each.directory_id for each in (await describe_quorum(cluster.kafka)).voters if each.node_id == voter_id
        ]
        if not found:
            raise not_found(f"Voter {voter_id}")
        if len(found) > 1:
            raise ApiProblem(400, f"Node {voter_id} votes with several directories: name one as directory_id.")
        directory = found[0]
    await remove_voter(cluster.kafka, voter_id, directory)
    return Response(status_code=204)


def _uuid(text: str) -> bytes:
    try:
        return bytes(uuid_from_text(text))
    except ValueError as problem:
        raise ApiProblem(400, str(problem)) from problem
