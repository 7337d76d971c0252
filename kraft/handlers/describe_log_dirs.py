"""DescribeLogDirs (KIP-113, KIP-827, KIP-1066): the log directories of this broker, their disk space, their replicas,
and whether they are cordoned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import OnCluster
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kraft.security.acls import Operation
from kraft.world.turns import TURN_PARTITIONS, Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.storage.directories.log_directory import LogDirectory

API = Handler(ApiKey.DESCRIBE_LOG_DIRS, between(1, 5), permission=OnCluster(Operation.DESCRIBE))


@API.serve
async def describe_log_dirs(
    request: DescribeLogDirsRequest, context: RequestContext, broker: BrokerServices
) -> DescribeLogDirsResponse:
    """Describe all replicas, or those of the requested partitions."""
    wanted = None if request.topics is None else await _wanted(request)
    results = [await _describe(directory, wanted, broker) for directory in broker.replicas.logs.directories]
    return DescribeLogDirsResponse(results=results)


async def _wanted(request: DescribeLogDirsRequest) -> set[tuple[str, int]]:
    wanted: set[tuple[str, int]] = set()
    turn = Turn()
    for topic in request.topics or ():
        for index in topic.partitions:
            if turn.is_over():
                await turn.next()
            wanted.add((topic.topic, index))
    return wanted


async def _describe(
    directory: LogDirectory, wanted: set[tuple[str, int]] | None, broker: BrokerServices
) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=directory.path)
    if not directory.is_online:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    try:
        result.total_bytes = broker.world.files.total_bytes(directory.path)
        result.usable_bytes = broker.world.files.free_bytes(directory.path)
    except OSError as problem:
        broker.log.error("log directory cannot be measured", directory=directory.path, reason=str(problem))
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    result.is_cordoned = (
        broker.metadata.image.features.capabilities.serves_cordons and directory.path in broker.replicas.logs.cordoned
    )
    topics: dict[str, DescribeLogDirsTopic] = {}
    turn = Turn(TURN_PARTITIONS)
    for topic_partition, log in [] if wanted == set() else list(directory.logs.items()):
        if turn.is_over():
            await turn.next()
        if wanted is None or (topic_partition.topic, topic_partition.partition) in wanted:
            topic = topics.setdefault(topic_partition.topic, DescribeLogDirsTopic(name=topic_partition.topic))
            lag = max(log.high_watermark - log.log_end_offset, 0)
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=topic_partition.partition, partition_size=log.size, offset_lag=lag
                )
            )
    _describe_moves(directory, wanted, topics, broker)
    result.topics = list(topics.values())
    return result


def _describe_moves(
    directory: LogDirectory,
    wanted: set[tuple[str, int]] | None,
    topics: dict[str, DescribeLogDirsTopic],
    broker: BrokerServices,
) -> None:
    """Add the future replicas that are being moved to the directory, with their lag."""
    for move in broker.replicas.directories.mover.moves():
        name, index = move.partition.topic, move.partition.index
        if move.target is directory and (wanted is None or (name, index) in wanted):
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
            size, lag = move.future.size, max(move.lag, 0)
            topic.partitions.append(
                DescribeLogDirsPartition(partition_index=index, partition_size=size, offset_lag=lag, is_future_key=True)
            )
