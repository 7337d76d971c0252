"""The records of a share consumer, and the report of acknowledgements that failed."""

from __future__ import annotations

from typing import NamedTuple

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.records.record import Record
from kraft.rpc_client.share_session import AcquisitionLock, Failure


class ShareRecord(NamedTuple):
    """A record of a share group. `delivery_count` includes this delivery. `lock` is for the consumer."""

    partition: TopicPartition
    leader_epoch: int
    timestamp_type: int
    record: Record
    delivery_count: int
    lock: AcquisitionLock


class AcknowledgementsFailed(KraftError):
    """Acknowledgements of a partition that the broker did not apply, or whose result is unknown. Their records are
    delivered again, except where the result was lost. `problem` is the reason of the last one."""

    def __init__(self, partition: TopicPartition, failure: Failure) -> None:
        count, first, last, problem = failure
        where = f"offset {first}" if first == last else f"offsets {first} to {last}"
        super().__init__(f"{partition}: {count} acknowledgement{'s' * (count > 1)} failed, {where}: {problem}")
        self.partition = partition
        self.acknowledgements = count
        self.first_offset = first
        self.last_offset = last
        self.problem = problem
