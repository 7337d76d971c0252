"""One partition on this broker: its role, its log, its in-sync set, and those who wait for it.

Made by the thousand: slotted, no locks, no paths, no events until somebody waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kraft.common.errors import ApiError, NotLeader
from kraft.protocol.error_codes import ErrorCode
from kraft.replication import isr_policy
from kraft.replication.isr_policy import FollowerState
from kraft.replication.purgatory import FetchWaiter, ProduceWaiter

if TYPE_CHECKING:
    from kraft.metadata.image.partition_registration import PartitionRegistration
    from kraft.storage.log_append import LogAppendInfo
    from kraft.storage.log_reader import FetchData
    from kraft.storage.unified_log import UnifiedLog

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
CONSUMER = -1
"""The replica id of those who are none."""


class Partition:
    """Owned by the broker's loop: every method is synchronous, so a caller sees one consistent state between two awaits.

    Invariants: `is_leader` only while `leader_id` is this broker; `log` is there for every replica assigned here; the high watermark never falls within a
    leader epoch.
    """

    __slots__ = (
        "epoch_start_offset",
        "fetch_waiters",
        "followers",
        "high_watermark_listeners",
        "index",
        "is_leader",
        "isr",
        "leader_epoch",
        "leader_id",
        "log",
        "min_isr",
        "node_id",
        "partition_epoch",
        "produce_waiters",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(self, node_id: int, topic: str, index: int, topic_id: bytes, log: UnifiedLog) -> None:
        self.node_id = node_id
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.is_leader = False
        self.leader_id = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.min_isr = 1
        self.epoch_start_offset = 0
        self.followers: dict[int, FollowerState] | None = None
        self.produce_waiters: list[ProduceWaiter] | None = None
        self.fetch_waiters: list[FetchWaiter] | None = None
        self.high_watermark_listeners: list[Callable[[int], None]] | None = None

    # --- roles -------------------------------------------------------------------------------------------------------------------------------------------

    def apply(self, registration: PartitionRegistration, now: float) -> bool:
        """Take over what the metadata log says. True when the leader epoch is new (a new term: coordinators and waiters care)."""
        if registration.partition_epoch <= self.partition_epoch:
            return False
        new_epoch = registration.leader_epoch > self.leader_epoch
        was_leader = self.is_leader
        self.partition_epoch = registration.partition_epoch
        self.leader_id = registration.leader
        self.leader_epoch = registration.leader_epoch
        self.replicas = registration.replicas
        self.isr = registration.isr
        self.is_leader = registration.leader == self.node_id
        if self.is_leader:
            self._apply_as_leader(new_epoch, now)
        else:
            self.followers = None
        if new_epoch and (was_leader or not self.is_leader):
            self.wake_all()
        return new_epoch

    def _apply_as_leader(self, new_epoch: bool, now: float) -> None:
        if new_epoch:
            self.epoch_start_offset = self.log.log_end_offset
            self.log.assign_epoch(self.leader_epoch)
            self.followers = None
        if len(self.replicas) > 1:
            followers = self.followers or {}
            self.followers = {replica: followers.get(replica) or FollowerState(now) for replica in self.replicas if replica != self.node_id}
        else:
            self.followers = None
        self.advance_high_watermark()

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Raises NotLeader when another broker leads; ApiError FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH when the caller's epoch differs (KIP-320)."""
        if current_leader_epoch != -1 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, f"{self}: leader epoch is {self.leader_epoch}, the request has {current_leader_epoch}")
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{self}: leader epoch is {self.leader_epoch}, the request has {current_leader_epoch}")
        if not self.is_leader:
            raise NotLeader(f"{self}: broker {self.leader_id} leads in epoch {self.leader_epoch}", self.leader_id, self.leader_epoch)

    # --- writing -----------------------------------------------------------------------------------------------------------------------------------------

    def append(self, batch: memoryview, required_acks: int, now_ms: int, origin: int) -> LogAppendInfo:
        """Append one batch as leader. Raises NotLeader, ApiError (NOT_ENOUGH_REPLICAS, and whatever validation finds), StorageError."""
        if not self.is_leader:
            self.check_leader()
        if required_acks == -1 and not self.has_enough_in_sync:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{self}: {len(self.isr)} in sync, min.insync.replicas is {self.min_isr}")
        log = self.log
        info = log.append_as_leader(batch, self.leader_epoch, now_ms=now_ms, origin=origin)
        if self.followers is None:
            end = self.durable_end()
            if end > log.high_watermark:
                log.update_high_watermark(end)
                if self.produce_waiters:
                    self._wake_produce(end)
                if self.high_watermark_listeners:
                    self._tell_high_watermark(end)
        else:
            self.advance_high_watermark()
        if self.fetch_waiters:
            size = len(batch)
            for waiter in self.fetch_waiters:
                waiter.grew(size)
        return info

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether the in-sync set is as large as min.insync.replicas asks."""
        return len(self.isr) >= isr_policy.effective_min_isr(self.min_isr, len(self.replicas))

    def durable_end(self) -> int:
        """How far this replica's own log counts: its end, or what is synced once flush.messages asks for a sync (Kafka syncs within the append)."""
        log = self.log
        end = log.log_end_offset
        recovery_point = log.recovery_point
        return recovery_point if end - recovery_point >= log.config.flush_messages else end

    def advance_high_watermark(self) -> bool:
        """Move the high watermark as far as the in-sync set allows; wakes those who waited for it."""
        log = self.log
        end = self.durable_end()
        followers = self.followers
        if followers is None:
            reached = end
        else:
            minimum = isr_policy.effective_min_isr(self.min_isr, len(self.replicas))
            reached = isr_policy.high_watermark(end, self.isr, self.node_id, followers, log.high_watermark, isr_size=len(self.isr), min_isr=minimum)
        if reached <= log.high_watermark:
            return False
        log.update_high_watermark(reached)
        if self.produce_waiters:
            self._wake_produce(reached)
        if self.high_watermark_listeners:
            self._tell_high_watermark(reached)
        for waiter in self.fetch_waiters or ():
            waiter.wake()
        return True

    def follower_fetched(self, replica_id: int, offset: int, log_start_offset: int, broker_epoch: int, now: float, *, knows_epoch: bool = True) -> None:
        """A follower's Fetch at `offset` acknowledges everything before it. `knows_epoch`: it named the leader epoch, and that is ours."""
        followers = self.followers
        follower = followers.get(replica_id) if followers is not None else None
        if follower is None:
            if not knows_epoch:
                raise NotLeader(f"{self}: broker {replica_id} is not a replica", self.leader_id, self.leader_epoch)
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{self}: broker {replica_id} is not a replica as far as the leader knows")
        follower.fetched(offset, log_start_offset, self.log.log_end_offset, broker_epoch, now)
        self.advance_high_watermark()

    # --- reading -----------------------------------------------------------------------------------------------------------------------------------------

    def fetchable_end(self, isolation_level: int, replica_id: int = CONSUMER) -> int:
        """Where a reader must stop: log end for a follower or a debugging tool, last stable offset for read_committed, else the high watermark."""
        log = self.log
        if replica_id != CONSUMER:
            return log.log_end_offset
        return log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark

    def read(self, offset: int, max_bytes: int, isolation_level: int, *, min_one_message: bool, replica_id: int = CONSUMER) -> FetchData:
        """Whole batches from the one that holds `offset`. Raises ApiError OFFSET_OUT_OF_RANGE."""
        log = self.log
        end = self.fetchable_end(isolation_level, replica_id)
        if offset < log.log_start_offset or offset > log.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self}: offset {offset} is outside {log.log_start_offset}..{log.log_end_offset}")
        return log.read(offset, max_bytes, max_offset=end, min_one_message=min_one_message)

    def delete_records_before(self, offset: int) -> int:
        """Raise the log start offset (DeleteRecords); -1 means the high watermark. Returns the new low watermark."""
        log = self.log
        target = log.high_watermark if offset == -1 else offset
        if target < 0 or target > log.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self}: cannot delete before {offset}: the high watermark is {log.high_watermark}")
        log.delete_records_before(target)
        return log.log_start_offset

    # --- waiting -----------------------------------------------------------------------------------------------------------------------------------------

    def add_fetch_waiter(self, waiter: FetchWaiter) -> None:
        if self.fetch_waiters is None:
            self.fetch_waiters = []
        self.fetch_waiters.append(waiter)

    def remove_fetch_waiter(self, waiter: FetchWaiter) -> None:
        if self.fetch_waiters is not None and waiter in self.fetch_waiters:
            self.fetch_waiters.remove(waiter)

    def add_produce_waiter(self, waiter: ProduceWaiter) -> None:
        if self.produce_waiters is None:
            self.produce_waiters = []
        self.produce_waiters.append(waiter)

    def remove_produce_waiter(self, waiter: ProduceWaiter) -> None:
        if self.produce_waiters is not None and waiter in self.produce_waiters:
            self.produce_waiters.remove(waiter)

    def add_high_watermark_listener(self, listener: Callable[[int], None]) -> Callable[[], None]:
        """Call `listener(high watermark)` each time it rises. Returns the function that ends it."""
        if self.high_watermark_listeners is None:
            self.high_watermark_listeners = []
        listeners = self.high_watermark_listeners
        listeners.append(listener)

        def end() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return end

    def _tell_high_watermark(self, high_watermark: int) -> None:
        for listener in list(self.high_watermark_listeners or ()):
            listener(high_watermark)

    def _wake_produce(self, high_watermark: int) -> None:
        assert self.produce_waiters is not None
        still = []
        for waiter in self.produce_waiters:
            if waiter.required_offset <= high_watermark:
                waiter.event.set()
            else:
                still.append(waiter)
        self.produce_waiters = still

    def wake_all(self) -> None:
        """Leadership moved: everybody looks again and finds out."""
        for produce in self.produce_waiters or ():
            produce.event.set()
        self.produce_waiters = None
        for fetch in self.fetch_waiters or ():
            fetch.wake()

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"
