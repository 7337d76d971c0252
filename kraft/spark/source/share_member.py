"""The driver's member of a share group: kraft's share consumer on a trio loop in a thread of its own.

The member acquires offsets without decoding their data, and renews their locks until they are accepted or the member is
closed. Spark's calls come from the thread of the stream reader, one at a time.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

import trio

from kraft.common.errors import KraftError
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import UnsupportedApi
from kraft.rpc_client.errors import DeadlinePassed
from kraft.rpc_client.share_consumer import CLOSE_SECONDS, ShareConsumer, open_share_consumer
from kraft.rpc_client.share_record import ShareRecord
from kraft.rpc_client.share_session import LockState
from kraft.spark.client.wire import address_of
from kraft.spark.source.options import SourceOptions, Subscribe
from kraft.spark.source.share_plan import AcquiredOffset, Slot
from kraft.world.real import RealWorld

log = logging.getLogger(__name__)
T = TypeVar("T")

OFFSETS_MAX: Final = 100_000
"""The offsets of a micro-batch without maxOffsetsPerTrigger."""
POLL_SECONDS: Final = 0.5
"""How long a trigger waits for records."""
GATHER_SECONDS: Final = 2.0
"""Time after the first records in which the member acquires more for the same micro-batch."""
QUIET_SECONDS: Final = 0.1
"""A pause without records that ends the acquiring."""
LOOK_SECONDS: Final = 1.0
"""The longest pause between two checks for locks to renew."""

LOCK_SECONDS_MIN: Final = 0.5
"""Shortest lock duration that is assumed. It bounds how often locks are checked for renewal."""


class ShareMember:
    """A member. Its methods block until the cluster has answered. They raise KraftError, TimeoutError."""

    def __init__(self, options: SourceOptions) -> None:
        assert options.share_group is not None, "the options name a share group"
        assert isinstance(options.selection, Subscribe), "a share group subscribes to names"
        self._group, self._topics = options.share_group, options.selection.topics
        self._options = options
        self._offsets_max = options.offsets_per_trigger_max or OFFSETS_MAX
        self._held: dict[Slot, ShareRecord] = {}
        self._lock_seconds = math.inf
        self._renews = True
        self._opened: Future[None] = Future()
        self._closing = trio.Event()
        self._cluster: Cluster | None = None
        self._consumer: ShareConsumer | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread = threading.Thread(target=self._run, name=f"share group {self._group}", daemon=True)
        self._thread.start()
        self._opened.result()

    # Called by the stream reader

    def acquire(self, *, thoroughly: bool) -> bool:
        """Acquire offsets. Returns False if there were none within POLL_SECONDS. With `thoroughly` it waits for a
        heartbeat longer, within which the coordinator would have changed the assignment. While the cluster cannot be
        reached, waits for kafka.default.api.timeout.ms, and then raises the reason."""
        return self._call(lambda: self._acquire(thoroughly))

    def held(self) -> list[AcquiredOffset]:
        """Return the offsets whose locks this member has now."""
        return self._call(self._show_held)

    def accept(self, slots: Iterable[Slot]) -> list[Slot]:
        """Accept held offsets. Returns those whose acceptance is durable, and logs why others are not."""
        return self._call(lambda: self._accept(list(slots)))

    def close(self) -> None:
        """Leave the group. The brokers release the offsets that were not accepted."""
        if self._token is not None and self._thread.is_alive():
            self._token.run_sync_soon(self._closing.set)
        self._thread.join(2 * CLOSE_SECONDS)

    def _call(self, function: Callable[[], Awaitable[T]]) -> T:
        try:
            return trio.from_thread.run(function, trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled) as problem:
            raise KraftError(f"share group {self._group}: the member of the query has ended") from problem

    # On the trio loop

    def _run(self) -> None:
        try:
            trio.run(self._live)
        except Exception as problem:  # The end of the thread: the opener of the member gets it, else the log.
            if self._opened.done():
                log.exception("share group %s: the member of the query has failed", self._group)
            else:
                self._opened.set_exception(problem)

    async def _live(self) -> None:
        options = self._options
        cluster = Cluster(
            RealWorld(tls=options.security.tls, login=options.security.login),
            [address_of(each) for each in options.kafka["bootstrap.servers"].split(",") if each.strip()],
            client_id=options.kafka.get("client.id", "kraft-spark"),
            request_seconds=options.request_timeout_ms / 1000,
            operation_seconds=options.look_up_timeout_ms / 1000,
        )
        async with (
            cluster as self._cluster,
            open_share_consumer(
                cluster,
                self._group,
                self._topics,
                explicit=True,
                max_records=self._offsets_max,
                record_limit=True,
                max_poll_seconds=math.inf,
                offsets_only=True,
            ) as self._consumer,
            trio.open_nursery() as nursery,
        ):
            self._token = trio.lowlevel.current_trio_token()
            nursery.start_soon(self._renew_locks)
            self._opened.set_result(None)
            await self._closing.wait()
            nursery.cancel_scope.cancel()

    @property
    def _share(self) -> ShareConsumer:
        assert self._consumer is not None, "the member is open"
        return self._consumer

    def _now(self) -> float:
        assert self._cluster is not None, "the member is open"
        return self._cluster.world.clock.now()

    async def _acquire(self, thoroughly: bool) -> bool:
        consumer = self._share
        deadline = self._now() + self._options.look_up_timeout_ms / 1000
        before = len(self._held)
        quiet_since = self._now()
        while not self._hold(await consumer.poll(POLL_SECONDS)):
            if consumer.obstacle is not None or not consumer.membership.assigned:
                quiet_since = self._now()
            elif not thoroughly or self._now() - quiet_since > consumer.membership.heartbeat_seconds + POLL_SECONDS:
                return len(self._held) > before
            if consumer.obstacle is not None and self._now() >= deadline:
                raise consumer.obstacle
            if self._now() >= deadline:
                return False  # The group has more members than it can use.
        until = self._now() + GATHER_SECONDS
        while consumer.in_flight < self._offsets_max and self._now() < until:
            if not self._hold(await consumer.poll(QUIET_SECONDS)):
                break
        return True

    def _hold(self, records: Sequence[ShareRecord]) -> bool:
        self._held.update({_slot_of(each): each for each in records})
        if records:
            left = max(each.lock.deadline for each in records) - self._now()
            self._lock_seconds = max(LOCK_SECONDS_MIN, left)
        return bool(records)

    async def _show_held(self) -> list[AcquiredOffset]:
        self._held = {slot: each for slot, each in self._held.items() if self._is_held(each)}
        return [AcquiredOffset(each.partition.topic, *slot, each.delivery_count) for slot, each in self._held.items()]

    def _is_held(self, record: ShareRecord) -> bool:
        return record.lock.state is LockState.HELD and record.lock.deadline > self._now()

    async def _accept(self, slots: Sequence[Slot]) -> list[Slot]:
        consumer = self._share
        try:
            if consumer.failed:
                await consumer.commit()  # Renewals that failed: their locks are lost, or end soon.
            records = {slot: self._held.pop(slot) for slot in slots if slot in self._held}
            for each in records.values():
                consumer.accept(each)
            failed = await consumer.commit()
        except DeadlinePassed as problem:
            log.warning("share group %s: whether records were accepted is not known: %s", self._group, problem)
            return []
        for each_failed in failed.values():
            log.warning("share group %s: processed records were not accepted: %s", self._group, each_failed)
        return [
            slot
            for slot, each in records.items()
            if (failure := failed.get(each.partition)) is None
            or not failure.first_offset <= each.record.offset <= failure.last_offset
        ]

    async def _renew_locks(self) -> None:
        """Renew each lock when half of its time has passed, until cancelled."""
        consumer = self._share
        while True:
            assert self._cluster is not None, "the member is open"
            await self._cluster.world.clock.sleep(min(LOOK_SECONDS, self._lock_seconds / 8))
            self._hold(consumer.arrived())
            if not self._renews:
                continue
            if any(isinstance(each.problem, UnsupportedApi) for each in consumer.failed.values()):
                self._renews = False
                log.warning(
                    "share group %s: the brokers cannot renew locks, as kraft and Apache Kafka 4.2 do: the records of "
                    "a micro-batch that takes longer than share.record.lock.duration.ms are delivered again",
                    self._group,
                )
                continue
            latest = self._now() + self._lock_seconds / 2
            for each in self._held.values():
                if each.lock.deadline < latest and self._is_held(each):
                    consumer.renew(each)


def _slot_of(record: ShareRecord) -> Slot:
    topic_id, partition = record.lock.place
    return topic_id, partition, record.record.offset
