"""`spark.readStream` with the option `shareGroup`: the records of a micro-batch are acquired from a share group
(KIP-932), and accepted when the micro-batch has ended.

The driver is a member of the group. It acquires ranges of offsets; the tasks read these ranges with plain Fetch
requests. Spark asks for the next micro-batch once the last one has ended, and only then are its records accepted.
Records of a micro-batch whose acceptance was not confirmed are remembered in the checkpoint: if the group delivers them
again to this query, they are accepted without being read again.
"""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from kraft.common.ids import TopicPartition
from kraft.spark.client.client_config import consumer_config
from kraft.spark.client.worker_heap import freeze_imports
from kraft.spark.client.worker_socket import ForWorkers
from kraft.spark.source.batch_reader import fetcher, shaped
from kraft.spark.source.options import SourceOptions
from kraft.spark.source.ranges import OffsetRange
from kraft.spark.source.share_plan import (
    AcquiredOffset,
    ShareOffset,
    ShareRange,
    Slot,
    next_batch,
    share_offset,
    split_into_tasks,
    with_finished,
)
from kraft.spark.worker_traceback import hide_traceback, is_worker

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from kraft.spark.source.look_ups import Offsets


class Member(Protocol):
    """A member of the share group. See `ShareMember`."""

    def acquire(self, *, thoroughly: bool) -> bool: ...

    def held(self) -> list[AcquiredOffset]: ...

    def accept(self, slots: Iterable[Slot]) -> list[Slot]: ...

    def close(self) -> None: ...


def open_member(options: SourceOptions) -> Member:
    """Check that the topics exist and may be read, then join the group. Raises SourceError, KraftError."""
    from kraft.spark.source.share_member import ShareMember

    ends_of(options)
    return ShareMember(options)


def ends_of(options: SourceOptions) -> Offsets:
    """Return the end offsets of the topics. Raises SourceError, WireError."""
    from kraft.spark.source.offset_reader import KafkaOffsetReader

    offsets = KafkaOffsetReader(options)
    try:
        return offsets.latest()
    finally:
        offsets.close()


class ShareStreamReader(ForWorkers, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read of a share group. It is pickled to the workers before its member opens. Later state stays on the
    driver."""

    def __init__(
        self,
        options: SourceOptions,
        open_member: Callable[[SourceOptions], Member] = open_member,
        ends_of: Callable[[SourceOptions], Offsets] = ends_of,
    ) -> None:
        assert options.share_group is not None, "the options name a share group"
        self.options = options
        self.group = options.share_group
        self.config = consumer_config(options.kafka, f"{self.group}-{uuid.uuid4()}-executor", options.security)
        self._open_member = open_member
        self._ends_of = ends_of
        self._member: Member | None = None
        self._unsettled: dict[Slot, str] = {}  # processed, and not known to be accepted; the oldest first
        self._settled_batch: int | None = None  # the last micro-batch whose records are in `unsettled` or accepted
        self._frozen: Offsets | None = None  # the end of everything under Trigger.AvailableNow
        self._is_last = False  # no micro-batch follows under Trigger.AvailableNow

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_member": None}

    @property
    def member(self) -> Member:
        if self._member is None:
            self._member = self._open_member(self.options)
            before_termination(self.stop)
        return self._member

    @hide_traceback()
    def initialOffset(self) -> dict[str, Any]:
        return ShareOffset(self.group, 0).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return no limit: the member itself acquires at most maxOffsetsPerTrigger."""
        return ReadAllAvailable()

    @hide_traceback()
    def prepareForTriggerAvailableNow(self) -> None:
        self._frozen = self._ends_of(self.options)

    @hide_traceback()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Accept the records of the micro-batch `start`, which has ended, and return the next micro-batch. It has all
        records that the member holds. Returns `start` if there are none."""
        before = share_offset(start, self.group)
        self.settle(before)
        if self._is_last:
            return start
        held = self.acquired()
        if self._frozen is not None and not any(self.is_below(self._frozen, each) for each in held):
            self._is_last = True
        return next_batch(before, held, self._unsettled).to_json() if held else start

    def settle(self, ended: ShareOffset) -> None:
        """Accept the records of a micro-batch that has ended, as far as this member holds them."""
        if ended.batch != self._settled_batch:
            self._unsettled = with_finished(self._unsettled, ended)
            self._settled_batch = ended.batch
        if self._unsettled:
            self.accept_processed()

    def accept_processed(self) -> None:
        """Accept the records that the member holds and an earlier micro-batch has processed."""
        mine = [each.slot for each in self.member.held() if each.slot in self._unsettled]
        for slot in self.member.accept(mine) if mine else ():
            del self._unsettled[slot]

    def acquired(self) -> list[AcquiredOffset]:
        """Acquire records, and return all records that the member holds and no micro-batch has processed."""
        while True:
            is_new = self.member.acquire(thoroughly=self._frozen is not None)
            if is_new and self._unsettled:
                self.accept_processed()
            held = [each for each in self.member.held() if each.slot not in self._unsettled]
            if held or not is_new:
                return held

    def is_below(self, ends: Offsets, acquired: AcquiredOffset) -> bool:
        """Whether the record was in the log when `ends` were looked up."""
        return acquired.offset < ends.get(TopicPartition(acquired.topic, acquired.partition), 0)

    @hide_traceback()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan the tasks of the micro-batch `end`. A batch that is run again has the ranges that it had before."""
        if start == end:
            return []
        batch = share_offset(end, self.group)
        readers = self.options.readers or os.cpu_count() or 1
        return [InputPartition(each) for each in split_into_tasks(batch.ranges, readers)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(self.options, self.config, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls this when the next micro-batch is planned, and `latestOffset` accepts earlier."""

    def stop(self) -> None:
        """Release the records that were not accepted."""
        if self._member is not None:
            self._member.close()


def before_termination(leave: Callable[[], None]) -> None:
    """If this process is a worker of Spark, call `leave` before SIGTERM ends it. Spark ends the process of a stream
    reader with SIGTERM, without a call of `stop`. Without `leave`, the group would wait for the member's session
    timeout (45 s)."""
    if not is_worker() or threading.current_thread() is not threading.main_thread():
        return

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Spark may send it twice.
        leave()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)


def read_ranges(
    options: SourceOptions, config: dict[str, str], ranges: tuple[ShareRange, ...] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task's ranges, in order. `ranges` is None for the empty partition that Spark adds to an
    empty plan. Offsets without a record, or whose record retention has deleted, have no row."""
    import pyarrow as pa

    from kraft.spark.decode.rows import DELIVERY_COUNT

    with hide_traceback():
        for each in ranges or ():
            offsets = OffsetRange(each.topic, each.partition, each.first, each.last + 1, each.topic_id)
            for rows in shaped(options.shape, fetcher(options, config, offsets)):
                count = pa.array([each.delivery_count] * rows.num_rows, DELIVERY_COUNT.type)
                yield rows.append_column(DELIVERY_COUNT, count)
    freeze_imports()
