"""Metadata (KIP-4, KIP-78, KIP-204, KIP-430, KIP-516): brokers, topics, leaders; creates missing topics where that
is asked for and allowed.

The controller id answered is a live broker, never a controller-only node. Encoded answers are kept per image, keyed
by the request's own bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kraft.common.ids import ZERO_UUID
from kraft.handlers.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from kraft.handlers.auto_topic_creation import create_missing
from kraft.handlers.produce import INTERNAL_TOPICS
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.network.reply import Reply
from kraft.protocol import api_keys
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.metadata.image.partition_registration import PartitionRegistration
    from kraft.metadata.image.topics_image import TopicImage

API = Handler(ApiKey.METADATA, between(0, 13))


@API.serve_raw
def metadata(
    frame: memoryview, position: int, context: RequestContext, broker: BrokerServices
) -> Reply | Awaitable[Reply]:
    """From the kept answers, or anew."""
    key = (context.api_version, context.peer.listener, bytes(frame[position:]))
    body = broker.metadata.encoded.get(key)
    if body is not None:
        return _framed(context, body)
    request, _ = MetadataRequest.decode_from(key[2], 0, context.api_version)
    return _answer(request, key, context, broker)


async def _answer(
    request: MetadataRequest, key: tuple[int, str, bytes], context: RequestContext, broker: BrokerServices
) -> Reply:
    if code := _fault(request, context.api_version):
        return _framed(context, _refused(request, code).encode(context.api_version))
    refusals: dict[str, int] = {}
    if _may_create(request, context):
        missing = [
            topic.name
            for topic in request.topics or ()
            if topic.name and broker.metadata.image.topics.by_name(topic.name) is None
        ]
        if missing:
            refusals = await create_missing(missing, context, broker)
    response = _respond(request, refusals, context, broker)
    body = response.encode(context.api_version)
    if not any(topic.error_code for topic in response.topics):
        broker.metadata.remember(key, body)
    return _framed(context, body)


def _framed(context: RequestContext, body: bytes) -> Reply:
    if api_keys.response_header_version(context.api_key, context.api_version) == 1:
        return Reply((struct.pack(">iib", len(body) + 5, context.correlation_id, 0), body))
    return Reply((struct.pack(">ii", len(body) + 4, context.correlation_id), body))


def _fault(request: MetadataRequest, version: int) -> int:
    """The code of a request that is refused as a whole, or 0. Topic ids count from version 12 on (KIP-516), and
    something must name each topic."""
    for wanted in request.topics or ():
        if version < 12 and (wanted.topic_id != ZERO_UUID or wanted.name is None):
            return ErrorCode.INVALID_REQUEST
        if wanted.topic_id == ZERO_UUID and wanted.name is None:
            return ErrorCode.UNKNOWN_SERVER_ERROR
    return 0


def _refused(request: MetadataRequest, code: int) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(error_code=code, name=wanted.name or "", topic_id=wanted.topic_id)
        for wanted in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code)


def _may_create(request: MetadataRequest, context: RequestContext) -> bool:
    return request.topics is not None and (request.allow_auto_topic_creation or context.api_version < 4)


def _respond(
    request: MetadataRequest, refusals: dict[str, int], context: RequestContext, broker: BrokerServices
) -> MetadataResponse:
    version = context.api_version
    nodes = broker.metadata.live_brokers(context.peer.listener)
    response = MetadataResponse(cluster_id=broker.cluster_id)
    listed = broker.metadata.listed_brokers(context.peer.listener)
    response.brokers = [
        MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in listed
    ]
    response.controller_id = some_live_broker([node.id for node in nodes], broker)
    live = frozenset(node.id for node in nodes)
    topics = broker.metadata.image.topics
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    if request.topics is None or (version == 0 and not request.topics):
        response.topics = [_topic(topic, live, version, operations) for topic in topics.topics_by_name()]
    else:
        once = {(wanted.topic_id, wanted.name): wanted for wanted in request.topics}
        response.topics = [_requested(wanted, refusals, live, context, operations, broker) for wanted in once.values()]
    if request.include_cluster_authorized_operations and 8 <= version <= 10:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def some_live_broker(live: list[int], broker: BrokerServices) -> int:
    """A live broker for clients that look for "the controller": any will do, since all forward. This node where it
    is live, so that answers stay the same."""
    own = broker.config.node_id
    return own if own in live else (live[0] if live else -1)


def _requested(
    wanted: MetadataRequestTopic,
    refusals: dict[str, int],
    live: frozenset[int],
    context: RequestContext,
    operations: int,
    broker: BrokerServices,
) -> MetadataResponseTopic:
    topics = broker.metadata.image.topics
    if wanted.topic_id != ZERO_UUID:
        topic = topics.by_id.get(wanted.topic_id)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        return _topic(topic, live, context.api_version, operations)
    name = wanted.name or ""
    topic = topics.by_name(name)
    if topic is None:
        code = refusals.get(name) or (
            ErrorCode.INVALID_TOPIC_EXCEPTION if not name else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        return MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)
    return _topic(topic, live, context.api_version, operations)


def _topic(topic: TopicImage, live: frozenset[int], version: int, operations: int) -> MetadataResponseTopic:
    partitions = [_partition(index, partition, live, version) for index, partition in topic.partitions.items()]
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _partition(
    index: int, partition: PartitionRegistration, live: frozenset[int], version: int
) -> MetadataResponsePartition:
    offline = [replica for replica in partition.replicas if replica not in live]
    leader = partition.leader
    code = 0
    if leader not in live:
        code = ErrorCode.LEADER_NOT_AVAILABLE
        leader = -1
    replicas, isr = list(partition.replicas), list(partition.isr)
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )
