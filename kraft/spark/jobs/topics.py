"""The few questions about topics that jobs have."""

from __future__ import annotations

from kraft.common.errors import KraftError
from kraft.protocol.error_codes import ErrorCode
from kraft.spark.jobs.running import JobFailed, JobNotFound
from kraft.spark.wire import WireCluster, WireError

SECONDS_MAX = 30


def partition_count(bootstrap: str, topic: str) -> int | None:
    """None when the topic does not exist. Raises JobFailed when nobody answers."""
    try:
        cluster = WireCluster(bootstrap)
        try:
            return len(cluster.partitions(topic))
        finally:
            cluster.close()
    except WireError as problem:
        if problem.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            return None
        raise JobFailed(str(problem)) from problem
    except (OSError, ValueError, KraftError) as problem:
        raise JobFailed(str(problem)) from problem


def require_topic(bootstrap: str, topic: str) -> int:
    """Its number of partitions. Raises JobNotFound, JobFailed."""
    count = partition_count(bootstrap, topic)
    if count is None:
        raise JobNotFound(f"topic {topic} does not exist at {bootstrap}")
    return count


def ensure_topic(bootstrap: str, topic: str, partitions: int) -> int:
    """Create it unless it is there; answers its number of partitions. Raises JobFailed."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    found = partition_count(bootstrap, topic)
    if found is not None:
        return found
    admin = AdminClient({"bootstrap.servers": bootstrap})  # Kept until the answer is there.
    try:
        admin.create_topics([NewTopic(topic, partitions)])[topic].result(SECONDS_MAX)
    except KafkaException as problem:
        raise JobFailed(f"topic {topic} cannot be created: {problem.args[0].str()}") from problem
    return partitions
