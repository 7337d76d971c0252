"""Look-ups by librdkafka's admin client, for logins and certificates that only librdkafka supports (Kerberos,
OAUTHBEARER, its own `kafka.ssl.*`).

When a connection breaks, librdkafka may report no error for the request, and -1001 as the offset. A request that it has
queued for a leader that is gone stays queued for its whole timeout.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as WireTopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from kraft.common.ids import TopicPartition
from kraft.spark.errors import LookUpFailed
from kraft.spark.source.look_ups import TIMEOUT_MS, Offsets, SeenTopic
from kraft.spark.source.options import EARLIEST, LATEST

T = TypeVar("T")
UNKNOWN = (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)


class AdminLookUps:
    """Look-ups by librdkafka's admin client. `config` is librdkafka's. The client is opened on first use."""

    def __init__(self, config: Mapping[str, Any], timeout_ms: int = TIMEOUT_MS) -> None:
        self.config = config
        self.timeout_s = timeout_ms / 1000
        self.client: AdminClient | None = None

    @property
    def admin(self) -> AdminClient:
        if self.client is None:
            self.client = AdminClient(dict(self.config))
        return self.client

    def close(self) -> None:
        self.client = None

    def renew(self) -> None:
        self.client = None  # A client caches the leaders; a new one looks them up.

    def names(self) -> list[str]:
        return sorted(self.asked(lambda: self.admin.list_topics(timeout=self.timeout_s)).topics)

    def describe(self, topics: Sequence[str], *, skip_missing: bool = False) -> list[SeenTopic]:
        found = self.asked(
            lambda: self.admin.describe_topics(TopicCollection(list(topics)), request_timeout=self.timeout_s)
        )
        described = []
        for name in topics:
            try:
                topic = found[name].result()
            except KafkaException as problem:
                if not skip_missing or problem.args[0].code() not in UNKNOWN:
                    raise LookUpFailed(f"topic {name}: {problem.args[0].str()}", None) from problem
            else:
                partitions = tuple(each.id for each in topic.partitions)
                described.append(SeenTopic(topic.name, partitions, topic.is_internal, bytes_of(topic.topic_id)))
        return described

    def list_offsets(self, specs: Mapping[TopicPartition, int], *, committed: bool) -> Offsets:
        wanted = {WireTopicPartition(each.topic, each.partition): offset_spec(spec) for each, spec in specs.items()}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        def ask() -> Offsets:
            answers = self.admin.list_offsets(wanted, isolation_level=level, request_timeout=self.timeout_s)
            return {
                TopicPartition(each.topic, each.partition): future.result().offset for each, future in answers.items()
            }

        return self.asked(ask)

    def set_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        told = [WireTopicPartition(each.topic, each.partition, offset) for each, offset in sorted(offsets.items())]

        def ask() -> None:
            wanted = [ConsumerGroupTopicPartitions(group, told)]
            for future in self.admin.alter_consumer_group_offsets(wanted, request_timeout=self.timeout_s).values():
                for each in future.result().topic_partitions:
                    if each.error is not None:
                        raise KafkaException(each.error)

        self.asked(ask)

    def asked(self, ask: Callable[[], T]) -> T:
        """Run one query. Raises LookUpFailed in place of librdkafka's error."""
        try:
            return ask()
        except KafkaException as problem:
            raise LookUpFailed(problem.args[0].str() or str(problem.args[0]), None) from problem


def bytes_of(topic_id: Any) -> bytes | None:
    """Convert a Uuid of confluent_kafka to its 16 bytes on the wire; None for the zero id."""
    halves = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
    return b"".join(struct.pack(">q", each) for each in halves) if any(halves) else None


def offset_spec(spec: int) -> Any:
    """Convert a sentinel (EARLIEST, LATEST) or a time in ms to librdkafka's OffsetSpec."""
    kinds: Any = OffsetSpec  # Its constructors carry no types.
    if spec == EARLIEST:
        return kinds.earliest()
    return kinds.latest() if spec == LATEST else kinds.for_timestamp(spec)
