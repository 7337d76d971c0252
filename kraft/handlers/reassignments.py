"""The error responses of AlterPartitionReassignments and ListPartitionReassignments when the whole request fails. As in
Apache Kafka they list every requested partition."""

from __future__ import annotations

from kraft.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from kraft.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kraft.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kraft.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kraft.world.steps import Steps


def alter_failed(
    request: AlterPartitionReassignmentsRequest, code: int, message: str | None
) -> Steps[AlterPartitionReassignmentsResponse]:
    """The response with `code` at the top level and for each partition."""
    response = AlterPartitionReassignmentsResponse(error_code=code, error_message=message)
    for topic in request.topics:
        result = ReassignableTopicResponse(name=topic.name)
        response.responses.append(result)
        for partition in topic.partitions:
            result.partitions.append(
                ReassignablePartitionResponse(
                    partition_index=partition.partition_index, error_code=code, error_message=message
                )
            )
            yield None
    return response


def list_failed(
    request: ListPartitionReassignmentsRequest, code: int, message: str | None
) -> Steps[ListPartitionReassignmentsResponse]:
    """The response with `code` at the top level; each requested partition is listed without replicas."""
    response = ListPartitionReassignmentsResponse(error_code=code, error_message=message)
    for topic in request.topics or ():
        result = OngoingTopicReassignment(name=topic.name)
        response.topics.append(result)
        for index in topic.partition_indexes:
            result.partitions.append(OngoingPartitionReassignment(partition_index=index))
            yield None
    return response
