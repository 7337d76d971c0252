"""What is wanted of a broker, forgetting one, its log directories, and how far its replicas are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraft.common.broker_state import DESIRED_STATE
from kraft.common.ids import DEBUGGING_REPLICA
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse, DescribeLogDirsResult
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.list_offsets_response import ListOffsetsResponse
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from kraft_http.kafka.client import Kafka, ask_brokers, raise_for
from kraft_http.kafka.configs import Change, ConfigTarget, alter_configs

BROKER_RESOURCE = 4
SET, DELETE = 0, 1
LATEST, EARLIEST = -1, -2

Place = tuple[str, int]


async def want_state(kafka: Kafka, broker_id: int, state: str | None) -> None:
    """Say what is wanted of a broker (`kraft.common.broker_state`); None: nothing in particular. Raises
    KafkaProblem."""
    change = Change(DESIRED_STATE, DELETE if state is None else SET, state)
    await alter_configs(kafka, ConfigTarget(BROKER_RESOURCE, str(broker_id)), [change])


async def unregister(kafka: Kafka, broker_id: int) -> None:
    """Have the cluster forget a broker. Raises KafkaProblem."""
    response = await kafka.ask(
        ApiKey.UNREGISTER_BROKER, 0, UnregisterBrokerRequest(broker_id=broker_id), UnregisterBrokerResponse
    )
    raise_for(response.error_code, response.error_message)


async def describe_log_dirs(
    kafka: Kafka, broker_id: int, topic: tuple[str, Sequence[int]] | None = None
) -> list[DescribeLogDirsResult]:
    """The log directories of one broker, by path; one that failed has its error code. `topic` limits the replicas to
    those partitions. Raises KafkaProblem."""
    topics = None if topic is None else [DescribableLogDirTopic(topic=topic[0], partitions=list(topic[1]))]
    response = await kafka.ask(
        ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse, broker_id
    )
    raise_for(response.error_code)
    return sorted(response.results, key=lambda result: result.log_dir)


async def replica_offsets(
    kafka: Kafka, replicas: Mapping[int, Sequence[Place]], timestamp: int = LATEST
) -> dict[tuple[int, Place], int]:
    """Where the logs of replicas end (or begin: EARLIEST), by broker and partition, each asked of its own broker;
    those that cannot be told are left out. `kafka.silent` tells which brokers did not answer."""

    async def ask(broker_id: int) -> list[tuple[tuple[int, Place], int]]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, partition in replicas[broker_id]:
            topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
        request = ListOffsetsRequest(
            replica_id=DEBUGGING_REPLICA,
            topics=[ListOffsetsTopic(name=name, partitions=asked) for name, asked in topics.items()],
        )
        response = await kafka.ask(ApiKey.LIST_OFFSETS, 7, request, ListOffsetsResponse, broker_id)
        told = [
            (answer.name, each)
            for answer in response.topics
            for each in answer.partitions
            if each.error_code == ErrorCode.NONE
        ]
        return [((broker_id, (name, each.partition_index)), each.offset) for name, each in told]

    return dict(pair for pairs in await ask_brokers(kafka, ask, sorted(replicas)) for pair in pairs)
