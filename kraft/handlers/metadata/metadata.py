"""Metadata (KIP-4, KIP-78, KIP-204, KIP-430, KIP-516): brokers, topics, leaders. It creates missing topics if the
request and the configuration allow it.

The controller id in the response is a live broker's, never that of a controller-only node. Encoded responses are cached
under the request's bytes until topics or brokers change.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable
from typing import TYPE_CHECKING

import trio

from kraft.common.errors import ProtocolError
from kraft.common.ids import ZERO_UUID
from kraft.common.internal_topics import INTERNAL_TOPICS
from kraft.handlers.metadata.auto_topic_creation import create_missing
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.authorized_operations import NOT_ASKED, access_of, cluster_operations, operations_on
from kraft.handlers.security.permissions import ASKS_INSIDE
from kraft.handlers.throttling import wait_ms
from kraft.metadata.metadata_cache import ENCODED_KEY_BYTES_MAX, EncodedKey
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
from kraft.security.acls import Operation, ResourceKind
from kraft.world.steps import Steps
from kraft.world.turns import TURN_ITEMS, Turn, in_turns

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.metadata.image.partition_registration import PartitionRegistration
    from kraft.metadata.image.topics_image import TopicImage, TopicsImage
    from kraft.security.authorizer import Access

API = Handler(ApiKey.METADATA, between(0, 13), permission=ASKS_INSIDE)

THROTTLE_VERSION = 3
"""From this version on a response begins with the throttle time."""

REQUEST_BYTES_MAX = 16 << 20
"""Limit of a request: more than the limit of topics, with names of average length."""
CREATED_AT_ONCE_MAX = 1000
"""Limit of missing topics created by one request. The client requests the rest again."""
PARTITION_ITEMS = 3
"""Number of items for which one partition of the response counts in a `Turn`."""


@API.serve_raw
def metadata(
    frame: memoryview, position: int, context: RequestContext, broker: BrokerServices
) -> Reply | Awaitable[Reply]:
    """Return the cached response, or encode a new one. Raises ProtocolError for an invalid request or one larger than
    REQUEST_BYTES_MAX."""
    if len(frame) > REQUEST_BYTES_MAX:
        raise ProtocolError(f"a Metadata request of {len(frame)} bytes, of which there may be {REQUEST_BYTES_MAX}")
    body = bytes(frame[position:])
    who = "" if broker.authorizer is None else f"{context.principal} {context.peer.host}"
    key = (context.api_version, context.peer.listener, body, who) if len(body) <= ENCODED_KEY_BYTES_MAX else None
    kept = None if key is None else broker.metadata.encoded.get(key)
    return _framed(context, kept, broker) if kept is not None else _answer(body, key, context, broker)


async def _answer(body: bytes, key: EncodedKey | None, context: RequestContext, broker: BrokerServices) -> Reply:
    """Encode the response. Concurrent requests with the same bytes wait for it instead of encoding it again."""
    if key is None:
        return _framed(context, await _encoded(body, key, context, broker), broker)
    while (made := broker.metadata.being_made.get(key)) is not None:
        await made.wait()
        if (kept := broker.metadata.encoded.get(key)) is not None:
            return _framed(context, kept, broker)
    made = broker.metadata.being_made[key] = trio.Event()
    try:
        return _framed(context, await _encoded(body, key, context, broker), broker)
    finally:
        del broker.metadata.being_made[key]
        made.set()


async def _encoded(body: bytes, key: EncodedKey | None, context: RequestContext, broker: BrokerServices) -> bytearray:
    """Encode the response. It is cached if it has no error and the metadata has not changed meanwhile."""
    version = context.api_version
    request, _ = await in_turns(MetadataRequest.decode_in_turns(body, 0, version))
    out = bytearray()
    if code := await _fault(request, version):
        refused = await in_turns(_refused(request, code, None), TURN_ITEMS)
        await in_turns(refused.encode_in_turns(out, version))
        return out
    refusals: dict[str, int] = {}
    if _may_create(request, context):
        missing = await _missing(request, broker)
        if missing and (access := access_of(context, broker)) is not None:
            missing = _may_be_made(missing, access, refusals, broker)
        if missing:
            refusals |= {name: each.code for name, each in (await create_missing(missing, context, broker)).items()}
    image = broker.metadata.image
    response = await _respond(request, refusals, context, broker)
    await in_turns(response.encode_in_turns(out, version))
    if key is not None and not any(topic.error_code for topic in response.topics):
        broker.metadata.remember(key, out, image)
    return out


async def _missing(request: MetadataRequest, broker: BrokerServices) -> list[str]:
    """The topics that the request names and that do not exist, without duplicates; at most CREATED_AT_ONCE_MAX."""
    missing: dict[str, None] = {}
    turn = Turn()
    for topic in request.topics or ():
        if turn.is_over():
            await turn.next()
        if topic.name and broker.metadata.image.topics.by_name(topic.name) is None:
            missing[topic.name] = None
            if len(missing) == CREATED_AT_ONCE_MAX:
                break
    return list(missing)


def _may_be_made(missing: list[str], access: Access, refusals: dict[str, int], broker: BrokerServices) -> list[str]:
    """The missing topics that the client may create. A topic that it may describe but not create gets an entry in
    `refusals`."""
    may_all = not broker.config.flag("auto.create.topics.enable") or access.may(Operation.CREATE, ResourceKind.CLUSTER)
    allowed = []
    for name in missing:
        if not access.may(Operation.DESCRIBE, ResourceKind.TOPIC, name):
            continue
        if may_all or access.allows(Operation.CREATE, ResourceKind.TOPIC, name):
            allowed.append(name)
        else:
            refusals[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return allowed


def _framed(context: RequestContext, body: bytes | bytearray, broker: BrokerServices) -> Reply:
    waits = 0
    if context.meter is not None:
        waits = wait_ms(context, broker.quotas)
        if waits and context.api_version >= THROTTLE_VERSION:
            body = struct.pack(">i", waits) + body[4:]  # A kept answer tells no wait.
    if api_keys.response_header_version(context.api_key, context.api_version) == 1:
        return Reply((struct.pack(">iib", len(body) + 5, context.correlation_id, 0), body), waits)
    return Reply((struct.pack(">ii", len(body) + 4, context.correlation_id), body), waits)


async def _fault(request: MetadataRequest, version: int) -> int:
    """The error code for an invalid request, or 0. Every topic must have a name or an id; ids are allowed from version
    12 (KIP-516)."""
    turn = Turn()
    for wanted in request.topics or ():
        if turn.is_over():
            await turn.next()
        if version < 12 and (wanted.topic_id != ZERO_UUID or wanted.name is None):
            return ErrorCode.INVALID_REQUEST
        if wanted.topic_id == ZERO_UUID and wanted.name is None:
            return ErrorCode.UNKNOWN_SERVER_ERROR
    return 0


@API.error
def _refused(request: MetadataRequest, code: int, message: str | None) -> Steps[MetadataResponse]:
    response = MetadataResponse(error_code=code)
    for wanted in request.topics or ():
        response.topics.append(MetadataResponseTopic(error_code=code, name=wanted.name or "", topic_id=wanted.topic_id))
        yield None
    return response


def _may_create(request: MetadataRequest, context: RequestContext) -> bool:
    return request.topics is not None and (request.allow_auto_topic_creation or context.api_version < 4)


async def _respond(
    request: MetadataRequest, refusals: dict[str, int], context: RequestContext, broker: BrokerServices
) -> MetadataResponse:
    """Build the response from one metadata image, even if that yields to other tasks."""
    version = context.api_version
    nodes = broker.metadata.live_brokers(context.peer.listener)
    topics = broker.metadata.image.topics
    response = MetadataResponse(cluster_id=broker.cluster_id)
    listed = broker.metadata.listed_brokers(context.peer.listener)
    response.brokers = [
        MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in listed
    ]
    response.controller_id = some_live_broker([node.id for node in nodes], broker)
    live = frozenset(node.id for node in nodes)
    access = access_of(context, broker)
    tells = request.include_topic_authorized_operations
    refused: list[MetadataResponseTopic] = []
    turn = Turn()
    if request.topics is None or (version == 0 and not request.topics):
        for topic in topics.topics_by_name():
            if access is None or access.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic.name):
                operations = operations_on(ResourceKind.TOPIC, topic.name, access) if tells else NOT_ASKED
                response.topics.append(await _topic(topic, live, operations, turn))
            elif turn.is_over():
                await turn.next()
    else:
        seen: set[tuple[bytes, str | None]] = set()
        for wanted in request.topics:
            if turn.is_over():
                await turn.next()
            if (wanted.topic_id, wanted.name) not in seen:
                seen.add((wanted.topic_id, wanted.name))
                name = _name_of(wanted, topics)
                if access is not None and name and not access.allows(Operation.DESCRIBE, ResourceKind.TOPIC, name):
                    refused.append(_hidden(wanted, name))
                    continue
                operations = operations_on(ResourceKind.TOPIC, name, access) if tells and name else NOT_ASKED
                response.topics.append(await _requested(wanted, topics, refusals, live, operations, turn))
    response.topics += refused
    if request.include_cluster_authorized_operations and 8 <= version <= 10:
        response.cluster_authorized_operations = cluster_operations(access)
    return response


def _name_of(wanted: MetadataRequestTopic, topics: TopicsImage) -> str:
    """The name of the requested topic; empty for an unknown id."""
    if wanted.topic_id == ZERO_UUID:
        return wanted.name or ""
    topic = topics.by_id.get(wanted.topic_id)
    return "" if topic is None else topic.name


def _hidden(wanted: MetadataRequestTopic, name: str) -> MetadataResponseTopic:
    """The result for a topic that the client may not describe. As in Apache Kafka, an id is not hidden as unknown:
    clients retry an unknown id for ever."""
    if wanted.topic_id != ZERO_UUID:
        return MetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=wanted.topic_id
        )
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, is_internal=name in INTERNAL_TOPICS
    )


def some_live_broker(live: list[int], broker: BrokerServices) -> int:
    """The broker that is given as "the controller". Any live broker will do, since all forward. This node if it is
    live, so that the answer is stable."""
    own = broker.config.node_id
    return own if own in live else (live[0] if live else -1)


async def _requested(
    wanted: MetadataRequestTopic,
    topics: TopicsImage,
    refusals: dict[str, int],
    live: frozenset[int],
    operations: int,
    turn: Turn,
) -> MetadataResponseTopic:
    if wanted.topic_id != ZERO_UUID:
        topic = topics.by_id.get(wanted.topic_id)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        return await _topic(topic, live, operations, turn)
    name = wanted.name or ""
    topic = topics.by_name(name)
    if topic is None:
        code = refusals.get(name) or (
            ErrorCode.INVALID_TOPIC_EXCEPTION if not name else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        return MetadataResponseTopic(
            error_code=code,
            name=name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=operations,
        )
    return await _topic(topic, live, operations, turn)


async def _topic(topic: TopicImage, live: frozenset[int], operations: int, turn: Turn) -> MetadataResponseTopic:
    response = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
    )
    for index, partition in topic.partitions.items():
        response.partitions.append(_partition(index, partition, live))
        if turn.is_over(PARTITION_ITEMS):
            await turn.next()
    return response


def _partition(index: int, partition: PartitionRegistration, live: frozenset[int]) -> MetadataResponsePartition:
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
