"""AlterReplicaLogDirs (KIP-113): move replicas of this broker to the given log directories. The response does not wait
for the moves to finish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.errors import ApiError, NotLeader
from kraft.handlers.errors import EXPECTED, code_of
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import OnCluster
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from kraft.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kraft.security.acls import Operation
from kraft.world.steps import Steps
from kraft.world.turns import TURN_PARTITIONS, Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

API = Handler(ApiKey.ALTER_REPLICA_LOG_DIRS, between(1, 2), permission=OnCluster(Operation.ALTER))

_ABSENT = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


@API.serve
async def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, context: RequestContext, broker: BrokerServices
) -> AlterReplicaLogDirsResponse:
    """Start the moves. Each replica has its own error code."""
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    turn = Turn(TURN_PARTITIONS)
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                if turn.is_over():
                    await turn.next()
                code = _alter(topic.name, index, directory.path, broker)
                results.setdefault(topic.name, []).append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                )
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=each) for name, each in results.items()]
    )


@API.error
def _failed(request: AlterReplicaLogDirsRequest, code: int, message: str | None) -> Steps[AlterReplicaLogDirsResponse]:
    response = AlterReplicaLogDirsResponse()
    for directory in request.dirs:
        for topic in directory.topics:
            answer = AlterReplicaLogDirTopicResult(topic_name=topic.name)
            response.results.append(answer)
            for index in topic.partitions:
                answer.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
                yield None
    return response


def _alter(topic: str, index: int, path: str, broker: BrokerServices) -> int:
    """Start the move of one replica and return its error code. A replica that this broker does not host gets
    REPLICA_NOT_AVAILABLE, which Kafka's tools expect."""
    try:
        broker.replicas.directories.alter(topic, index, path.rstrip("/") or path)
    except EXPECTED as problem:
        absent = isinstance(problem, NotLeader) or (isinstance(problem, ApiError) and problem.code in _ABSENT)
        return ErrorCode.REPLICA_NOT_AVAILABLE if absent else code_of(problem)
    return ErrorCode.NONE
