"""A member's share session with one broker (KIP-932): its epochs, its partitions, and the acknowledgements of its
records. A state machine without clock and sockets.

`next_request` decides what is sent next; at most one request of a session is in flight. `on_fetch`, `on_acknowledge` or
`lose` then apply its result. Each record that the application may acknowledge has an `AcquisitionLock`. Every
acknowledgement is applied by the broker, or is added to `failures`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from kraft.admin.errors import Refused, check
from kraft.common.errors import ApiError, KraftError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import share_acknowledge_request as acknowledging
from kraft.protocol.messages import share_fetch_request as fetching
from kraft.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from kraft.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
from kraft.protocol.messages.share_fetch_request import ShareFetchRequest
from kraft.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData, ShareFetchResponse
from kraft.protocol.records.record import CorruptBatch, Record
from kraft.rpc_client.fetched import visible_batches

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
"""Types of an acknowledgement. A gap is an acquired offset without a record, as after compaction."""
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
"""Acquire modes (KIP-1206): whole batches, or at most the requested number of records."""
INITIAL_EPOCH, FINAL_EPOCH, EPOCH_MAX = 0, -1, 0x7FFFFFFF
NO_TIMESTAMP: Final = -1
"""Timestamp and timestamp type of a record whose data was not decoded."""
RENEW_VERSION: Final = 2
"""The first version of ShareFetch and ShareAcknowledge with renewals (KIP-1222)."""

Place = tuple[bytes, int]
"""A topic id and a partition."""
Request = ShareFetchRequest | ShareAcknowledgeRequest


class LockState(Enum):
    """HELD: the application may acknowledge the record. ACKNOWLEDGED: it has. LOST: the lock or its session ended, and
    the broker delivers the record again."""

    HELD = "held"
    ACKNOWLEDGED = "acknowledged"
    LOST = "lost"


class AcquisitionLock:
    """This member's lock on one record, until `deadline` (seconds on the client's clock). `problem` is why it was
    lost."""

    __slots__ = ("deadline", "offset", "place", "problem", "session", "state")

    def __init__(self, session: ShareSession, place: Place, offset: int, deadline: float) -> None:
        self.session = session
        self.place = place
        self.offset = offset
        self.deadline = deadline
        self.state = LockState.HELD
        self.problem: Exception | None = None


class AcquiredRecord(NamedTuple):
    """A record as the broker delivered it. `delivery_count` includes this delivery."""

    place: Place
    leader_epoch: int
    timestamp_type: int
    record: Record
    delivery_count: int
    lock: AcquisitionLock


class Failure(NamedTuple):
    """Acknowledgements of one partition that the broker did not apply. `problem` is the error of the last one."""

    acknowledgements: int
    first_offset: int
    last_offset: int
    problem: Exception


@dataclass(slots=True)
class FetchResult:
    """The result of a ShareFetch. `refused` has the error code and message of partitions that were not fetched. Records
    of `damaged` partitions are released from the damaged batch on."""

    acquired: list[AcquiredRecord] = field(default_factory=list)
    refused: dict[Place, tuple[int, str | None]] = field(default_factory=dict)
    damaged: dict[Place, CorruptBatch] = field(default_factory=dict)


class _Acknowledgement(NamedTuple):
    """An acknowledgement of the offsets from `first` to `last` (inclusive). A range of several has no lock."""

    first: int
    last: int
    type: int
    lock: AcquisitionLock | None


_Acknowledgements = dict[Place, dict[int, _Acknowledgement]]
"""Acknowledgements by partition and first offset."""


class ShareSession:
    """The session. Epoch 0 begins one; each answered request raises the epoch by one; epoch -1 ends it. After `lose`
    the next request begins a new session, and the broker delivers the records of the old one again."""

    def __init__(self, group_id: str, member_id: str, *, offsets_only: bool = False) -> None:
        """`offsets_only`: the data of a response is not decoded. Each acquired offset becomes a record without key and
        value, also an offset without a record."""
        self.epoch = INITIAL_EPOCH
        self.failures: dict[Place, Failure] = {}
        self.queued_count = 0
        """The number of acknowledgements that were ever queued."""
        self.settled_count = 0
        """The number of acknowledgements that were applied or have failed. They are settled in the order in which they
        were queued, except that those of one request may be settled in any order."""
        self._group_id = group_id
        self._member_id = member_id
        self._offsets_only = offsets_only
        self._partitions: dict[Place, None] = {}
        self._held: dict[tuple[Place, int], AcquisitionLock] = {}
        self._earliest_deadline = math.inf
        """A lower bound of the deadlines of all held locks."""
        self._queued: _Acknowledgements = {}
        self._sent: _Acknowledgements = {}

    @property
    def held_count(self) -> int:
        """Records that are acquired and not acknowledged."""
        return len(self._held)

    @property
    def has_queued(self) -> bool:
        """Whether acknowledgements wait for the next request."""
        return bool(self._queued)

    # What the application decides.

    def acknowledge(self, lock: AcquisitionLock, kind: int) -> None:
        """Queue an acknowledgement. If the lock was lost, the acknowledgement has failed. Raises KraftError if the
        record is acknowledged already. A renewal leaves the lock held."""
        if lock.state is LockState.ACKNOWLEDGED:
            raise KraftError(f"the record at offset {lock.offset} is acknowledged already")
        if lock.state is LockState.LOST:
            assert lock.problem is not None, "a lost lock has a reason"
            self.queued_count += 1
            self._failed(lock.place, _Acknowledgement(lock.offset, lock.offset, kind, lock), lock.problem)
        else:
            self._queue(lock.place, _Acknowledgement(lock.offset, lock.offset, kind, lock))
        if kind != RENEW:
            lock.state = LockState.ACKNOWLEDGED
            self._held.pop((lock.place, lock.offset), None)

    def expire(self, now: float) -> None:
        """Lose the locks whose deadline has passed. An expired acknowledgement must not be sent: the broker rejects the
        others of its partition with it."""
        if now < self._earliest_deadline:
            return
        self._earliest_deadline = math.inf
        for key, lock in list(self._held.items()):
            place, offset = key
            if lock.deadline <= now and offset not in self._sent.get(place, ()):
                del self._held[key]
                lock.state, lock.problem = LockState.LOST, _lock_ended(offset)
            else:
                self._earliest_deadline = min(self._earliest_deadline, lock.deadline)
        for place, entries in list(self._queued.items()):
            for each in list(entries.values()):
                if each.lock is None:
                    continue
                if each.lock.deadline <= now and each.first not in self._sent.get(place, ()):
                    self._failed(place, entries.pop(each.first), _lock_ended(each.first))
                else:
                    self._earliest_deadline = min(self._earliest_deadline, each.lock.deadline)
            if not entries:
                del self._queued[place]

    # What is sent.

    def next_request(
        self,
        wanted: Sequence[Place],
        now: float,
        *,
        records_max: int = 0,
        wait_ms: int = 0,
        bytes_max: int = 0,
        acquire_mode: int = BATCH_OPTIMIZED,
        flushes: bool = False,
    ) -> Request | None:
        """Return the next request, or None if there is nothing to send. `wanted` are the partitions to fetch from this
        broker. With `records_max` 0 nothing is fetched.

        Acknowledgements go with the ShareFetch. They are sent by ShareAcknowledge, which the broker answers
        immediately, in three cases: with `flushes`; if one is a renewal, because a request with a renewal must not
        fetch; and if one is for a partition that is not fetched any more. A session without partitions and records
        ends.
        """
        assert not self._sent, "one request at a time"
        self.expire(now)
        if self._queued and (flushes or self._renews or any(place not in wanted for place in self._queued)):
            return self._acknowledge_request(self.epoch)
        if wanted and records_max > 0:
            return self._fetch_request(wanted, records_max, wait_ms, bytes_max, acquire_mode)
        if not wanted and self._partitions and not self._held and not self._queued:
            return self._acknowledge_request(FINAL_EPOCH)
        return None

    def last_request(self, now: float) -> ShareAcknowledgeRequest | None:
        """Return the request that ends the session, with all acknowledgements except renewals. The broker then releases
        the records that are still held. None if there is no session."""
        self.expire(now)
        for place, entries in list(self._queued.items()):
            for each in [entry for entry in entries.values() if entry.type == RENEW]:
                del entries[each.first]
                self.settled_count += 1
            if not entries:
                del self._queued[place]
        return None if self.epoch == INITIAL_EPOCH else self._acknowledge_request(FINAL_EPOCH)

    @property
    def _renews(self) -> bool:
        return any(each.type == RENEW for entries in self._queued.values() for each in entries.values())

    def _acknowledge_request(self, epoch: int) -> ShareAcknowledgeRequest:
        renews = self._renews
        self._sent, self._queued = self._queued, {}
        topics: dict[bytes, acknowledging.AcknowledgeTopic] = {}
        for (topic_id, index), entries in self._sent.items():
            topic = topics.setdefault(topic_id, acknowledging.AcknowledgeTopic(topic_id=topic_id))
            batches = [
                acknowledging.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
                for first, last, kind in _ranges(entries.values())
            ]
            topic.partitions.append(
                acknowledging.AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
            )
        return ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=epoch,
            is_renew_ack=renews,
            topics=list(topics.values()),
        )

    def _fetch_request(
        self, wanted: Sequence[Place], records_max: int, wait_ms: int, bytes_max: int, acquire_mode: int
    ) -> ShareFetchRequest:
        """Return a ShareFetch with the changes of the session's partitions. A new session lists all of them."""
        assert self.epoch != INITIAL_EPOCH or not self._queued, "a lost session has no acknowledgements"
        self._sent, self._queued = self._queued, {}
        listed = [place for place in wanted if place not in self._partitions or place in self._sent]
        forgotten = [place for place in self._partitions if place not in wanted]
        self._partitions = dict.fromkeys(wanted)
        topics: dict[bytes, fetching.FetchTopic] = {}
        for place in listed:
            topic_id, index = place
            batches = [
                fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
                for first, last, kind in _ranges(self._sent.get(place, {}).values())
            ]
            topics.setdefault(topic_id, fetching.FetchTopic(topic_id=topic_id)).partitions.append(
                fetching.FetchPartition(partition_index=index, acknowledgement_batches=batches)
            )
        forgets: dict[bytes, fetching.ForgottenTopic] = {}
        for topic_id, index in forgotten:
            forgets.setdefault(topic_id, fetching.ForgottenTopic(topic_id=topic_id)).partitions.append(index)
        return ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            max_records=records_max,
            batch_size=records_max,
            share_acquire_mode=acquire_mode,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgets.values()),
        )

    # What comes back.

    def on_fetch(self, response: ShareFetchResponse, now: float) -> FetchResult:
        """Apply the response to a ShareFetch. Raises ApiError if the whole request was rejected; the session is lost
        then."""
        self._accept_response(response.error_code, response.error_message)
        deadline = _deadline(now, response.acquisition_lock_timeout_ms)
        parts = [
            ((bytes(topic.topic_id), data.partition_index), data)
            for topic in response.responses
            for data in topic.partitions
        ]
        self._settle(
            {place: (data.acknowledge_error_code, data.acknowledge_error_message) for place, data in parts}, deadline
        )
        result = FetchResult()
        for place, data in parts:
            if data.error_code != ErrorCode.NONE:
                result.refused[place] = data.error_code, data.error_message
            elif data.acquired_records and self._offsets_only:
                self._acquire_offsets(place, data, deadline, result)
            elif data.acquired_records:
                self._acquire(place, data, deadline, result)
        return result

    def on_acknowledge(self, response: ShareAcknowledgeResponse, now: float, *, ends: bool = False) -> None:
        """Apply the response to a ShareAcknowledge. `ends`: it was the last request of the session. Raises ApiError if
        the whole request was rejected; the session is lost then."""
        self._accept_response(response.error_code, response.error_message)
        self._settle(
            {
                (bytes(topic.topic_id), data.partition_index): (data.error_code, data.error_message)
                for topic in response.responses
                for data in topic.partitions
            },
            _deadline(now, response.acquisition_lock_timeout_ms),
        )
        if ends:
            self.lose(KraftError("the share session is closed: the broker has released the record"))

    def refuse_renewals(self, problem: Exception) -> None:
        """Undo the preparation of a request that will not be sent, because the broker does not support renewals. The
        renewals fail; their locks remain held until their deadline. The other acknowledgements are queued again."""
        sent, self._sent = self._sent, {}
        for place, entries in sent.items():
            for each in entries.values():
                if each.type == RENEW:
                    self._failed(place, each, problem)
                else:
                    self._queued.setdefault(place, {})[each.first] = each

    def lose(self, problem: Exception) -> None:
        """End the session: the broker releases its records, or has done so. Acknowledgements without an answer have
        failed. Those in flight may have been applied."""
        for acknowledgements in (self._sent, self._queued):
            for place, entries in acknowledgements.items():
                for each in entries.values():
                    self._failed(place, each, problem)
        for lock in self._held.values():
            lock.state, lock.problem = LockState.LOST, problem
        self._sent, self._queued = {}, {}
        self._held.clear()
        self._partitions.clear()
        self.epoch = INITIAL_EPOCH

    def _accept_response(self, code: int, message: str | None) -> None:
        try:
            check(code, f"share session of group {self._group_id}", message)
        except ApiError as problem:
            self.lose(problem)
            raise
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def _settle(self, results: Mapping[Place, tuple[int, str | None]], deadline: float) -> None:
        """Apply the results of the acknowledgements in flight. A partition that the response leaves out has failed."""
        missing = ErrorCode.UNKNOWN_SERVER_ERROR, "the response does not mention the acknowledged partition"
        sent, self._sent = self._sent, {}
        for place, entries in sent.items():
            code, message = results.get(place, missing)
            for each in entries.values():
                if code != ErrorCode.NONE:
                    self._failed(place, each, Refused(code, "", message))
                    self._renewal_failed(place, each)
                    continue
                self.settled_count += 1
                if each.type == RENEW and each.lock is not None:
                    each.lock.deadline = deadline

    def _renewal_failed(self, place: Place, entry: _Acknowledgement) -> None:
        lock = entry.lock
        if entry.type == RENEW and lock is not None and self._held.pop((place, entry.first), None) is not None:
            lock.state, lock.problem = LockState.LOST, self.failures[place].problem

    def _acquire(self, place: Place, data: PartitionData, deadline: float, result: FetchResult) -> None:
        """Add the acquired records to `result`. Acquired offsets without a record are acknowledged as gaps. From a
        damaged batch on, they are released."""
        ranges = sorted(data.acquired_records, key=lambda each: each.first_offset)
        next_offset = {each.first_offset: each.first_offset for each in ranges}
        rest = GAP
        try:
            for batch, is_visible in visible_batches(data.records or b"", None):
                if not is_visible:
                    continue
                within = [
                    each
                    for each in ranges
                    if each.first_offset <= batch.last_offset and each.last_offset >= batch.base_offset
                ]
                if not within:
                    continue
                for record, owner in _owned(batch.records(), within):
                    first = next_offset[owner.first_offset]
                    if first < record.offset:
                        self._queue(place, _Acknowledgement(first, record.offset - 1, GAP, None))
                    next_offset[owner.first_offset] = record.offset + 1
                    lock = self._lock(place, record.offset, deadline)
                    result.acquired.append(
                        AcquiredRecord(
                            place,
                            batch.partition_leader_epoch,
                            batch.timestamp_type,
                            record,
                            owner.delivery_count,
                            lock,
                        )
                    )
        except CorruptBatch as problem:
            result.damaged[place] = problem
            rest = RELEASE
        for each in ranges:
            if next_offset[each.first_offset] <= each.last_offset:
                self._queue(place, _Acknowledgement(next_offset[each.first_offset], each.last_offset, rest, None))

    def _acquire_offsets(self, place: Place, data: PartitionData, deadline: float, result: FetchResult) -> None:
        """Add every acquired offset to `result`, whatever the data has for it."""
        for each in sorted(data.acquired_records, key=lambda each: each.first_offset):
            for offset in range(each.first_offset, each.last_offset + 1):
                record = Record(offset, NO_TIMESTAMP, None, None)
                lock = self._lock(place, offset, deadline)
                result.acquired.append(AcquiredRecord(place, -1, NO_TIMESTAMP, record, each.delivery_count, lock))

    def _lock(self, place: Place, offset: int, deadline: float) -> AcquisitionLock:
        lock = self._held[place, offset] = AcquisitionLock(self, place, offset, deadline)
        self._earliest_deadline = min(self._earliest_deadline, deadline)
        return lock

    def _queue(self, place: Place, entry: _Acknowledgement) -> None:
        entries = self._queued.setdefault(place, {})
        if entry.first in entries:
            self.settled_count += 1  # A renewal that was not sent: the later acknowledgement replaces it.
        entries[entry.first] = entry
        self.queued_count += 1

    def _failed(self, place: Place, entry: _Acknowledgement, problem: Exception) -> None:
        self.settled_count += 1
        if entry.lock is None:
            return  # No acknowledgement of the application: the broker delivers these offsets again.
        earlier = self.failures.get(place)
        if earlier is None:
            self.failures[place] = Failure(1, entry.first, entry.last, problem)
        else:
            self.failures[place] = Failure(
                earlier.acknowledgements + 1,
                min(earlier.first_offset, entry.first),
                max(earlier.last_offset, entry.last),
                problem,
            )


def _ranges(entries: Iterable[_Acknowledgement]) -> list[tuple[int, int, int]]:
    """Join acknowledgements of adjacent offsets with the same type: first and last offset, and type."""
    joined: list[tuple[int, int, int]] = []
    for first, last, kind, _ in sorted(entries, key=lambda each: each.first):
        if joined and joined[-1][1] + 1 == first and joined[-1][2] == kind:
            joined[-1] = joined[-1][0], last, kind
        else:
            joined.append((first, last, kind))
    return joined


def _owned(records: Iterable[Record], ranges: Sequence[AcquiredRecords]) -> Iterable[tuple[Record, AcquiredRecords]]:
    """Yield the records within one of the ranges (ascending), and that range."""
    index = 0
    for record in records:
        while index < len(ranges) and ranges[index].last_offset < record.offset:
            index += 1
        if index == len(ranges):
            return
        if ranges[index].first_offset <= record.offset:
            yield record, ranges[index]


def _deadline(now: float, lock_ms: int) -> float:
    """The latest end of a lock that the broker granted at `now` or before."""
    return now + lock_ms / 1000 if lock_ms > 0 else math.inf


def _lock_ended(offset: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_RECORD_STATE,
        f"the acquisition lock of offset {offset} ended (share.record.lock.duration.ms of the group): the record is "
        "delivered again; acknowledge earlier, or renew the lock",
    )
