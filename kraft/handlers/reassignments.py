"""What AlterPartitionReassignments and ListPartitionReassignments answer where they fail as a whole: every partition
that was named, as Apache Kafka does."""

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
    """The code stands above the partitions, too."""
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
    """Partitions without replicas."""
    response = ListPartitionReassignmentsResponse(error_code=code, error_message=message)
    for topic in request.topics or ():
        result = OngoingTopicReassignment(name=topic.name)
        response.topics.append(result)
        for index in topic.partition_indexes:
            result.partitions.append(OngoingPartitionReassignment(partition_index=index))
            yield None
    return response
