"""Automatic creation of topics: for a Metadata request (auto.create.topics.enable), or of an internal topic that a
coordinator needs.

The response waits until this node's image has the topic (read-your-writes). Kafka returns an error and lets clients
retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.config.node.internal_topics import internal_topic_setting
from kraft.common.errors import ApiError
from kraft.common.internal_topics import OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from kraft.handlers.registry import RequestContext
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

VISIBLE_SECONDS_MAX = 5.0
COORDINATORS_TOPICS = ([OFFSETS_TOPIC], [TRANSACTION_STATE_TOPIC], [SHARE_GROUP_STATE_TOPIC])
"""Topics of coordinators, requested one at a time."""


def _internal_topic(name: str, broker: BrokerServices) -> CreatableTopic | None:
    config = broker.config
    brokers = sum(not each.fenced for each in broker.metadata.image.cluster.brokers.values())
    if name == TRANSACTION_STATE_TOPIC:
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(internal_topic_setting(config, "transaction.state.log.min.isr", brokers)),
            "segment.bytes": str(config.integer("transaction.state.log.segment.bytes")),
            "unclean.leader.election.enable": "false",
        }
        return CreatableTopic(
            name=name,
            num_partitions=config.integer("transaction.state.log.num.partitions"),
            replication_factor=internal_topic_setting(config, "transaction.state.log.replication.factor", brokers),
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
        )
    if name == SHARE_GROUP_STATE_TOPIC:
        in_sync = internal_topic_setting(config, "share.coordinator.state.topic.min.isr", brokers)
        settings = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(in_sync),
            # Only records that snapshots have made redundant are deleted, whatever the broker's defaults are. Apache
            # Kafka sets no retention.bytes: with a log.retention.bytes it may lose states.
            "retention.bytes": "-1",
            "retention.ms": "-1",
            "segment.bytes": str(config.integer("share.coordinator.state.topic.segment.bytes")),
        }
        return CreatableTopic(
            name=name,
            num_partitions=config.integer("share.coordinator.state.topic.num.partitions"),
            replication_factor=internal_topic_setting(
                config, "share.coordinator.state.topic.replication.factor", brokers
            ),
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
        )
    if name != OFFSETS_TOPIC:
        return None
    return CreatableTopic(
        name=name,
        num_partitions=config.integer("offsets.topic.num.partitions"),
        replication_factor=internal_topic_setting(config, "offsets.topic.replication.factor", brokers),
        configs=[
            CreatableTopicConfig(name="cleanup.policy", value="compact"),
            CreatableTopicConfig(name="compression.type", value="producer"),
            CreatableTopicConfig(name="segment.bytes", value=str(config.integer("offsets.topic.segment.bytes"))),
        ],
    )


async def create_missing(names: list[str], context: RequestContext, broker: BrokerServices) -> dict[str, ApiError]:
    """Create the topics of `names` that do not exist, if the configuration allows it. Returns the error for each topic
    that still does not exist: a code that clients understand, and the reason."""
    wanted: list[CreatableTopic] = []
    refusals: dict[str, ApiError] = {}
    for name in names:
        internal = _internal_topic(name, broker)
        if internal is not None:
            wanted.append(internal)
        elif broker.config.flag("auto.create.topics.enable"):
            wanted.append(CreatableTopic(name=name, num_partitions=-1, replication_factor=-1))
        else:
            refusals[name] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not wanted:
        return refusals
    request = CreateTopicsRequest(topics=wanted, timeout_ms=int(VISIBLE_SECONDS_MAX * 1000))
    try:
        response: CreateTopicsResponse
        if broker.authorizer is not None and names in COORDINATORS_TOPICS:
            response = await broker.controller.send(request)  # A coordinator's look-up needs no right to create.
        else:
            response = await create_for_client(wanted, context, broker)
    except ApiError as problem:
        return refusals | {topic.name: ApiError(ErrorCode.LEADER_NOT_AVAILABLE, problem.message) for topic in wanted}
    return refusals | await _refusals(response, broker)


async def create_for_client(
    wanted: list[CreatableTopic], context: RequestContext, broker: BrokerServices
) -> CreateTopicsResponse:
    """Create topics with the permissions of the client. Raises ApiError as `ControllerChannel.forward` does."""
    request = CreateTopicsRequest(topics=wanted, timeout_ms=int(VISIBLE_SECONDS_MAX * 1000))
    forwarded = RequestContext(
        context.peer,
        CreateTopicsRequest.API_KEY,
        CreateTopicsRequest.VALID_VERSIONS[1],
        0,
        context.client_id,
        context.principal,
    )
    response: CreateTopicsResponse = await broker.controller.forward(request, forwarded)
    return response


async def create_internal_topic(name: str, broker: BrokerServices) -> ApiError | None:
    """Create an internal topic that this broker itself needs. Returns why it does not exist yet, if so."""
    wanted = _internal_topic(name, broker)
    assert wanted is not None, name
    return await _create(wanted, broker)


async def create_dead_letter_topic(name: str, broker: BrokerServices) -> ApiError | None:
    """Create a topic for dead letters of share groups (KIP-1191). Returns why it does not exist yet, if so."""
    settings = {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}
    wanted = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
    )
    return await _create(wanted, broker)


async def _create(wanted: CreatableTopic, broker: BrokerServices) -> ApiError | None:
    """Create a topic as this broker itself. Returns why it does not exist yet, if so."""
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=int(VISIBLE_SECONDS_MAX * 1000))
    try:
        response: CreateTopicsResponse = await broker.controller.send(request)
    except ApiError as problem:
        return problem
    return (await _refusals(response, broker)).get(wanted.name)


async def _refusals(response: CreateTopicsResponse, broker: BrokerServices) -> dict[str, ApiError]:
    """Wait until this broker knows the topics that were created. Returns the error for each other topic."""
    created, refusals = [], dict[str, ApiError]()
    for result in response.topics:
        if result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            created.append(result.name)
        else:
            # As Kafka: a client that meets a passing reason comes again; a bad name is told at once.
            is_final = result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
            code = result.error_code if is_final else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refusals[result.name] = ApiError(code, result.error_message or "")
    if not await topics_visible(created, broker):
        unseen = ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "it was created, and this broker does not know it yet")
        refusals.update(dict.fromkeys(created, unseen))
    return refusals


async def topics_visible(names: list[str], broker: BrokerServices) -> bool:
    """Wait until this node's image has all of `names`; False on timeout."""
    return await broker.metadata.wait_until(
        lambda image: all(image.topics.by_name(name) is not None for name in names), VISIBLE_SECONDS_MAX
    )
