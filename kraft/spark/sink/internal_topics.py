"""The internal topics of the sink in the target cluster. They are created when they are first needed."""

from __future__ import annotations

import time
from collections.abc import Mapping

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.spark.client.wire import RETRY_SECONDS, UNKNOWN_TOPIC, WireCluster, WireError

REPLICAS = 3
"""The replication factor, as of Kafka's internal topics, if there are as many nodes."""


def ensure_topic(
    cluster: WireCluster, topic: str, partitions: int, configs: Mapping[str, str], deadline: float
) -> None:
    """Create the topic if it does not exist. Raises WireError or OSError if it does not exist by `deadline`
    (monotonic)."""
    while True:
        try:
            cluster.partitions(topic)
            return
        except (OSError, WireError) as problem:
            final = isinstance(problem, WireError) and not problem.is_retriable
            if final or time.monotonic() > deadline:
                raise
            unknown = isinstance(problem, WireError) and problem.code in UNKNOWN_TOPIC
        if unknown:
            create_topic(cluster, topic, partitions, configs)
        time.sleep(RETRY_SECONDS)


def create_topic(cluster: WireCluster, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Create the topic. Raises OSError, and WireError unless the error is retriable or the topic already exists."""
    replicas = min(REPLICAS, max(1, len(cluster.view.nodes)))
    wanted = {**configs, "min.insync.replicas": "2" if replicas == REPLICAS else "1"}
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic,
                num_partitions=partitions,
                replication_factor=replicas,
                configs=[CreatableTopicConfig(name=name, value=value) for name, value in wanted.items()],
            )
        ],
        timeout_ms=30_000,
    )
    answer = cluster.any_call(request).topics[0]
    if answer.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        return
    problem = WireError(answer.error_code, f"creating topic {topic} ({answer.error_message or 'no reason is given'})")
    if not problem.is_retriable:
        raise problem
