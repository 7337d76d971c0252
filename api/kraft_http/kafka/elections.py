"""Elections of partition leaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.protocol.messages.elect_leaders_response import ElectLeadersResponse
from kraft_http.kafka.client import Kafka, raise_for
from kraft_http.kafka.reassignments import Outcome

TIMEOUT_MS = 30_000
PREFERRED, UNCLEAN = 0, 1


async def elect_leaders(kafka: Kafka, kind: int, partitions: Mapping[str, Sequence[int]] | None) -> list[Outcome]:
    """Hold elections for the partitions named by topic, or wherever one is needed (None). Raises KafkaProblem for
    the request as a whole."""
    named = (
        None
        if partitions is None
        else [TopicPartitions(topic=topic, partitions=list(indexes)) for topic, indexes in partitions.items()]
    )
    request = ElectLeadersRequest(election_type=kind, topic_partitions=named, timeout_ms=TIMEOUT_MS)
    response = await kafka.ask(ApiKey.ELECT_LEADERS, 2, request, ElectLeadersResponse)
    raise_for(response.error_code)
    return [
        Outcome(topic.topic, each.partition_id, each.error_code, each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    ]
