"""One partition on this broker: its role, its log, its in-sync replica set, and the requests parked on it.

A broker has thousands: the class is slotted, has no locks or paths, and creates its list of waiters only when a request
parks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.errors import ApiError, NotLeader
from kraft.protocol.error_codes import ErrorCode
from kraft.replication import isr_policy
from kraft.replication.isr_policy import FollowerState, IsrRules
from kraft.replication.partition_traffic import PartitionTraffic
from kraft.replication.purgatory import PartitionWaiters

if TYPE_CHECKING:
    from kraft.metadata.image.partition_registration import PartitionRegistration
    from kraft.replication.tiers.partition_tier import PartitionTier
    from kraft.storage.log_append import LogAppendInfo
    from kraft.storage.log_reader import FetchData
    from kraft.storage.producers.verification import Verification
    from kraft.storage.unified_log import UnifiedLog

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
CONSUMER = -1
"""The replica id in a consumer's Fetch."""


class TransactionalAppend:
    """The proof required for an append to a transaction.

    A data batch needs the `verification`, valid in `leader_epoch` only (-1: in any). A marker needs the
    `transaction_version` named by its coordinator.
    """

    __slots__ = ("leader_epoch", "transaction_version", "verification")

    def __init__(
        self, verification: Verification | None = None, *, leader_epoch: int = -1, transaction_version: int = 0
    ) -> None:
        self.verification = verification
        self.leader_epoch = leader_epoch
        self.transaction_version = transaction_version

    def check_epoch(self, partition: Partition) -> None:
        """Raises NotLeader if the partition's leader epoch is not the one of the verification."""
        if self.leader_epoch not in (-1, partition.leader_epoch):
            raise NotLeader(
                f"{partition}: the transaction was verified in leader epoch {self.leader_epoch}, which has ended",
                partition.leader_id,
                partition.leader_epoch,
            )


class Partition:
    """A replica hosted on this broker. Owned by the broker's loop. Every method is synchronous, so a caller sees one
    consistent state between two awaits.

    Invariants: `is_leader` only while `leader_id` is this broker. Every replica assigned to this broker has a `log`.
    The high watermark never falls within a leader epoch.
    """

    __slots__ = (
        "_waiters",
        "epoch_start_offset",
        "followers",
        "index",
        "is_leader",
        "isr",
        "leader_epoch",
        "leader_id",
        "led_since_epoch",
        "log",
        "min_isr",
        "node_id",
        "partition_epoch",
        "pending_isr",
        "replicas",
        "rules",
        "tier",
        "topic",
        "topic_id",
        "traffic",
    )

    def __init__(self, node_id: int, topic: str, index: int, topic_id: bytes, log: UnifiedLog, rules: IsrRules) -> None:
        self.node_id = node_id
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.rules = rules
        self.is_leader = False
        self.leader_id = -1
        self.leader_epoch = -1
        # While it leads: it has led without a break since this epoch, so its appends since then are still in its log.
        self.led_since_epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.pending_isr: tuple[int, ...] | None = None
        """The set proposed to the controller (AlterPartition) and not yet decided. Until then both sets count."""
        self.min_isr = 1
        self.epoch_start_offset = 0
        self.followers: dict[int, FollowerState] | None = None
        self.traffic = PartitionTraffic()
        self.tier: PartitionTier | None = None
        """Created when the topic is tiered."""
        self._waiters: PartitionWaiters | None = None

    @property
    def waiters(self) -> PartitionWaiters:
        """The requests parked on this partition. Created at the first use."""
        if self._waiters is None:
            self._waiters = PartitionWaiters()
        return self._waiters

    @property
    def has_waiters(self) -> bool:
        """Whether a request is parked on this partition."""
        return bool(self._waiters)

    # --- roles

    def apply(self, registration: PartitionRegistration, now: float) -> bool:
        """Apply the partition's registration. Returns True if the leader epoch is new, so that coordinators and waiters
        must be notified."""
        if registration.partition_epoch < self.partition_epoch:
            return False
        # Equal if the AlterPartition response brought the in-sync set first.
        if registration.partition_epoch > self.partition_epoch:
            self.pending_isr = None
        assert registration.leader_epoch >= self.leader_epoch, (
            f"{self}: leader epoch {self.leader_epoch} would fall to {registration.leader_epoch}"
        )
        new_epoch = registration.leader_epoch > self.leader_epoch
        was_leader = self.is_leader
        isr_policy.reset_removed_followers(self.followers or {}, self.isr, registration.isr, now)
        self.partition_epoch = registration.partition_epoch
        self.leader_id = registration.leader
        self.leader_epoch = registration.leader_epoch
        self.replicas = registration.replicas
        self.isr = registration.isr
        self.is_leader = registration.leader == self.node_id
        if self.is_leader:
            self._apply_as_leader(new_epoch, was_leader, now)
        else:
            self.followers = None
            if was_leader:
                self._count_what_came_in()
        if self._waiters is not None:
            if new_epoch and (was_leader or not self.is_leader):
                self._waiters.role_changed(self.followers)
            else:  # The in-sync set may have changed. Followers outside it are looked at with every fetch.
                self._waiters.end_watches(self.followers)
        return new_epoch

    def resign(self) -> None:
        """Give up leadership because the replica leaves this broker. The caller wakes the waiters."""
        if self.is_leader:
            self._count_what_came_in()
        self.is_leader = False
        self.leader_id = -1

    @property
    def messages_in(self) -> int:
        """The number of records appended while this replica led, since it was created on this broker."""
        traffic = self.traffic
        return traffic.messages_in + (self.log.log_end_offset - traffic.led_from if self.is_leader else 0)

    def _count_what_came_in(self) -> None:
        """Add the records appended in this term to the total."""
        self.traffic.messages_in += self.log.log_end_offset - self.traffic.led_from

    def wake_waiters(self) -> None:
        """Wake all parked requests, so that they check the partition again."""
        if self._waiters is not None:
            self._waiters.role_changed(self.followers)

    def _apply_as_leader(self, new_epoch: bool, was_leader: bool, now: float) -> None:
        if not was_leader:
            self.led_since_epoch = self.leader_epoch
            self.traffic.led_from = self.log.log_end_offset
        if new_epoch:
            self.epoch_start_offset = self.log.log_end_offset
            self.log.assign_epoch(self.leader_epoch)
            self.followers = None
        if len(self.replicas) > 1:
            known = self.followers or {}
            others = [replica for replica in self.replicas if replica != self.node_id]
            self.followers = {
                replica: known.get(replica) or FollowerState(now, in_isr=replica in self.isr) for replica in others
            }
        else:
            self.followers = None
        self.advance_high_watermark()

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Raises NotLeader if another broker leads; ApiError like `check_epoch`."""
        self.check_epoch(current_leader_epoch)
        if not self.is_leader:
            raise NotLeader(
                f"{self}: broker {self.leader_id} leads in epoch {self.leader_epoch}", self.leader_id, self.leader_epoch
            )

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raises ApiError FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH if the request names a leader epoch other than
        the current one (KIP-320)."""
        if current_leader_epoch != -1 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise ApiError(
                    ErrorCode.FENCED_LEADER_EPOCH,
                    f"{self}: leader epoch is {self.leader_epoch}, the request has {current_leader_epoch}",
                )
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self}: leader epoch is {self.leader_epoch}, the request has {current_leader_epoch}",
            )

    # --- writing

    def append(
        self,
        batch: memoryview,
        required_acks: int,
        now_ms: int,
        origin: int,
        transaction: TransactionalAppend | None = None,
    ) -> LogAppendInfo:
        """Append one batch as leader. Raises NotLeader, ApiError (NOT_ENOUGH_REPLICAS, or a validation error),
        StorageError."""
        self.check_may_append(required_acks)
        if transaction is None:
            info = self.log.append_as_leader(batch, self.leader_epoch, now_ms=now_ms, origin=origin)
        else:
            transaction.check_epoch(self)
            info = self.log.append_as_leader(
                batch,
                self.leader_epoch,
                now_ms=now_ms,
                origin=origin,
                transaction_version=transaction.transaction_version,
                verification=transaction.verification,
            )
        self.appended(len(batch))
        return info

    def start_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, implicit: bool
    ) -> TransactionalAppend | None:
        """Return the verification with which to append a transactional batch, once the coordinator has confirmed the
        transaction. None if the transaction is already open in this partition. Raises NotLeader."""
        self.check_leader()
        verification = self.log.producers.start_verification(
            producer_id, producer_epoch, sequence, now_ms, implicit=implicit
        )
        return None if verification is None else TransactionalAppend(verification, leader_epoch=self.leader_epoch)

    def check_may_append(self, required_acks: int) -> None:
        """Raises NotLeader, or ApiError NOT_ENOUGH_REPLICAS for acks=all below min.insync.replicas."""
        if not self.is_leader:
            self.check_leader()
        if required_acks == -1 and len(self.isr) < self.min_isr and not self.has_enough_in_sync:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self}: only {len(self.isr)} in sync, fewer than min.insync.replicas ({self.min_isr})",
            )

    def appended(self, size: int) -> None:
        """Record that this leader's log has grown by `size` bytes: advance the high watermark as far as allowed, and
        wake parked requests."""
        log, waiters = self.log, self._waiters
        self.traffic.bytes_in += size
        if self.followers is None:
            end = self.durable_end()
            if end > log.high_watermark:
                log.update_high_watermark(end)
                if waiters is not None:
                    waiters.committed_with_append(end)
        else:
            self.advance_high_watermark()
        if waiters is not None:
            waiters.log_grew(size, self.followers, is_committed=self.followers is None)

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether the in-sync replica set has at least the effective min.insync.replicas."""
        return len(self.isr) >= isr_policy.effective_min_isr(self.min_isr, len(self.replicas))

    def durable_end(self) -> int:
        """The offset up to which this replica counts for the high watermark: its log end, or its recovery point while
        flush.messages requires a sync (Kafka syncs within the append)."""
        log = self.log
        end = log.log_end_offset
        recovery_point = log.flush_state.recovery_point
        return recovery_point if end - recovery_point >= log.config.flush_messages else end

    def advance_high_watermark(self) -> bool:
        """Advance the high watermark as far as the ISR allows, and wake the requests parked for it. Does nothing on a
        follower, whose high watermark comes from its leader."""
        if not self.is_leader:
            return False
        log = self.log
        end = self.durable_end()
        followers = self.followers
        if followers is None:
            reached = end
        else:
            minimum = isr_policy.effective_min_isr(self.min_isr, len(self.replicas))
            reached = isr_policy.high_watermark(
                end,
                self.maximal_isr,
                self.node_id,
                followers,
                log.high_watermark,
                isr_size=len(self.isr),
                min_isr=minimum,
                rules=self.rules,
            )
        if reached <= log.high_watermark:
            return False
        assert reached <= end, f"{self}: {reached} would be committed, and the leader has {end}"
        log.update_high_watermark(reached)
        if self._waiters is not None:
            self._waiters.high_watermark_rose(reached)
        return True

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """All replicas that are in the in-sync replica set, or may be in it by a pending proposal. A committed record
        must be on all of them."""
        pending = self.pending_isr
        return (
            self.isr if pending is None else self.isr + tuple(replica for replica in pending if replica not in self.isr)
        )

    def follower_fetched(
        self,
        replica_id: int,
        offset: int,
        log_start_offset: int,
        broker_epoch: int,
        now: float,
        *,
        knows_epoch: bool = True,
    ) -> None:
        """Record a follower's Fetch at `offset`, which acknowledges everything before it.

        `knows_epoch`: the Fetch named the leader epoch, and it is the current one.
        """
        followers = self.followers
        follower = followers.get(replica_id) if followers is not None else None
        if follower is None:
            if not knows_epoch:
                raise NotLeader(f"{self}: broker {replica_id} is not a replica", self.leader_id, self.leader_epoch)
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self}: broker {replica_id} is not a replica as far as the leader knows",
            )
        if broker_epoch != -1 and broker_epoch < follower.broker_epoch:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self}: broker {replica_id} has a newer incarnation than epoch {broker_epoch} (KIP-903)",
            )
        starts_later = log_start_offset > follower.log_start_offset
        follower.fetched(offset, log_start_offset, self.log.log_end_offset, broker_epoch, now)
        if starts_later:
            self.notify_low_watermark()
        self.advance_high_watermark()

    # --- the in-sync set

    def isr_to_propose(self, now: float) -> tuple[int, ...] | None:
        """Return the ISR to propose to the controller, by what the followers have fetched. None if the current ISR is
        right or a proposal is pending.

        Followers that have fallen behind are removed first. Replicas join when none must be removed.
        """
        followers, rules = self.followers, self.rules
        if not self.is_leader or followers is None or self.pending_isr is not None:
            return None
        kept = isr_policy.shrunk_isr(
            self.isr, self.node_id, followers, self.log.log_end_offset, now, rules.lag_seconds_max()
        )
        if kept != self.isr:
            assert self.node_id in kept, f"{self}: its leader would leave {self.isr}"
            return kept
        high_watermark, start = self.log.high_watermark, self.epoch_start_offset
        joining = tuple(
            replica
            for replica, follower in followers.items()
            if replica not in self.isr
            and isr_policy.may_join_isr(follower, high_watermark, start)
            and rules.is_eligible(replica, follower.broker_epoch)
        )
        return self.isr + joining if joining else None

    def isr_decided(self, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int) -> None:
        """Apply the controller's response to a proposal, unless the metadata log has brought a newer state."""
        if leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch or not self.is_leader:
            return
        assert self.node_id in isr, f"{self}: leads outside of the in-sync set {isr}"
        self.traffic.isr_changed(len(self.isr), len(isr))
        self.isr = isr
        self.partition_epoch = partition_epoch
        self.pending_isr = None
        self.advance_high_watermark()

    # --- following

    def append_as_follower(
        self, records: memoryview, leader_high_watermark: int, leader_log_start: int, now_ms: int
    ) -> LogAppendInfo | None:
        """Append records from the leader, and apply the leader's high watermark and log start. Raises ApiError,
        StorageError."""
        info = self.log.append_as_follower(records, now_ms=now_ms, leader_epoch=self.leader_epoch) if records else None
        self.followed(leader_high_watermark, leader_log_start)
        return info

    def followed(self, leader_high_watermark: int, leader_log_start: int) -> None:
        """Apply the leader's high watermark and log start offset, bounded by this replica's log end."""
        log = self.log
        committed = min(leader_high_watermark, log.log_end_offset)
        if committed > log.high_watermark:
            log.update_high_watermark(committed)
            if self._waiters is not None:
                self._waiters.high_watermark_rose(committed)
        if leader_log_start > log.log_start_offset:
            log.follow_log_start(leader_log_start)

    # --- reading

    def fetchable_end(self, isolation_level: int, replica_id: int = CONSUMER) -> int:
        """Return the offset at which a reader must stop.

        It is the log end offset for a follower or a debugging tool, the last stable offset for read_committed, else the
        high watermark.
        """
        log = self.log
        if replica_id != CONSUMER:
            return log.log_end_offset
        return log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark

    def read(
        self, offset: int, max_bytes: int, isolation_level: int, *, min_one_message: bool, replica_id: int = CONSUMER
    ) -> FetchData:
        """Read whole batches, starting with the one that contains `offset`. Raises ApiError OFFSET_OUT_OF_RANGE."""
        log = self.log
        end = self.fetchable_end(isolation_level, replica_id)
        if offset < log.log_start_offset or offset > log.log_end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self}: offset {offset} is outside {log.log_start_offset}..{log.log_end_offset}",
            )
        return log.read(offset, max_bytes, max_offset=end, min_one_message=min_one_message)

    def delete_records_before(self, offset: int) -> int:
        """Raise the log start offset (DeleteRecords). Returns the new low watermark. Raises ApiError
        OFFSET_OUT_OF_RANGE."""
        log = self.log
        if not 0 <= offset <= log.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self}: cannot delete before {offset}: the high watermark is {log.high_watermark}",
            )
        log.delete_records_before(offset)
        self.notify_log_start()
        return log.log_start_offset

    def notify_log_start(self) -> None:
        """Notify parked fetchers of a higher log start offset."""
        if self._waiters is not None:
            self._waiters.tell_watches()

    def notify_low_watermark(self) -> None:
        """Notify parked DeleteRecords requests: a follower's log start offset has risen, or a broker has joined or left
        the cluster."""
        if self._waiters is not None:
            self._waiters.low_watermark_may_have_risen()

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"
