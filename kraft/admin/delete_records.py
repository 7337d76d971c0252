"""Deletes records at the front of partitions (DeleteRecords, KIP-107): at all leaders concurrently, each partition
independently.

On a full disk some replicas answer late, and some partitions have no leader. Each successful deletion frees space, so
no partition waits for another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kraft.admin.errors import UNKNOWN_TOPIC, Refused
from kraft.admin.offsets import LATEST, list_offsets_once
from kraft.admin.transport import AdminTransport
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode, is_retriable
from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraft.protocol.messages.delete_records_response import DeleteRecordsPartitionResult, DeleteRecordsResponse

TIMEOUT_MS = 30_000
TO_END = -1
"""Deletes all records; replaces the offset of the first record to keep."""

Failure = KraftError | TimeoutError


@dataclass(frozen=True, slots=True)
class Deletion:
    """The new first offset of each successful partition, and the errors of the others."""

    begins: dict[TopicPartition, int]
    failed: dict[TopicPartition, Failure]

    def require(self) -> dict[TopicPartition, int]:
        """The first offset of every partition. Raises the first failure."""
        for problem in self.failed.values():
            raise problem
        return self.begins


async def delete_records(
    port: AdminTransport, before: Mapping[TopicPartition, int], *, timeout_ms: int = TIMEOUT_MS
) -> Deletion:
    """Delete the records before an offset (TO_END: all current ones). A leader waits up to `timeout_ms` for its
    followers, then answers for all of its partitions. Raises the transport's error if not even the leaders can be
    found."""
    run = _Run(port, before, timeout_ms)
    try:
        await port.retrying(run.attempt)
    except (KraftError, TimeoutError) as problem:
        if not run.begins and not run.failed:
            raise
        for partition in run.left():
            run.failed.setdefault(partition, problem)
    return Deletion(
        {each: run.begins[each] for each in before if each in run.begins},
        {each: run.failed[each] for each in before if each in run.failed},
    )


class _Run:
    """The state of a deletion over its attempts. The end of a partition is read once: a later end would include new
    records."""

    def __init__(self, port: AdminTransport, before: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        self._port = port
        self._before = before
        self._timeout_ms = timeout_ms
        self._offsets = {partition: offset for partition, offset in before.items() if offset != TO_END}
        self.begins: dict[TopicPartition, int] = {}
        self.failed: dict[TopicPartition, Failure] = {}

    def left(self) -> list[TopicPartition]:
        """The partitions to try: neither deleted nor failed with a permanent error."""
        return [each for each in self._before if each not in self.begins and not _is_final(self.failed.get(each))]

    async def attempt(self) -> None:
        """Send a request to each leader of the remaining partitions. If a partition failed with an error that a retry
        may help, raises that error."""
        left = self.left()
        unled: dict[TopicPartition, ApiError] = {}
        by_leader = await self._port.by_leader(left, unled)
        self.failed.update(unled)

        async def ask(leader: int) -> None:
            await self._ask(leader, by_leader[leader])

        await self._port.of_each(ask, by_leader)
        for partition in self.left():
            raise self.failed.setdefault(
                partition, Refused(ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition}: its leader's answer lacks it")
            )

    async def _ask(self, leader: int, partitions: Sequence[TopicPartition]) -> None:
        try:
            await self._find_ends(leader, [each for each in partitions if each not in self._offsets])
            offsets = {each: self._offsets[each] for each in partitions if each in self._offsets}
            if not offsets:
                return
            request = _request(offsets, self._timeout_ms)
            response = await self._port.ask(request, DeleteRecordsResponse, node_id=leader)
        except (KraftError, TimeoutError) as problem:
            self.failed.update(dict.fromkeys(partitions, problem))
            return
        for topic in response.topics:
            for told in topic.partitions:
                self._take(TopicPartition(topic.name, told.partition_index), told)

    async def _find_ends(self, leader: int, partitions: Sequence[TopicPartition]) -> None:
        found = await list_offsets_once(self._port, {leader: partitions}, LATEST) if partitions else {}
        for partition in partitions:
            end = found.get(partition)
            if isinstance(end, int):
                self._offsets[partition] = end
            else:
                lacking = Refused(ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition}: its leader did not tell its end")
                self.failed[partition] = end or lacking

    def _take(self, partition: TopicPartition, told: DeleteRecordsPartitionResult) -> None:
        problem = _problem_of(partition, told)
        if problem is None:
            self.begins[partition] = told.low_watermark
            self.failed.pop(partition, None)
        else:
            self.failed[partition] = problem


def _is_final(problem: Failure | None) -> bool:
    """Whether a retry cannot help."""
    return isinstance(problem, ApiError) and (not is_retriable(problem.code) or problem.code in UNKNOWN_TOPIC)


def _problem_of(partition: TopicPartition, told: DeleteRecordsPartitionResult) -> Refused | None:
    if told.error_code == ErrorCode.REQUEST_TIMED_OUT:
        message = "its leader has deleted them, and a replica has not followed yet"
        return Refused(told.error_code, str(partition), message)
    if told.error_code != ErrorCode.NONE:
        return Refused(told.error_code, str(partition))
    if told.low_watermark < 0:
        return Refused(ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition}: {told.low_watermark} is no offset")
    return None


def _request(before: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    topics: dict[str, list[DeleteRecordsPartition]] = {}
    for (topic, index), offset in before.items():
        topics.setdefault(topic, []).append(DeleteRecordsPartition(partition_index=index, offset=offset))
    entries = [DeleteRecordsTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    return DeleteRecordsRequest(topics=entries, timeout_ms=timeout_ms)
