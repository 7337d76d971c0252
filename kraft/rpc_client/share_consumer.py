"""Read topics as a member of a share group (KIP-932): records are acquired, and acknowledged one by one.

One task for each leader sends the requests of its `ShareSession`, so a cancelled `poll` neither loses nor repeats an
acknowledgement. A ShareFetch is sent only while the application polls. Its records are returned by that poll or by a
later one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from kraft.admin.errors import UNKNOWN_TOPIC, Refused
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.background import in_background
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import UnsupportedApi
from kraft.rpc_client.errors import DeadlinePassed
from kraft.rpc_client.group_membership import MAX_POLL_SECONDS
from kraft.rpc_client.partition_backoff import PartitionBackoff, is_worth_waiting
from kraft.rpc_client.share_leader import ShareLeader
from kraft.rpc_client.share_membership import ShareGroupsOff, ShareMembership
from kraft.rpc_client.share_record import AcknowledgementsFailed, ShareRecord
from kraft.rpc_client.share_session import (
    ACCEPT,
    BATCH_OPTIMIZED,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    AcquiredRecord,
    Failure,
    FetchResult,
    LockState,
    Place,
    ShareSession,
)

MAX_RECORDS: Final = 500
MAX_WAIT_MS: Final = 500
CLOSE_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 1.0
"""How often a waiting poll looks for moved leaders and for locks that ended."""
POLL_SECONDS: Final = 1.0


class ShareConsumer:
    """A consumer in a share group, opened by `open_share_consumer`. One task polls. If it is explicit, other tasks of
    the loop may acknowledge records and `commit`."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str],
        *,
        explicit: bool,
        max_records: int,
        record_limit: bool,
        max_poll_seconds: float,
        offsets_only: bool,
    ) -> None:
        self.membership = ShareMembership(
            cluster, group_id, topics, max_poll_seconds=max_poll_seconds, on_change=self._notify
        )
        self._cluster = cluster
        self._group_id = group_id
        self._explicit = explicit
        self._offsets_only = offsets_only
        self._max_records = max_records
        self._acquire_mode = RECORD_LIMIT if record_limit else BATCH_OPTIMIZED
        self._leaders: dict[int, ShareLeader] = {}
        self._unread: list[ShareRecord] = []
        self._given: list[ShareRecord] = []
        """Implicit mode: records that the next poll accepts."""
        self._failed: dict[TopicPartition, AcknowledgementsFailed] = {}
        self._names: dict[Place, TopicPartition] = {}
        self._failure: Exception | None = None
        self._obstacle: Exception | None = None
        self._changed = trio.Event()
        self._chance = cluster.world.random.stream("share consumer")
        self._resting = PartitionBackoff(self._chance)
        self._turn = 0
        self._waits_for_room = False
        self._is_closing = False
        self._membership_scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None

    @property
    def obstacle(self) -> Exception | None:
        """The error because of which the last `poll` could not fetch; None if there was none."""
        return self._obstacle

    @property
    def in_flight(self) -> int:
        """Records that are acquired and not acknowledged, also those that no poll has returned yet."""
        return sum(leader.session.held_count for leader in self._leaders.values())

    @property
    def failed(self) -> Mapping[TopicPartition, AcknowledgementsFailed]:
        """Acknowledgements that failed since the last `commit`, by partition. Also readable after `close`."""
        for leader in self._leaders.values():
            failures, leader.session.failures = leader.session.failures, {}
            for place, failure in failures.items():
                partition = self._names[place]
                earlier = self._failed.get(partition)
                if earlier is not None:
                    failure = Failure(
                        earlier.acknowledgements + failure.acknowledgements,
                        min(earlier.first_offset, failure.first_offset),
                        max(earlier.last_offset, failure.last_offset),
                        failure.problem,
                    )
                self._failed[partition] = AcknowledgementsFailed(partition, failure)
        return self._failed

    # Reading

    async def poll(self, seconds: float = POLL_SECONDS) -> list[ShareRecord]:
        """Return acquired records, waiting about `seconds` at most. Returns an empty list if none arrived in time;
        `obstacle` then holds the reason, if there is one.

        Unless the consumer is explicit, this accepts the records of the last poll. Acknowledgements go with the next
        fetch, or after LINGER_SECONDS. While `max_records` records are in flight, none are fetched.
        Raises errors for which a retry is useless: ShareGroupsOff, ApiError, NotAdmitted, NoBroker, and CorruptBatch
        for damaged records, which are released.
        """
        return await self._poll(seconds, all_of_them=True)

    def __aiter__(self) -> AsyncIterator[ShareRecord]:
        """Iterate over records without end. Unless the consumer is explicit, a record is accepted when the next one is
        requested. Raises as `poll`."""
        return self

    async def __anext__(self) -> ShareRecord:
        while True:
            found = await self._poll(POLL_SECONDS, all_of_them=False)
            if found:
                return found[0]

    async def _poll(self, seconds: float, *, all_of_them: bool) -> list[ShareRecord]:
        self._accept_given()
        self.membership.poll_begins()
        try:
            await self._wait_for_records(seconds)
        finally:
            self.membership.poll_ended()
        if all_of_them:
            return self.arrived()
        found = self._unread[:1]
        del self._unread[:1]
        if not self._explicit:
            self._given += found
        return found

    def arrived(self) -> list[ShareRecord]:
        """Return the records that have arrived since the last poll, without a request for more. Unless the consumer is
        explicit, the next poll accepts them."""
        found, self._unread = [each for each in self._unread if each.lock.state is LockState.HELD], []
        if not self._explicit:
            self._given += found
        return found

    def give_back(self, records: Sequence[ShareRecord]) -> None:
        """Return records of the last poll that the application has not seen. The next poll returns them again."""
        given_back = {(each.partition, each.record.offset) for each in records}
        self._given = [each for each in self._given if (each.partition, each.record.offset) not in given_back]
        self._unread = [*records, *self._unread]

    async def _wait_for_records(self, seconds: float) -> None:
        clock = self._cluster.world.clock
        deadline = clock.now() + seconds
        self._obstacle = None
        while True:
            self._drop_lost()
            if self._unread:
                await trio.lowlevel.checkpoint()
                return
            failure, self._failure = self._failure or self.membership.failure, None
            if failure is not None:
                raise failure
            obstacle = self.membership.obstacle
            try:
                await self._find_leaders()
            except (KraftError, TimeoutError) as problem:
                if not is_worth_waiting(problem):
                    raise
                self._cluster.forget()
                obstacle = problem
            if self._cluster.is_hopeless(obstacle) or self.membership.cluster.is_hopeless(obstacle):
                assert obstacle is not None, "something was hopeless"
                raise obstacle
            self._obstacle = obstacle
            left = max(0.0, deadline - clock.now())
            changed = self._changed
            self._ask(int(min(MAX_WAIT_MS, left * 1000)))
            rest = max(0.0, self._resting.next_ready(clock.now()) - clock.now())
            with clock.move_on_after(min(left, rest, LOOK_SECONDS)):
                await changed.wait()
            if clock.now() >= deadline:
                self._drop_lost()
                self._obstacle = obstacle or self._resting.problem_of_all(self.membership.assigned.values())
                return

    def _drop_lost(self) -> None:
        """Drop unread records whose lock was lost: they are delivered again."""
        now = self._cluster.world.clock.now()
        for leader in self._leaders.values():
            leader.session.expire(now)
        if self._unread and self._unread[0].lock.state is LockState.HELD:
            return  # The later ones are looked at when their turn comes.
        self._unread = [each for each in self._unread if each.lock.state is LockState.HELD]

    async def _find_leaders(self) -> None:
        """Distribute the assigned partitions over sessions with their leaders. Raises as `Cluster.call`."""
        assigned = self.membership.assigned
        self._names.update(assigned)
        now = self._cluster.world.clock.now()
        ready = {*self._resting.ready(assigned.values(), now)}
        unled: dict[TopicPartition, ApiError] = {}
        by_leader = await self._cluster.by_leader(ready, unled)
        for partition, problem in unled.items():
            self._rest(partition, problem)
        leader_of = {partition: node_id for node_id, of_node in by_leader.items() for partition in of_node}
        wanted: dict[int, list[Place]] = {}
        for place, partition in assigned.items():
            if partition in leader_of:
                wanted.setdefault(leader_of[partition], []).append(place)
        for node_id in wanted:
            if node_id not in self._leaders and not self._is_closing:
                session = ShareSession(self._group_id, self.membership.member_id, offsets_only=self._offsets_only)
                leader = self._leaders[node_id] = ShareLeader(
                    self._cluster,
                    node_id,
                    session,
                    records_max=self._records_max,
                    acquire_mode=self._acquire_mode,
                    on_fetch=self._fetched,
                    on_loss=self._lost,
                    on_change=self._notify,
                )
                assert self._nursery is not None, "the consumer is open"
                self._nursery.start_soon(leader.run)
        for node_id, leader in self._leaders.items():
            places = tuple(wanted.get(node_id, ()))
            if places != leader.wanted:
                leader.wanted = places
                leader.wake()

    def _ask(self, wait_ms: int) -> None:
        """Let each leader without a request in flight send a ShareFetch. Each call starts at the next leader, because
        the limit of records may not suffice for all."""
        leaders = list(self._leaders.values())
        self._turn += 1
        turn = self._turn % max(1, len(leaders))
        is_full = self._waits_for_room = self._room() <= 0
        for leader in (*leaders[turn:], *leaders[:turn]):
            leader.wait_ms = None if leader.is_busy else wait_ms
            leader.flushes = leader.flushes or is_full
            leader.wake()

    def _records_max(self) -> int:
        """The number of records that the next ShareFetch of one leader may acquire. What is left of `max_records` is
        divided among the leaders whose ShareFetch is requested and not sent yet."""
        asked = sum(each.wait_ms is not None and bool(each.wanted) for each in self._leaders.values())
        return max(0, -(-self._room() // max(1, asked)))

    def _room(self) -> int:
        return self._max_records - self.in_flight - sum(leader.reserved for leader in self._leaders.values())

    # Acknowledging

    def accept(self, record: ShareRecord) -> None:
        """Acknowledge that the record is processed. Only for an explicit consumer. Raises KraftError if the record is
        acknowledged already. If its lock was lost, `commit` reports the failure."""
        self._acknowledge(record, ACCEPT)

    def release(self, record: ShareRecord) -> None:
        """Let the group deliver the record again, to any member. Raises as `accept`."""
        self._acknowledge(record, RELEASE)

    def reject(self, record: ShareRecord) -> None:
        """Acknowledge that the record cannot be processed: it is not delivered again. Raises as `accept`."""
        self._acknowledge(record, REJECT)

    def renew(self, record: ShareRecord) -> None:
        """Restart the record's acquisition lock (KIP-1222), immediately. The record still has to be acknowledged. It
        needs brokers of kraft, or of Apache Kafka 4.2 or newer: else `commit` reports the failure. Raises as
        `accept`."""
        self._acknowledge(record, RENEW)

    def _acknowledge(self, record: ShareRecord, kind: int) -> None:
        if not self._explicit:
            raise KraftError(
                "this share consumer accepts the records of each poll by itself: open it with explicit=True to "
                "acknowledge records"
            )
        self._queue(record, kind)
        if self._waits_for_room and self._room() > 0:
            self._waits_for_room = False
            self._notify()

    def _accept_given(self) -> None:
        given, self._given = self._given, []
        for each in given:
            self._queue(each, ACCEPT)

    def _queue(self, record: ShareRecord, kind: int) -> None:
        """Queue an acknowledgement. A renewal is sent immediately, others with the next request or after
        LINGER_SECONDS."""
        session = record.lock.session
        wakes = kind == RENEW or not session.has_queued
        session.acknowledge(record.lock, kind)
        if wakes:
            for leader in self._leaders.values():
                if leader.session is session:
                    leader.wake()

    async def commit(self, seconds: float | None = None) -> Mapping[TopicPartition, AcknowledgementsFailed]:
        """Send the acknowledgements, and wait for their results. Unless the consumer is explicit, this accepts the
        records of the last poll.

        Returns the acknowledgements that have failed since the last commit, by partition; empty if all were applied.
        Raises DeadlinePassed if a broker does not answer within `seconds` (None: the time of an operation). The
        acknowledgements remain in flight then.
        """
        self._accept_given()
        seconds = self._cluster.operation_seconds if seconds is None else seconds
        targets = {leader.node_id: leader.session.queued_count for leader in self._leaders.values()}
        for leader in self._leaders.values():
            leader.flushes = True
            leader.wake()
        with self._cluster.world.clock.move_on_after(seconds):
            await trio.lowlevel.checkpoint()
            while any(self._leaders[node_id].session.settled_count < target for node_id, target in targets.items()):
                await self._changed.wait()
            failed, self._failed = dict(self.failed), {}
            return failed
        raise DeadlinePassed(f"share group {self._group_id}: acknowledgements were not answered within {seconds:g} s")

    # What the leaders report

    def _fetched(self, leader: ShareLeader, result: FetchResult) -> None:
        """Queue the records of a ShareFetch for `poll`, and start a pause for the partitions that were not fetched."""
        self._unread += [self._record(each) for each in result.acquired]
        for place in leader.wanted:
            if place not in result.refused:
                self._resting.end(self._names[place])
        for place, (code, message) in result.refused.items():
            partition = self._names[place]
            self._rest(partition, Refused(code, str(partition), message))
        for problem in result.damaged.values():
            self._failure = problem

    def _lost(self, leader: ShareLeader, problem: KraftError | TimeoutError) -> None:
        """Handle the loss of a session. Its partitions are fetched again after a pause, from the leader that they have
        then."""
        self._cluster.forget()
        if isinstance(problem, UnsupportedApi) or _is_off(problem):
            self._failure = ShareGroupsOff(self._group_id)
        elif not is_worth_waiting(problem):
            self._failure = problem
        for place in leader.wanted:
            self._resting.begin(self._names[place], problem, self._cluster.world.clock.now())

    def _record(self, acquired: AcquiredRecord) -> ShareRecord:
        place, leader_epoch, timestamp_type, record, delivery_count, lock = acquired
        return ShareRecord(self._names[place], leader_epoch, timestamp_type, record, delivery_count, lock)

    def _rest(self, partition: TopicPartition, problem: Exception) -> None:
        """Fetch the partition again after a pause, from the leader that it has then."""
        if not is_worth_waiting(problem):
            self._failure = problem
        if isinstance(problem, ApiError) and problem.code in UNKNOWN_TOPIC:
            self._cluster.forget_topics([partition.topic])
        else:
            self._cluster.forget()
        self._resting.begin(partition, problem, self._cluster.world.clock.now())

    def _notify(self) -> None:
        """Wake the tasks that wait in `poll` and `commit`."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    # Life

    async def run(self, nursery: trio.Nursery) -> None:
        """Take part in the group, with the tasks of the sessions in `nursery`, until cancelled."""
        self._nursery = nursery
        with self._membership_scope:
            await self.membership.run()

    async def close(self, *, accepts: bool) -> None:
        """Send the acknowledgements, end the sessions and leave the group, within CLOSE_SECONDS. The brokers release
        the records that are not acknowledged. `accepts`: first accept the records of the last poll, unless the consumer
        is explicit. Afterwards `failed` has every acknowledgement that was not applied."""
        if accepts:
            self._accept_given()
        self._is_closing = True
        self._membership_scope.cancel()
        with trio.CancelScope(shield=True), self._cluster.world.clock.move_on_after(CLOSE_SECONDS):
            async with trio.open_nursery() as closing_nursery:
                closing_nursery.start_soon(self._leave)
                for leader in self._leaders.values():
                    closing_nursery.start_soon(leader.end)
        for leader in self._leaders.values():
            leader.abandon()
        self._unread, self._given = [], []
        self.membership.cluster.close()

    async def _leave(self) -> None:
        try:
            await self.membership.leave()
        except (KraftError, TimeoutError):
            return  # The group removes the member when its session ends.


def _is_off(problem: Exception) -> bool:
    return isinstance(problem, ApiError) and problem.code == ErrorCode.UNSUPPORTED_VERSION


@asynccontextmanager
async def open_share_consumer(
    cluster: Cluster,
    group_id: str,
    topics: Iterable[str],
    *,
    explicit: bool = False,
    max_records: int = MAX_RECORDS,
    record_limit: bool = False,
    max_poll_seconds: float = MAX_POLL_SECONDS,
    offsets_only: bool = False,
) -> AsyncIterator[ShareConsumer]:
    """Join the share group while the block runs.

    Unless `explicit`, each poll accepts the records of the last one (share.acknowledgement.mode). With `explicit` the
    application acknowledges each record, and may do so after later polls. About `max_records` records are in flight at
    most. A broker acquires whole batches, which may exceed that; with `record_limit` it acquires no more (KIP-1206). A
    member that does not call `poll` within `max_poll_seconds` leaves the group, until it polls again. With
    `offsets_only`, records have an offset and nothing else: every acquired offset is returned, also one without a
    record, and the application reads the data itself.

    When the block ends, acknowledgements are sent, and the records of the last poll are accepted unless `explicit`. If
    the block fails or is cancelled, they are not accepted. All other records are released. Raises ValueError for an
    empty group id, for no topics, or if `max_records` is below 1.
    """
    names = [topics] if isinstance(topics, str) else sorted({*topics})
    if not group_id or not names or max_records < 1:
        raise ValueError("a share consumer needs a group id, at least one topic, and max_records of 1 or more")
    consumer = ShareConsumer(
        cluster,
        group_id,
        names,
        explicit=explicit,
        max_records=max_records,
        record_limit=record_limit,
        max_poll_seconds=max_poll_seconds,
        offsets_only=offsets_only,
    )
    async with in_background(consumer.run, lambda ended: consumer.close(accepts=ended is None)):
        yield consumer
