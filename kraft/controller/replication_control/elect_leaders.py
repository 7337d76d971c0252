"""ElectLeaders, the preferred-leader balance, and the scan for partitions that need an unclean election."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kraft.common.errors import ApiError
from kraft.controller.controller_result import ControllerResult, check_operation_size, generic_error, message_of_error
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control.partition_change_builder import Election, allow_unclean_by_policy, change_of
from kraft.metadata.image.topics_image import TopicIdPartition, TopicImage
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest
from kraft.protocol.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kraft.world.steps import Steps

PREFERRED: Final = 0
UNCLEAN: Final = 1
MAX_ELECTIONS_PER_PASS: Final = 1_000


Candidate = Callable[[ControllerView, TopicIdPartition], int | None]
"""Returns the replica with the best log among those that have reported their logs of a leaderless partition; None if
none has."""


def elect_leaders(
    view: ControllerView, request: ElectLeadersRequest, candidate: Candidate = lambda view, key: None
) -> Steps[ControllerResult[ElectLeadersResponse]]:
    """Return the records and the response for ElectLeaders.

    Null topics mean every partition. Then partitions that need no election are left out of the response. An unclean
    election chooses the `candidate`, if there is one. Yields after each partition.
    """
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    records: list[Any] = []
    results = []
    if request.topic_partitions is None:
        for topic in view.image.topics.topics_by_name():
            elected = yield from _elect_each(
                view, topic.name, topic, topic.partitions, request.election_type, records, candidate
            )
            needed = [result for result in elected if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
            results.append(ReplicaElectionResult(topic=topic.name, partition_result=needed))
    else:
        for named in request.topic_partitions:
            known = view.image.topics.by_name(named.topic)
            elected = yield from _elect_each(
                view, named.topic, known, named.partitions, request.election_type, records, candidate
            )
            results.append(ReplicaElectionResult(topic=named.topic, partition_result=elected))
    check_operation_size(records)
    return ControllerResult(records, ElectLeadersResponse(replica_election_results=results))


def _elect_each(
    view: ControllerView,
    name: str,
    topic: TopicImage | None,
    indexes: Iterable[int],
    kind: int,
    records: list[Any],
    candidate: Candidate,
) -> Steps[list[PartitionResult]]:
    results = []
    for index in indexes:
        results.append(_elect(view, name, topic, index, kind, records, candidate))
        yield None
    return results


def _elect(
    view: ControllerView,
    name: str,
    topic: TopicImage | None,
    index: int,
    kind: int,
    records: list[Any],
    candidate: Candidate,
) -> PartitionResult:
    try:
        records.append(_election(view, name, topic, index, kind, candidate))
    except ApiError as error:
        return PartitionResult(partition_id=index, error_code=error.code, error_message=message_of_error(error))
    return PartitionResult(partition_id=index, error_code=ErrorCode.NONE, error_message=None)


def _election(
    view: ControllerView, name: str, topic: TopicImage | None, index: int, kind: int, candidate: Candidate
) -> PartitionChangeRecord:
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    if partition.has_preferred_leader if kind == PREFERRED else partition.has_leader:
        raise generic_error(ErrorCode.ELECTION_NOT_NEEDED)
    builder = change_of(view, topic.id, index, partition)
    builder.allow_last_known_leader = True  # An operator's request does not wait for sessions.
    builder.election = Election.PREFERRED if kind == PREFERRED else Election.UNCLEAN
    best = candidate(view, (topic.id, index)) if kind == UNCLEAN else None
    if best is not None:
        builder.recovered_leader = best
    record = builder.build()
    if record is None:
        raise generic_error(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if kind == PREFERRED else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
    return record


def balance_leaders(view: ControllerView) -> Steps[ControllerResult[bool]]:
    """Return preferred elections for at most 1,000 partitions. The response is True if another pass is due immediately.
    Yields after each partition."""
    records: list[Any] = []
    yield from view.image.topics.imbalanced.sort()
    for topic_id, index in view.image.topics.imbalanced:
        if len(records) >= MAX_ELECTIONS_PER_PASS:
            break
        partition = view.image.topics.by_id[topic_id].partitions[index]
        builder = change_of(view, topic_id, index, partition)
        builder.election = Election.PREFERRED
        record = builder.build()
        if record is not None:
            records.append(record)
        yield None
    return ControllerResult(records, len(records) >= MAX_ELECTIONS_PER_PASS)


def elect_unclean_leaders(view: ControllerView) -> Steps[ControllerResult[bool]]:
    """Return elections for at most 1,000 leaderless partitions of topics that allow unclean elections. The response is
    True if another pass is due immediately. Yields after each partition."""
    records: list[Any] = []
    yield from view.image.topics.leaderless.sort()
    for topic_id, index in view.image.topics.leaderless:
        if len(records) >= MAX_ELECTIONS_PER_PASS:
            break
        partition = view.image.topics.by_id[topic_id].partitions[index]
        builder = change_of(view, topic_id, index, partition)
        allow_unclean_by_policy(view, topic_id, builder, partition)
        if builder.election == Election.UNCLEAN:
            record = builder.build()
            if record is not None:
                records.append(record)
        yield None
    return ControllerResult(records, len(records) >= MAX_ELECTIONS_PER_PASS)
