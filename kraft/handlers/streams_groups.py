"""StreamsGroupHeartbeat, StreamsGroupDescribe and StreamsGroupTopologyDescriptionUpdate (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kraft.common.errors import ApiError
from kraft.common.internal_topics import INTERNAL_TOPICS
from kraft.coordinator.group.streams.configured_topology import NAMED_TOPICS_MAX, Status
from kraft.handlers.groups.request_size import request_bytes_max
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.authorized_operations import access_of
from kraft.handlers.security.described_groups import authorize_described, describe_failed
from kraft.handlers.security.group_member import OnGroupAndTopics
from kraft.handlers.security.permissions import OnGroup, WhenServed, on_groups
from kraft.metadata.topic_names import reason_invalid
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kraft.protocol.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse
from kraft.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kraft.protocol.messages.streams_group_heartbeat_response import Status as StatusMessage
from kraft.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kraft.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from kraft.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from kraft.security.acls import Operation, ResourceKind

if TYPE_CHECKING:
    from kraft.coordinator.group.streams.topology import InternalTopic
    from kraft.handlers.services import BrokerServices

RETRY_INTERVALS: Final = 2
"""Heartbeat intervals after which a failed creation of an internal topic is tried again, as in Kafka."""

HIDDEN: Final = "The described group uses topics that the client is not authorized to describe."
DESCRIPTION_NOT_STORED: Final = 1
"""Status of a described group whose topology description was requested, and that has none."""


def _require_protocol(broker: BrokerServices) -> None:
    """Raises ApiError UNSUPPORTED_VERSION if streams groups are off in the cluster or on this broker."""
    if not broker.serves_streams_groups:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "Streams groups are off (feature streams.version).")


def _topics_of(request: StreamsGroupHeartbeatRequest) -> list[str]:
    """The names of all topics in the request's topology, without duplicates."""
    found: dict[str, None] = {}
    for each in () if request.topology is None else request.topology.subtopologies:
        found.update(dict.fromkeys((*each.source_topics, *each.repartition_sink_topics)))
        found.update(dict.fromkeys(topic.name for topic in each.repartition_source_topics))
        found.update(dict.fromkeys(topic.name for topic in each.state_changelog_topics))
    return list(found)


def _check_names(topics: list[str]) -> None:
    """Raises ApiError STREAMS_INVALID_TOPOLOGY for internal topics of the cluster and for invalid names."""
    if prohibited := [name for name in topics if name in INTERNAL_TOPICS]:
        raise ApiError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited.",
        )
    if invalid := [name for name in topics if reason_invalid(name) is not None]:
        raise ApiError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic names {','.join(invalid)} are not valid topic names."
        )


def _checked_topics(request: StreamsGroupHeartbeatRequest) -> list[str]:
    """See `_topics_of`. Raises ApiError STREAMS_INVALID_TOPOLOGY."""
    topics = _topics_of(request)
    _check_names(topics)
    return topics


HEARTBEAT = Handler(
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    between(0, 1),
    permission=WhenServed(_require_protocol, OnGroupAndTopics(_checked_topics)),
    frame_bytes_max=request_bytes_max,
)


@HEARTBEAT.serve
async def heartbeat(
    request: StreamsGroupHeartbeatRequest, context: RequestContext, broker: BrokerServices
) -> StreamsGroupHeartbeatResponse:
    """Handle a heartbeat, and create the internal topics that are missing if the caller may create them all."""
    _require_protocol(broker)
    _check_names(_topics_of(request))
    response, missing = await broker.groups.streams.heartbeat(request, context)
    if missing:
        await _create_topics(response, missing, context, broker)
    return response


async def _create_topics(
    response: StreamsGroupHeartbeatResponse,
    missing: Mapping[str, InternalTopic],
    context: RequestContext,
    broker: BrokerServices,
) -> None:
    """Create the missing topics. What prevents it is added to the status of the response."""
    access = access_of(context, broker)
    if access is not None and not access.may(Operation.CREATE, ResourceKind.CLUSTER):
        refused = [name for name in missing if not access.allows(Operation.CREATE, ResourceKind.TOPIC, name)]
        if refused:
            _add_detail(response, f"Unauthorized to CREATE on topics {','.join(refused)}.")
            return
    retry_seconds = RETRY_INTERVALS * response.heartbeat_interval_ms / 1000
    failed = await broker.streams_topics.create(missing, context, broker, retry_seconds)
    if failed:
        shown = ", ".join(f"{name} ({failed[name]})" for name in sorted(failed)[:NAMED_TOPICS_MAX])
        _add_detail(response, f"Creation failed: {shown}.")


def _add_detail(response: StreamsGroupHeartbeatResponse, detail: str) -> None:
    response.status = response.status or []
    for status in response.status:
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {detail}"
            return
    response.status.append(StatusMessage(status_code=Status.MISSING_INTERNAL_TOPICS, status_detail=detail))


DESCRIBE = Handler(
    ApiKey.STREAMS_GROUP_DESCRIBE,
    between(0, 1),
    permission=WhenServed(_require_protocol, on_groups(Operation.DESCRIBE, "group_ids", "groups")),
)


@DESCRIBE.serve
async def describe(
    request: StreamsGroupDescribeRequest, context: RequestContext, broker: BrokerServices
) -> StreamsGroupDescribeResponse:
    """Describe groups, with authorized operations (KIP-430). A group with a topic that the caller may not describe gets
    an error instead. No group has a topology description."""
    _require_protocol(broker)
    response = await broker.groups.streams.describe(request)
    if request.include_topology_description:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.topology_description_status = DESCRIPTION_NOT_STORED
    await authorize_described(request, response.groups, context, broker, _described_topics, HIDDEN)
    return response


def _described_topics(group: DescribedGroup) -> list[str]:
    """The sorted names of the topics of the described topology."""
    found: set[str] = set()
    for each in () if group.topology is None else group.topology.subtopologies or ():
        found |= {*each.source_topics, *each.repartition_sink_topics}
        found |= {topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics)}
    return sorted(found)


DESCRIBE.error(describe_failed(StreamsGroupDescribeResponse, DescribedGroup))


DESCRIPTION = Handler(
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    between(0, 0),
    permission=WhenServed(_require_protocol, OnGroup(Operation.READ)),
    frame_bytes_max=request_bytes_max,
)


@DESCRIPTION.serve
async def update_topology_description(
    request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext, broker: BrokerServices
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Refuse the description, as a broker of Apache Kafka does without a plugin that stores descriptions."""
    _require_protocol(broker)
    raise ApiError(
        ErrorCode.UNSUPPORTED_VERSION, "The broker has no streams group topology description plugin configured."
    )


APIS = (HEARTBEAT, DESCRIBE, DESCRIPTION)
