"""Appends records from HTTP: chooses partitions, appends each partition's records in one batch, and reports on every
record in order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

from pydantic import ValidationError

from kraft.admin.errors import Refused
from kraft.admin.metadata import Topic
from kraft.admin.topics import describe_topic
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.record import Record
from kraft.rpc_client.partitioner import partition_for_key
from kraft_http.models.records import ProduceRecord, ProduceReport
from kraft_http.node_transport import UnencodableRequest
from kraft_http.records.partition_records import Appended, produce
from kraft_http.records.record_codec import format_timestamp, produced, to_record
from kraft_http.requests.deps import ClusterContext
from kraft_http.requests.errors import ApiProblem, answer_for

ACKNOWLEDGED = 200
_MOVED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""Errors after which a partition may have another leader. The records are not sent again: they may have been
appended."""

UNHEARD_PAUSES: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Pauses in seconds between attempts while a leader has not loaded a topic that is in this node's metadata. Such a
leader has appended nothing."""


class Producer:
    """Appends to one topic for one request. Records without key and partition are spread over the partitions in
    rotation, one partition for all that arrived together."""

    def __init__(self, cluster: ClusterContext, topic: Topic) -> None:
        self._cluster = cluster
        self._topic = topic
        self._moved = False
        """Whether the topic's leaders must be looked up again. A request may last for hours."""
        self._turns = count()

    @classmethod
    async def open(cls, cluster: ClusterContext, topic_name: str) -> Producer:
        """Create a producer for the topic. Raises Refused if it does not exist."""
        return cls(cluster, await describe_topic(cluster.kafka, topic_name))

    async def append(self, documents: Sequence[object]) -> list[ProduceReport]:
        """Append the valid records. Returns one report for each document, in order."""
        reports: list[ProduceReport | None] = [None] * len(documents)
        placed: dict[int, list[tuple[int, ProduceRecord, Record]]] = {}
        turn = next(self._turns)
        now_ms = self._cluster.kafka.port.now_ms()
        for index, document in enumerate(documents):
            try:
                body = ProduceRecord.model_validate(document)
                record = to_record(body, now_ms)
                placed.setdefault(self._choose(body, record, turn), []).append((index, body, record))
            except ValidationError as problem:
                first = problem.errors()[0]
                reports[index] = ProduceReport(
                    error_code=400,
                    message=f"Bad Request: {'.'.join(map(str, first['loc'])) or 'record'}: {first['msg']}",
                )
            except ApiProblem as problem:
                reports[index] = ProduceReport(error_code=problem.error_code, message=problem.detail)
            except Refused as problem:
                reports[index] = ProduceReport(error_code=answer_for(problem).error_code, message=problem.sentence)
        for partition, entries in placed.items():
            for (index, _, _), report in zip(entries, await self._append_batch(partition, entries), strict=True):
                reports[index] = report
        return [report for report in reports if report is not None]

    def _choose(self, body: ProduceRecord, record: Record, turn: int) -> int:
        if body.partition_id is not None:
            return self._topic.partition(body.partition_id).index
        partitions = len(self._topic.partitions)
        return turn % partitions if record.key is None else partition_for_key(record.key, partitions)

    async def _append_batch(
        self, partition: int, entries: Sequence[tuple[int, ProduceRecord, Record]]
    ) -> list[ProduceReport]:
        records = [
            Record(position, record.timestamp, record.key, record.value, record.headers)
            for position, (_, _, record) in enumerate(entries)
        ]
        name = self._topic.name
        try:
            appended = await self._produce(partition, records)
        except Refused as problem:
            self._moved |= problem.code in _MOVED
            return [ProduceReport(error_code=answer_for(problem).error_code, message=problem.sentence)] * len(entries)
        except UnencodableRequest as problem:
            return [ProduceReport(error_code=400, message=f"Bad Request: {problem}")] * len(entries)
        return [
            ProduceReport(
                error_code=ACKNOWLEDGED,
                cluster_id=self._cluster.cluster_id,
                topic_name=name,
                partition_id=partition,
                offset=appended.base_offset + record.offset,
                timestamp=format_timestamp(
                    record.timestamp if appended.log_append_time_ms < 0 else appended.log_append_time_ms
                ),
                key=produced(body.key, record.key),
                value=produced(body.value, record.value),
            )
            for (_, body, _), record in zip(entries, records, strict=True)
        ]

    async def _produce(self, partition: int, records: Sequence[Record]) -> Appended:
        """Append one batch, with retries while the leader cannot be reached. Raises Refused, UnencodableRequest."""
        name = self._topic.name
        for pause in (*UNHEARD_PAUSES, None):
            if self._moved:
                self._topic, self._moved = await describe_topic(self._cluster.kafka, name), False
            leader = self._topic.partition(partition).leader
            try:
                return await produce(self._cluster.kafka, name, partition, leader, records)
            except Refused as problem:
                if problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or pause is None:
                    raise
            self._moved = True
            await self._cluster.kafka.pause(pause)
        raise AssertionError("the last try has returned or raised")
