"""One partition on this broker: its role, its log, its in-sync set, and who waits for it.

There are thousands: slotted, without locks or paths, and without a list of waiters until somebody waits.
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
"""The replica id of those who are none."""


class TransactionalAppend:
    """The proof for an append to a transaction. Data needs the `verification`, which is valid in `leader_epoch` only
    (-1: in any). A marker needs the `transaction_version` that its coordinator names."""

    __slots__ = ("leader_epoch", "transaction_version", "verification")

    def __init__(
        self, verification: Verification | None = None, *, leader_epoch: int = -1, transaction_version: int = 0
    ) -> None:
        self.verification = verification
        self.leader_epoch = leader_epoch
        self.transaction_version = transaction_version

    def check_epoch(self, partition: Partition) -> None:
        """Raises NotLeader when the partition has another leader epoch than the verification."""
        if self.leader_epoch not in (-1, partition.leader_epoch):
            raise NotLeader(
                f"{partition}: verified in leader epoch {self.leader_epoch}, which is over",
                partition.leader_id,
                partition.leader_epoch,
            )


class Partition:
    """Owned by the broker's loop: every method is synchronous, so a caller sees one consistent state between two
    awaits.

    Invariants: `is_leader` only while `leader_id` is this broker; `log` is there for every replica assigned here;
    the high watermark never falls within a leader epoch.
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
        # While it leads: no other did since this epoch, so what it appended from then on still stands in its log.
        self.led_since_epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.pending_isr: tuple[int, ...] | None = None
        """What was proposed to the controller (AlterPartition) and not yet decided. Until it is, both sets count."""
        self.min_isr = 1
        self.epoch_start_offset = 0
        self.followers: dict[int, FollowerState] | None = None
        self.traffic = PartitionTraffic()
        self.tier: PartitionTier | None = None
        """Made when its topic is tiered."""
        self._waiters: PartitionWaiters | None = None

    @property
    def waiters(self) -> PartitionWaiters:
        """The requests that wait for this partition."""
        if self._waiters is None:
            self._waiters = PartitionWaiters()
        return self._waiters

    @property
    def has_waiters(self) -> bool:
        """Whether a request is parked here."""
        return bool(self._waiters)

    # --- roles

    def apply(self, registration: PartitionRegistration, now: float) -> bool:
        """Take over what the metadata log says. True when the leader epoch is new (a new term: coordinators and
        waiters care)."""
        if registration.partition_epoch < self.partition_epoch:
            return False
        # Equal where the answer to AlterPartition told the in-sync set first.
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
        """The replica leaves this broker. Whoever waits for it finds out."""
        if self.is_leader:
            self._count_what_came_in()
        self.is_leader = False
        self.leader_id = -1

    @property
    def messages_in(self) -> int:
        """Records that were appended while this replica led, since it is here."""
        traffic = self.traffic
        return traffic.messages_in + (self.log.log_end_offset - traffic.led_from if self.is_leader else 0)

    def _count_what_came_in(self) -> None:
        """The term ends."""
        self.traffic.messages_in += self.log.log_end_offset - self.traffic.led_from

    def wake_waiters(self) -> None:
        """Everybody who waits for this partition looks again."""
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
        """Raises NotLeader when another broker leads; ApiError as `check_epoch`."""
        self.check_epoch(current_leader_epoch)
        if not self.is_leader:
            raise NotLeader(
                f"{self}: broker {self.leader_id} leads in epoch {self.leader_epoch}", self.leader_id, self.leader_epoch
            )

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raises ApiError FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH when the caller names an epoch, and another
        one (KIP-320)."""
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
        """Append one batch as leader. Raises NotLeader, ApiError (NOT_ENOUGH_REPLICAS, and whatever validation
        finds), StorageError."""
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
        """The verification to append a transactional batch with, once the coordinator has confirmed its transaction.
        None when the transaction is open here already. Raises NotLeader."""
        self.check_leader()
        verification = self.log.producers.start_verification(
            producer_id, producer_epoch, sequence, now_ms, implicit=implicit
        )
        return None if verification is None else TransactionalAppend(verification, leader_epoch=self.leader_epoch)

    def check_may_append(self, required_acks: int) -> None:
        """Raises NotLeader, ApiError NOT_ENOUGH_REPLICAS."""
        if not self.is_leader:
            self.check_leader()
        if required_acks == -1 and len(self.isr) < self.min_isr and not self.has_enough_in_sync:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self}: only {len(self.isr)} in sync, fewer than min.insync.replicas ({self.min_isr})",
            )

    def appended(self, size: int) -> None:
        """Note that this leader's log has grown by `size` bytes: move the high watermark as far as it may go, and wake
        the requests that wait for it."""
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
        """Whether the in-sync set is as large as min.insync.replicas asks."""
        return len(self.isr) >= isr_policy.effective_min_isr(self.min_isr, len(self.replicas))

    def durable_end(self) -> int:
        """How far this replica's own log counts: its end, or what is synced once flush.messages asks for a sync
        (Kafka syncs within the append)."""
        log = self.log
        end = log.log_end_offset
        recovery_point = log.flush_state.recovery_point
        return recovery_point if end - recovery_point >= log.config.flush_messages else end

    def advance_high_watermark(self) -> bool:
        """Move the high watermark as far as the ISR allows, and wake the requests that wait for it. A follower's high
        watermark is its leader's."""
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
        """Everybody who is, or may by now be, in the in-sync set: what is committed must be on all of them."""
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
        """A follower's Fetch at `offset` acknowledges everything before it. `knows_epoch`: it named the leader
        epoch, and that is ours."""
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
        follower.fetched(offset, log_start_offset, self.log.log_end_offset, broker_epoch, now)
        self.advance_high_watermark()

    # --- the in-sync set

    def isr_to_propose(self, now: float) -> tuple[int, ...] | None:
        """The ISR that the controller should grant, by what the followers have fetched. None while the present one is
        right or a proposal is under way. Followers that have fallen behind are removed first; replicas join when none
        has to be removed."""
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
        """The controller's answer to a proposal. It counts unless the metadata log has told something newer by now."""
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
        """Take over what the leader sent, and how far it is committed. Raises ApiError, StorageError."""
        info = self.log.append_as_follower(records, now_ms=now_ms, leader_epoch=self.leader_epoch) if records else None
        self.followed(leader_high_watermark, leader_log_start)
        return info

    def followed(self, leader_high_watermark: int, leader_log_start: int) -> None:
        """How far the leader's log is committed, and where it starts, as far as this one has got."""
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
        """Where a reader must stop: log end for a follower or a debugging tool, last stable offset for
        read_committed, else the high watermark."""
        log = self.log
        if replica_id != CONSUMER:
            return log.log_end_offset
        return log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark

    def read(
        self, offset: int, max_bytes: int, isolation_level: int, *, min_one_message: bool, replica_id: int = CONSUMER
    ) -> FetchData:
        """Whole batches from the one that holds `offset`. Raises ApiError OFFSET_OUT_OF_RANGE."""
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
        """The log starts later than before: whoever fetches hears of it."""
        if self._waiters is not None:
            self._waiters.tell_watches()

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"
