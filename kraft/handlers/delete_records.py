"""DeleteRecords (KIP-107): raise a partition's log start offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.errors import ApiError
from kraft.handlers.errors import EXPECTED, code_of
from kraft.handlers.produce import INTERNAL_TOPICS
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from kraft.protocol.messages.delete_records_response import DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopicResult

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

API = Handler(ApiKey.DELETE_RECORDS, between(0, 2))


@API.serve
async def delete_records(request: DeleteRecordsRequest, context: RequestContext, broker: BrokerServices) -> DeleteRecordsResponse:
    """Each partition answers for itself with its new low watermark."""
    response = DeleteRecordsResponse()
    for topic in request.topics:
        results = [_delete(topic.name, wanted, broker) for wanted in topic.partitions]
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return response


def _delete(topic: str, wanted: DeleteRecordsPartition, broker: BrokerServices) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
    try:
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal: its records are not deleted on request")
        partition = broker.replicas.partition(topic, wanted.partition_index)
        partition.check_leader()
        if "delete" not in partition.log.config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"{partition}: only topics whose cleanup.policy has delete give up records on request")
        result.low_watermark = partition.delete_records_before(wanted.offset)
    except EXPECTED as problem:
        result.error_code = code_of(problem)
    return result
