"""The queries about topics that jobs need."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kraft.mirror.topic_configs import shown
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.spark.client.wire import WireCluster, metadata_request
from kraft.spark.errors import not_authorized
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.cluster_requests import SECONDS_MAX, answered, ask_any, asked
from kraft.spark.jobs.running import JobFailed, JobNotFound
from kraft.spark.source.options import EARLIEST

POLL_SECONDS = 0.1
NO_CONFIGS: Mapping[str, str] = MappingProxyType({})
WHAT_TO_DO = "`kraft topics list` shows the topics, `kraft topics create` creates one"
ABSENT = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


class SeenTopic(NamedTuple):
    """A cluster's description of a topic. `partitions` is None if the topic does not exist. `id` is None then too, and
    with brokers older than topic ids (KIP-516)."""

    cluster: str
    id: str | None
    partitions: int | None


def look_up(at: Access, topic: str) -> SeenTopic:
    """Describe a topic. A cluster without an id is identified by its address. Raises JobFailed if no broker answers."""
    answer = ask_any(at, metadata_request(topic))
    found, name = answer.topics[0], answer.cluster_id or at.bootstrap
    if found.error_code in ABSENT:
        return SeenTopic(name, None, None)
    if found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise JobFailed(str(not_authorized(topic, "Describe", at.security.principal)))
    if found.error_code:
        raise JobFailed(f"topic {topic}: {name_of(found.error_code)}")
    return SeenTopic(
        name, str(uuid.UUID(bytes=bytes(found.topic_id))) if any(found.topic_id) else None, len(found.partitions)
    )


def require_topic(at: Access, topic: str) -> SeenTopic:
    """Describe a topic. Raises JobNotFound if it does not exist, JobFailed."""
    found = look_up(at, topic)
    if found.partitions is None:
        raise JobNotFound(f"topic {topic} does not exist at {at.bootstrap}: {WHAT_TO_DO}")
    return found


def log_starts(at: Access, topic: str) -> dict[int, int]:
    """Return each partition's log start offset. Waits for leader elections. Raises JobFailed."""
    deadline = time.monotonic() + SECONDS_MAX

    def ask(cluster: WireCluster) -> dict[int, int]:
        return {
            partition: cluster.offset(topic, partition, EARLIEST, deadline)
            for partition in sorted(cluster.partitions(topic))
        }

    return asked(at, ask, f"the first offsets of topic {topic} at {at.bootstrap}: ")


def ensure_topic(at: Access, topic: str, partitions: int, configs: Mapping[str, str] = NO_CONFIGS) -> SeenTopic:
    """Create the topic if it does not exist. Raises JobFailed."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    found = look_up(at, topic)
    if found.partitions is not None:
        return found
    admin = AdminClient(
        {"bootstrap.servers": at.bootstrap, **at.security.librdkafka()}
    )  # Kept until the answer is there.
    try:
        made = admin.create_topics([NewTopic(topic, partitions, config=dict(configs))])[topic]
        answered(made, f"it is unknown whether topic {topic} was created")
    except KafkaException as problem:
        asked_for = f" with {shown(configs)}" if configs else ""  # What a refusal may be about.
        raise JobFailed(f"topic {topic} cannot be created{asked_for}: {problem.args[0].str()}") from problem
    return until_seen(at, topic)


def add_partitions(at: Access, topic: str, count: int) -> None:
    """Increase the number of partitions to `count`. Raises JobFailed."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewPartitions

    admin = AdminClient({"bootstrap.servers": at.bootstrap, **at.security.librdkafka()})
    try:
        grown = admin.create_partitions([NewPartitions(topic, count)])[topic]
        answered(grown, f"it is unknown whether topic {topic} has {count} partitions")
    except KafkaException as problem:
        raise JobFailed(f"topic {topic} cannot have {count} partitions: {problem.args[0].str()}") from problem
    until_seen(at, topic, count)


def until_seen(at: Access, topic: str, partitions: int = 1) -> SeenTopic:
    """Wait until a new topic, or its new partitions, are visible: a node's metadata may lag a little."""
    deadline = time.monotonic() + SECONDS_MAX
    while ((found := look_up(at, topic)).partitions or 0) < partitions:
        if time.monotonic() > deadline:
            raise JobFailed(f"topic {topic} with {partitions} partitions did not appear within {SECONDS_MAX} s")
        time.sleep(POLL_SECONDS)
    return found


def identity_of(topic: str, found: SeenTopic, side: str = "") -> dict[str, str | None]:
    """Return the entries about a topic in a job's document: cluster id, name and topic id. `side` distinguishes two
    topics."""
    return {f"{side}cluster": found.cluster, f"{side}topic": topic, f"id of {side}topic {topic}": found.id}


def check_there(topic: str, found: SeenTopic, checkpoint: str) -> None:
    """Raise JobFailed if a topic to which an earlier run has written does not exist any more."""
    if found.partitions is None:
        what = f"topic {topic} no longer exists, but {checkpoint} records what was written to it"
        raise JobFailed(f"{what}: to write everything again, give another checkpoint, or remove this one")
