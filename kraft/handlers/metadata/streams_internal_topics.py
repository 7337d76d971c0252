"""Creation of the internal topics of streams groups (KIP-1071), for the members that need them.

The response to a heartbeat does not wait for the topics: the member learns of them with a later one. A topic whose
creation failed is not tried again for a while, because each heartbeat of each member requests it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kraft.common.errors import ApiError
from kraft.coordinator.group.streams.topology import InternalTopic
from kraft.handlers.metadata.auto_topic_creation import create_for_client
from kraft.handlers.registry import RequestContext
from kraft.protocol.error_codes import ErrorCode, message_of
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

FAILURES_MAX: Final = 1000
"""Limit of failures that are remembered. As in Kafka, the oldest is dropped first."""
DEFAULT_REPLICATION_FACTOR: Final = -1


class StreamsInternalTopics:
    """The creations that one broker has requested: topics in flight, and the last errors with their end (monotonic
    seconds)."""

    def __init__(self) -> None:
        self._in_flight: set[str] = set()
        self._failures: dict[str, tuple[str, float]] = {}

    async def create(
        self,
        topics: Mapping[str, InternalTopic],
        context: RequestContext,
        broker: BrokerServices,
        retry_seconds: float,
    ) -> dict[str, str]:
        """Create the topics with the caller's permissions, except those in flight or failed less than `retry_seconds`
        ago. Returns the errors of topics that could not be created, by name."""
        now = broker.world.clock.now()
        self._failures = {name: failure for name, failure in self._failures.items() if failure[1] > now}
        wanted = [name for name in topics if name not in self._in_flight and name not in self._failures]
        if wanted:
            self._in_flight |= set(wanted)
            try:
                failed = await _create([topics[name] for name in wanted], context, broker)
            finally:
                self._in_flight -= set(wanted)
            for name, reason in failed.items():
                self._failures[name] = (reason, now + retry_seconds)
            while len(self._failures) > FAILURES_MAX:
                del self._failures[next(iter(self._failures))]
        return {name: self._failures[name][0] for name in topics if name in self._failures}


async def _create(topics: list[InternalTopic], context: RequestContext, broker: BrokerServices) -> dict[str, str]:
    """Create the topics. Returns the errors by name. A topic that exists is no error."""
    wanted = [
        CreatableTopic(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor or DEFAULT_REPLICATION_FACTOR,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs],
        )
        for topic in topics
    ]
    try:
        response = await create_for_client(wanted, context, broker)
    except ApiError as problem:
        return {topic.name: problem.message or message_of(problem.code) for topic in topics}
    return {
        result.name: result.error_message or message_of(result.error_code)
        for result in response.topics
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }
