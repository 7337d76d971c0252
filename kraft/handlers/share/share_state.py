"""The share coordinator's APIs (KIP-932), which leaders of partitions and group coordinators use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kraft.common.errors import ApiError
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import OnCluster
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import delete_share_group_state_response as deleted
from kraft.protocol.messages import initialize_share_group_state_response as initialized
from kraft.protocol.messages import read_share_group_state_response as read
from kraft.protocol.messages import read_share_group_state_summary_response as summarized
from kraft.protocol.messages import write_share_group_state_response as written
from kraft.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from kraft.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from kraft.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from kraft.protocol.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
from kraft.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from kraft.security.acls import Operation
from kraft.world.steps import Steps

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

_BY_BROKERS = OnCluster(Operation.CLUSTER_ACTION)

INITIALIZE = Handler(ApiKey.INITIALIZE_SHARE_GROUP_STATE, between(0, 0), permission=_BY_BROKERS)
READ = Handler(ApiKey.READ_SHARE_GROUP_STATE, between(0, 0), permission=_BY_BROKERS)
WRITE = Handler(ApiKey.WRITE_SHARE_GROUP_STATE, between(0, 1), permission=_BY_BROKERS)
DELETE = Handler(ApiKey.DELETE_SHARE_GROUP_STATE, between(0, 0), permission=_BY_BROKERS)
READ_SUMMARY = Handler(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, between(0, 1), permission=_BY_BROKERS)

APIS = (INITIALIZE, READ, WRITE, DELETE, READ_SUMMARY)


@INITIALIZE.serve
async def initialize(
    request: InitializeShareGroupStateRequest, context: RequestContext, broker: BrokerServices
) -> initialized.InitializeShareGroupStateResponse:
    require_share_groups(broker)
    return await broker.share_coordinator.initialize(request)


@READ.serve
async def read_state(
    request: ReadShareGroupStateRequest, context: RequestContext, broker: BrokerServices
) -> read.ReadShareGroupStateResponse:
    require_share_groups(broker)
    return await broker.share_coordinator.read(request)


@WRITE.serve
async def write_state(
    request: WriteShareGroupStateRequest, context: RequestContext, broker: BrokerServices
) -> written.WriteShareGroupStateResponse:
    require_share_groups(broker)
    return await broker.share_coordinator.write(request)


@DELETE.serve
async def delete_state(
    request: DeleteShareGroupStateRequest, context: RequestContext, broker: BrokerServices
) -> deleted.DeleteShareGroupStateResponse:
    require_share_groups(broker)
    return await broker.share_coordinator.delete(request)


@READ_SUMMARY.serve
async def read_state_summary(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext, broker: BrokerServices
) -> summarized.ReadShareGroupStateSummaryResponse:
    require_share_groups(broker)
    return await broker.share_coordinator.read_summary(request)


def require_share_groups(broker: BrokerServices) -> None:
    """Raises ApiError UNSUPPORTED_VERSION while share groups are disabled."""
    if not broker.serves_share_groups:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "Share groups are off (feature share.version).")


def _failed(
    request: Any,
    response: Any,
    topic_class: Callable[..., Any],
    result_class: Callable[..., Any],
    code: int,
    message: str | None,
) -> Steps[Any]:
    """The response with `code` for every partition of the request. Yields after each partition."""
    for topic in request.topics:
        results = []
        for each in topic.partitions:
            results.append(result_class(partition=each.partition, error_code=code, error_message=message))
            yield None
        response.results.append(topic_class(topic_id=topic.topic_id, partitions=results))
    return response


@INITIALIZE.error
def _initialize_failed(
    request: InitializeShareGroupStateRequest, code: int, message: str | None
) -> Steps[initialized.InitializeShareGroupStateResponse]:
    response = initialized.InitializeShareGroupStateResponse()
    return _failed(request, response, initialized.InitializeStateResult, initialized.PartitionResult, code, message)


@READ.error
def _read_failed(
    request: ReadShareGroupStateRequest, code: int, message: str | None
) -> Steps[read.ReadShareGroupStateResponse]:
    response = read.ReadShareGroupStateResponse()
    return _failed(request, response, read.ReadStateResult, read.PartitionResult, code, message)


@WRITE.error
def _write_failed(
    request: WriteShareGroupStateRequest, code: int, message: str | None
) -> Steps[written.WriteShareGroupStateResponse]:
    response = written.WriteShareGroupStateResponse()
    return _failed(request, response, written.WriteStateResult, written.PartitionResult, code, message)


@DELETE.error
def _delete_failed(
    request: DeleteShareGroupStateRequest, code: int, message: str | None
) -> Steps[deleted.DeleteShareGroupStateResponse]:
    response = deleted.DeleteShareGroupStateResponse()
    return _failed(request, response, deleted.DeleteStateResult, deleted.PartitionResult, code, message)


@READ_SUMMARY.error
def _read_summary_failed(
    request: ReadShareGroupStateSummaryRequest, code: int, message: str | None
) -> Steps[summarized.ReadShareGroupStateSummaryResponse]:
    response = summarized.ReadShareGroupStateSummaryResponse()
    return _failed(request, response, summarized.ReadStateSummaryResult, summarized.PartitionResult, code, message)
