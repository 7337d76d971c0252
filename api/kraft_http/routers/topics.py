"""Topics: list, create, describe, grow, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Header, Query, Request, Response

from kraft.admin.authorized_operations import topic_operations
from kraft.admin.metadata import Topic
from kraft.admin.topics import CLUSTER_DEFAULT, create_topic, delete_topic, describe_topic, grow_topic
from kraft.common.ids import uuid_to_text
from kraft_http.models.common import Relationship, ResourceMetadata
from kraft_http.models.topics import CreateTopicBody, TopicData, TopicDataList, UpdateTopicBody
from kraft_http.ports import AdminPort, ListedTopic, TopicFacts
from kraft_http.requests.deps import (
    Cluster,
    ClusterContext,
    IncludeOperations,
    PageQuery,
    Port,
    Recent,
    TopicNamePath,
    Writable,
)
from kraft_http.requests.errors import ApiProblem, documented
from kraft_http.requests.idempotency import KEY_CHARACTERS_MAX, IdempotencyKeys

router = APIRouter(prefix="/v3/clusters/{cluster_id}/topics", tags=["Topics"])

TopicOrder = Literal[
    "name",
    "-name",
    "partitions_count",
    "-partitions_count",
    "replication_factor",
    "-replication_factor",
    "records",
    "-records",
    "leader_bytes",
    "-leader_bytes",
    "records_in",
    "-records_in",
    "bytes_in",
    "-bytes_in",
    "bytes_out",
    "-bytes_out",
    "lag",
    "-lag",
]


def _replication_factor(topic: Topic) -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0


_TOPIC_KEYS: Final[dict[str, Callable[[ListedTopic], str]]] = {
    "name": lambda topic: topic.name,
    "partitions_count": lambda topic: f"{topic.partitions_count:010d} {topic.name}",
    "replication_factor": lambda topic: f"{topic.replication_factor:010d} {topic.name}",
}
"""Page tokens compare numbers as text, so a number is formatted such that texts have the order of numbers. The topic
name distinguishes equal numbers."""
FACTS_MAX: Final = 2_000
"""Limit of topics whose facts a list needs: every broker is asked about all of them."""
FACTS_A_STEP: Final = 100


@router.get("", summary="List topics", responses=documented(404))
async def list_topics(
    cluster: Cluster,
    page: PageQuery,
    port: Port,
    recent: Recent,
    response: Response,
    q: Annotated[str | None, Query(description="Only topics whose name contains this text.")] = None,
    include_internal: Annotated[
        bool, Query(description="Whether internal topics such as __consumer_offsets are listed.")
    ] = True,
    sort: Annotated[TopicOrder, Query(description="Field to sort by. A leading minus reverses the order.")] = "name",
    empty_only: Annotated[bool, Query(description="Only topics without records.")] = False,
    tells: IncludeOperations = False,
) -> TopicDataList:
    """List topics. The header X-Total-Count has the number of topics on all pages. `empty_only`, and sorting by a value
    of /v1/topic-facts, are limited to 2,000 topics (narrow them with `q`), and need the permission to describe the
    cluster. Values of brokers that do not answer count as 0; `empty_only` is rejected then. For sorting, values are
    cached for two seconds; for `empty_only` they are always fetched."""
    topics = [
        topic
        for topic in await port.listed_topics()
        if (q is None or q in topic.name) and (include_internal or not topic.is_internal)
    ]
    order, descending = sort.removeprefix("-"), sort.startswith("-")
    facts: dict[str, TopicFacts] = {}
    names = tuple(topic.name for topic in topics)
    if empty_only:
        facts = await _facts(port, names, all_of_them=True)
    elif order not in _TOPIC_KEYS:
        facts = await recent.of(("facts", port.permissions(), names), lambda: _facts(port, names, all_of_them=False))
    if empty_only:
        topics = [topic for topic in topics if topic.name in facts and facts[topic.name].records == 0]
    key = _TOPIC_KEYS.get(order) or _key_of_facts(facts, order)
    topics.sort(key=key, reverse=descending)
    shown, metadata = page.cut(topics, key, cluster.url, descending=descending)
    response.headers["X-Total-Count"] = str(len(topics))
    data = [
        _topic_data(
            cluster, each.name, each.topic_id, each.replication_factor, each.partitions_count, internal=each.is_internal
        )
        for each in shown
    ]
    if tells:
        await _add_operations(cluster, data)
    return TopicDataList(kind="KafkaTopicList", metadata=metadata, data=data)


async def _facts(port: AdminPort, names: Sequence[str], *, all_of_them: bool) -> dict[str, TopicFacts]:
    """The facts of the topics by name. Raises ApiProblem for too many topics, and with `all_of_them` if a broker does
    not answer; ApiError if the caller may not describe the cluster."""
    if len(names) > FACTS_MAX:
        detail = f"{len(names)} topics are too many to compare by what they hold and do; {FACTS_MAX} are allowed."
        raise ApiProblem(400, detail, hint="Narrow them by q.")
    found: dict[str, TopicFacts] = {}
    for first in range(0, len(names), FACTS_A_STEP):
        told = await port.topic_facts(names[first : first + FACTS_A_STEP])
        if told.silent and all_of_them:
            raise ApiProblem(503, f"Which topics are empty is not known: broker {told.silent[0]} does not answer.")
        found |= {each.name: each for each in told.topics}
    return found


def _key_of_facts(facts: Mapping[str, TopicFacts], order: str) -> Callable[[ListedTopic], str]:
    def key(topic: ListedTopic) -> str:
        value = getattr(facts[topic.name], order) if topic.name in facts else 0
        return f"{round(1000 * value):024d} {topic.name}"

    return key


@router.post(
    "",
    status_code=201,
    summary="Create a topic",
    dependencies=[Writable],
    responses=documented(400, 403, 404)
    | {
        200: {"model": TopicData},
        422: {"description": "The Idempotency-Key came with another body before. Nothing was done."},
    },
)
async def post_topic(
    request: Request,
    port: Port,
    cluster: Cluster,
    body: CreateTopicBody,
    response: Response,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=KEY_CHARACTERS_MAX,
            description=(
                "Key that the client chooses, a new one for each topic. A repeated request with it gets the "
                "first response, for an hour. Only this node knows it, until it stops; it keeps the last "
                "thousand."
            ),
        ),
    ] = None,
) -> TopicData:
    """Create a topic. With `validate_only` nothing is created, and the status is 200. A failed request is carried out
    again when it is repeated, whatever its Idempotency-Key."""
    if idempotency_key is None:
        topic = await _create_topic(cluster, body)
    else:
        keys: IdempotencyKeys = request.app.state.idempotency_keys
        topic = await keys.of(
            port.principal(), idempotency_key, body.model_dump_json().encode(), lambda: _create_topic(cluster, body)
        )
    if body.validate_only:
        response.status_code = 200
    else:
        response.headers["Location"] = topic.metadata.self
    return topic


async def _create_topic(cluster: ClusterContext, body: CreateTopicBody) -> TopicData:
    _check_placement(body)
    assignments = {int(partition): brokers for partition, brokers in (body.replicas_assignments or {}).items()}
    created = await create_topic(
        cluster.kafka,
        body.topic_name,
        partitions=CLUSTER_DEFAULT if assignments else body.partitions_count or CLUSTER_DEFAULT,
        replication_factor=CLUSTER_DEFAULT if assignments else body.replication_factor or CLUSTER_DEFAULT,
        assignments=assignments,
        configs={entry.name: entry.value for entry in body.configs},
        validate_only=body.validate_only,
    )
    return _topic_data(
        cluster, body.topic_name, created.topic_id, created.replication_factor, created.partitions, internal=False
    )


def _check_placement(body: CreateTopicBody) -> None:
    if body.replicas_assignments and (body.partitions_count or body.replication_factor):
        raise ApiProblem(
            400,
            (
                "replicas_assignments says how many partitions and replicas there are: leave out partitions_count "
                "and replication_factor."
            ),
        )
    names = [entry.name for entry in body.configs]
    if len(dict.fromkeys(names)) != len(names):
        raise ApiProblem(400, "configs names a key twice.", error_code=40002)


@router.get("/{topic_name}", summary="Describe a topic", responses=documented(404))
async def get_topic(cluster: Cluster, topic_name: TopicNamePath, tells: IncludeOperations = False) -> TopicData:
    data = topic_data(cluster, await describe_topic(cluster.kafka, topic_name))
    if tells:
        await _add_operations(cluster, [data])
    return data


async def _add_operations(cluster: ClusterContext, topics: Sequence[TopicData]) -> None:
    names = [topic.topic_name for topic in topics]
    operations = await topic_operations(cluster.kafka, names) if names else {}
    for topic in topics:
        topic.authorized_operations = list(operations.get(topic.topic_name, ()))


@router.patch(
    "/{topic_name}", summary="Add partitions to a topic", dependencies=[Writable], responses=documented(400, 403, 404)
)
async def patch_topic(cluster: Cluster, topic_name: TopicNamePath, body: UpdateTopicBody) -> TopicData:
    """Add partitions. New records with a key may go to another partition than earlier records with the same key."""
    await grow_topic(cluster.kafka, topic_name, body.partitions_count)
    topic = await describe_topic(cluster.kafka, topic_name)
    return topic_data(cluster, topic, partitions_count=max(len(topic.partitions), body.partitions_count))


@router.delete(
    "/{topic_name}",
    status_code=204,
    summary="Delete a topic and all its records",
    dependencies=[Writable],
    responses=documented(403, 404),
)
async def remove_topic(cluster: Cluster, topic_name: TopicNamePath) -> Response:
    await delete_topic(cluster.kafka, topic_name)
    return Response(status_code=204)


def topic_data(cluster: ClusterContext, topic: Topic, partitions_count: int | None = None) -> TopicData:
    count = len(topic.partitions) if partitions_count is None else partitions_count
    return _topic_data(
        cluster, topic.name, topic.topic_id, _replication_factor(topic), count, internal=topic.is_internal
    )


def _topic_data(
    cluster: ClusterContext, name: str, topic_id: bytes, factor: int, partitions: int, *, internal: bool
) -> TopicData:
    links = cluster.links
    own = links.to("topics", name)
    return TopicData(
        kind="KafkaTopic",
        metadata=ResourceMetadata(self=own, resource_name=links.name(f"topic={name}")),
        cluster_id=cluster.cluster_id,
        topic_name=name,
        topic_id=uuid_to_text(topic_id),
        is_internal=internal,
        replication_factor=factor,
        partitions_count=partitions,
        partitions=Relationship(related=f"{own}/partitions"),
        configs=Relationship(related=f"{own}/configs"),
        partition_reassignments=Relationship(related=f"{own}/partitions/-/reassignment"),
    )
