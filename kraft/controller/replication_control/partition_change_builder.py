"""Chooses leaders and builds PartitionChangeRecords. No other module does.

A broker that is out of service (maintenance, decommissioning) leads only if no other in-sync replica can. Among the
other replicas the leader is chosen in this order:

1. The current leader, while it may lead.
2. The first replica in assignment order that may lead and is in the ISR, or in the ELR if the ISR is to be empty.
3. The replica that a recovery found (`kraft.controller.unclean.recovery`).
4. The last known leader (KIP-966: ELR on, ISR and ELR empty, the first in lastKnownElr that may lead), if an unclean
   election is allowed or every other replica is unregistered.
5. If an unclean election is allowed, the first replica that is alive.
6. No leader.

Choices 3 to 5 may lose acknowledged records: the ISR becomes the new leader alone, and the partition is marked
RECOVERING. It is not marked if the new leader is the only assigned replica, or if the recovery found that its log
contains those of all assigned replicas.

With ELR off the ISR never becomes empty. Its last member stays, leaderless, and is the only one that may lead again,
unless it has lost its records.

With ELR on, replicas that leave an ISR below min.insync.replicas become eligible. An eligible replica that restarts
uncleanly moves to lastKnownElr: it may still have everything. It stays there until it is back in ISR or ELR, or the ISR
has min.insync.replicas members again. When a partition loses its leader, that leader comes first in lastKnownElr.
(Apache Kafka records the last leader alone, and elects it on an empty disk.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kraft.common.metadata_versions import MetadataVersion
from kraft.common.recovery_strategy import RecoveryStrategy
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control.partition_reassignment import Reassignment
from kraft.metadata.image.partition_registration import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERING,
    PartitionRegistration,
)
from kraft.metadata.records.partition_change_record import PartitionChangeRecord


class Election:
    """The kind of an election."""

    PREFERRED: Final = 0  # The first replica if it may lead, else like ONLINE.
    ONLINE: Final = 1
    UNCLEAN: Final = 2


class PartitionChangeBuilder:
    """Builds the change of one partition, as one record. Set the wanted values, then call `build`."""

    __slots__ = (
        "_acceptable",
        "_capabilities",
        "_default_directory",
        "_directories",
        "_elr_enabled",
        "_min_isr",
        "_partition",
        "_partition_id",
        "_topic_id",
        "allow_last_known_leader",
        "avoided",
        "election",
        "keeps_lost_members",
        "lost_replica",
        "recovered_leader",
        "recovered_leader_has_all",
        "target_adding",
        "target_elr",
        "target_isr",
        "target_recovery_state",
        "target_removing",
        "target_replicas",
        "unclean_shutdown_replica",
    )

    def __init__(
        self,
        partition: PartitionRegistration,
        topic_id: bytes,
        partition_id: int,
        *,
        acceptable: Callable[[int], bool],
        min_isr: int,
        elr_enabled: bool,
        default_directory: Callable[[int], bytes],
        capabilities: MetadataVersion,
    ) -> None:
        """`acceptable` returns whether a broker may lead this partition now. `min_isr` is the effective
        min.insync.replicas. `capabilities` is the finalized metadata.version."""
        self._capabilities = capabilities
        self._partition = partition
        self._topic_id = topic_id
        self._partition_id = partition_id
        self._acceptable = acceptable
        self._min_isr = min_isr
        self._elr_enabled = elr_enabled
        self._default_directory = default_directory
        self._directories = dict(zip(partition.replicas, partition.directories, strict=True))
        self.target_isr: tuple[int, ...] = partition.isr
        self.target_replicas: tuple[int, ...] = partition.replicas
        self.target_removing: tuple[int, ...] = partition.removing_replicas
        self.target_adding: tuple[int, ...] = partition.adding_replicas
        self.target_elr: tuple[int, ...] = partition.elr
        self.target_recovery_state = partition.leader_recovery_state
        self.unclean_shutdown_replica = NO_LEADER
        self.lost_replica = NO_LEADER
        self.election = Election.ONLINE
        self.allow_last_known_leader = True
        self.avoided: frozenset[int] = frozenset()
        self.recovered_leader = NO_LEADER
        self.recovered_leader_has_all = False
        self.keeps_lost_members = False

    def set_directory(self, broker_id: int, directory: bytes) -> None:
        self._directories[broker_id] = directory

    def build(self) -> PartitionChangeRecord | None:
        """Return the record, or None if nothing would change."""
        record = PartitionChangeRecord(topic_id=self._topic_id, partition_id=self._partition_id)
        self._complete_reassignment()
        self._populate_elr()
        self._elect(record)
        self._bump_leader_epoch_if_a_replica_leaves(record)
        self._record_elr(record)
        if record.isr is None and (self.target_isr or self._may_be_empty) and self.target_isr != self._partition.isr:
            record.isr = list(self.target_isr)
        self._bump_leader_epoch_if_the_isr_shrinks(record)
        self._record_last_known_elr(record)
        self._record_assignment(record)
        if self.target_recovery_state != self._partition.leader_recovery_state:
            record.leader_recovery_state = self.target_recovery_state
        self._check(record)
        return None if _changes_nothing(record) else record

    def _check(self, record: PartitionChangeRecord) -> None:
        """Check the invariants of every decision: the ISR is a subset of the replicas and contains the leader."""
        partition = self._partition
        leader = partition.leader if record.leader == NO_LEADER_CHANGE else record.leader
        isr = partition.isr if record.isr is None else record.isr
        assert leader == NO_LEADER or leader in isr, f"{leader} leads {partition} outside of {isr}"
        assert all(member in self.target_replicas for member in isr), f"{isr} is in sync, of {self.target_replicas}"

    @property
    def _may_be_empty(self) -> bool:
        return self._elr_enabled or self.lost_replica in self._partition.isr

    def _complete_reassignment(self) -> None:
        done = Reassignment(self.target_replicas, self.target_adding, self.target_removing).completed(self.target_isr)
        if done is not None:
            assert set(self.target_adding) <= set(self.target_isr), f"{self.target_adding} of {self._partition} lag"
            self.target_replicas, self.target_isr = done
            assert self.target_isr, f"nobody in sync is left of {self._partition}"
            self.target_removing = self.target_adding = ()

    def _populate_elr(self) -> None:
        """Compute the ELR. Below min ISR, members of ISR or ELR that did not shut down uncleanly stay eligible. At or
        above min ISR, the ELR is empty.

        A broker that is no longer a replica deletes its log. If it were assigned again, its log would be empty, and it
        must not lead because of its earlier log.
        """
        if not self._elr_enabled:
            return
        if len(self.target_isr) >= self._min_isr:
            self.target_elr = ()
            return
        candidates = sorted({*self.target_elr, *self._partition.isr}.intersection(self.target_replicas))
        self.target_elr = tuple(
            replica
            for replica in candidates
            if replica not in self.target_isr and replica != self.unclean_shutdown_replica
        )

    def _elect(self, record: PartitionChangeRecord) -> None:
        leader, unclean = self._choose()
        if leader == self._partition.leader:
            return
        if leader != NO_LEADER:
            assert self._acceptable(leader), f"{leader} may not lead {self._partition}"
            assert unclean or self._is_safe(leader), f"the election of {leader} in {self._partition} is unclean"
        if leader != NO_LEADER and leader not in self.target_isr:
            self.target_isr = (leader,)
            self.target_elr = tuple(replica for replica in self.target_elr if replica != leader)
        record.leader = leader
        if unclean:
            record.isr = [leader]
            if self._partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING

    def _is_safe(self, leader: int) -> bool:
        """Whether nothing is lost under this leader: it is in sync or eligible, is the only replica, or is known to
        have everything."""
        return (
            leader in (self.target_isr or self.target_elr)
            or len(self.target_replicas) == 1
            or (leader == self.recovered_leader and self.recovered_leader_has_all)
        )

    def _choose(self) -> tuple[int, bool]:
        """Return (leader, whether the choice is unclean)."""
        for replica in self._clean_candidates():
            if self._may_lead(replica):
                return replica, False
        if self.recovered_leader != NO_LEADER and self._acceptable(self.recovered_leader):
            return self.recovered_leader, not self.recovered_leader_has_all
        known = self._last_known_leader()
        if known != NO_LEADER:
            return known, len(self.target_replicas) > 1
        if self.election == Election.UNCLEAN:
            for replica in self.target_replicas:
                if self._acceptable(replica):
                    return replica, True
        return NO_LEADER, False

    def _clean_candidates(self) -> Sequence[int]:
        """Return the candidates for leader, in order of preference. Brokers to avoid come last, in the same order."""
        first = self.target_replicas[:1] if self.election == Election.PREFERRED else ()
        order = (*first, self._partition.leader, *self.target_replicas)
        return sorted(order, key=self.avoided.__contains__) if self.avoided else order

    def _may_lead(self, replica: int) -> bool:
        in_sync = replica in self.target_isr or (not self.target_isr and replica in self.target_elr)
        return in_sync and self._acceptable(replica)

    def _last_known_leader(self) -> int:
        if not self._elr_enabled or not self.allow_last_known_leader or self.target_elr or self.target_isr:
            return NO_LEADER
        known = self._with_disks(self._partition.last_known_elr)
        able = known[:1] if self.election == Election.UNCLEAN else known
        return next((replica for replica in able if self._acceptable(replica)), NO_LEADER)

    def _with_disks(self, replicas: Sequence[int]) -> tuple[int, ...]:
        return tuple(replica for replica in replicas if replica != self.lost_replica)

    def _bump_leader_epoch_if_a_replica_leaves(self, record: PartitionChangeRecord) -> None:
        """Raise the leader epoch, even if the leader stays, to fence a removed replica."""
        if record.leader == NO_LEADER_CHANGE and any(
            replica not in self.target_replicas for replica in self._partition.replicas
        ):
            record.leader = self._partition.leader

    def _bump_leader_epoch_if_the_isr_shrinks(self, record: PartitionChangeRecord) -> None:
        """Raise the leader epoch below 3.6-IV0, even if the leader stays: the replica managers of earlier releases
        depend on it (KAFKA-15021)."""
        if (
            self._capabilities.raises_leader_epoch_on_isr_shrink
            and record.leader == NO_LEADER_CHANGE
            and record.isr is not None
            and any(member not in record.isr for member in self._partition.isr)
        ):
            record.leader = self._partition.leader

    def _record_elr(self, record: PartitionChangeRecord) -> None:
        # An unclean election, or no ELR: no other replica is eligible.
        if record.isr is not None or not self._elr_enabled:
            self.target_elr = ()
        if self.target_elr != self._partition.elr:
            record.eligible_leader_replicas = list(self.target_elr)

    def _record_last_known_elr(self, record: PartitionChangeRecord) -> None:
        if not self._elr_enabled:
            return
        after = self._last_known_elr(record)
        if after != self._partition.last_known_elr:
            record.last_known_elr = list(after)

    def _last_known_elr(self, record: PartitionChangeRecord) -> tuple[int, ...]:
        """Return the new lastKnownElr.

        While a leader exists, it contains the replicas that left ISR and ELR since the ISR last had min.insync.replicas
        members. While there is no leader, the last leader comes first, then these replicas.
        """
        partition, known = self._partition, self._partition.last_known_elr
        loses_leader = record.leader == NO_LEADER and partition.has_leader
        is_led = record.leader >= 0 or (record.leader == NO_LEADER_CHANGE and partition.has_leader)
        if is_led and len(self.target_isr) >= self._min_isr:
            return ()
        kept = (partition.leader,) if loses_leader else () if is_led else known
        former = (*known, *(replica for replica in partition.replicas if replica in (*partition.isr, *partition.elr)))
        lost = (replica for replica in former if replica not in (*self.target_isr, *self.target_elr))
        after = tuple(replica for replica in dict.fromkeys((*kept, *lost)) if replica in self.target_replicas)
        # A recovery strategy asks a replica even if its disk was lost. It answers that it has nothing.
        return after if self.keeps_lost_members else self._with_disks(after)

    def _record_assignment(self, record: PartitionChangeRecord) -> None:
        if self.target_replicas:
            known = self._directories
            directories = [
                known[replica] if replica in known else self._default_directory(replica)
                for replica in self.target_replicas
            ]
            if self._capabilities.assigns_directories and tuple(directories) != self._partition.directories:
                record.directories = directories
            if self.target_replicas != self._partition.replicas:
                record.replicas = list(self.target_replicas)
        if self.target_removing != self._partition.removing_replicas:
            record.removing_replicas = list(self.target_removing)
        if self.target_adding != self._partition.adding_replicas:
            record.adding_replicas = list(self.target_adding)


def _changes_nothing(record: PartitionChangeRecord) -> bool:
    return (
        record.isr is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.leader == NO_LEADER_CHANGE
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.leader_recovery_state == NO_RECOVERY_CHANGE
        and record.directories is None
    )


def change_of(
    view: ControllerView,
    topic_id: bytes,
    partition_id: int,
    partition: PartitionRegistration,
    acceptable: Callable[[int], bool] | None = None,
    comes_online: int = NO_LEADER,
) -> PartitionChangeBuilder:
    """Return a builder for one partition of `view`.

    `acceptable` replaces "is active" if the states of brokers are about to change. The replica on broker `comes_online`
    is about to be in an online directory.
    """
    may_lead = view.is_active if acceptable is None else acceptable
    builder = PartitionChangeBuilder(
        partition,
        topic_id,
        partition_id,
        acceptable=lambda broker_id: (
            may_lead(broker_id) and (broker_id == comes_online or view.replica_is_usable(partition, broker_id))
        ),
        min_isr=view.min_in_sync_replicas(topic_id),
        elr_enabled=view.elr_enabled,
        default_directory=view.default_directory,
        capabilities=view.capabilities,
    )
    builder.avoided = view.avoided
    if view.recovery_strategy(topic_id) != RecoveryStrategy.NONE:
        builder.allow_last_known_leader = False
        builder.keeps_lost_members = True
    elif partition.last_known_elr and not view.unclean_election_enabled(topic_id):
        # Its log must first be compared with the other logs, if any (`kraft.controller.unclean.recovery`).
        builder.allow_last_known_leader = _is_sole(view, partition)
    if view.held_brokers and is_held(partition, view.held_brokers):
        builder.allow_last_known_leader = False
    return builder


def _is_sole(view: ControllerView, partition: PartitionRegistration) -> bool:
    """Whether at most one of the assigned replicas has a registered broker."""
    return sum(view.broker(replica) is not None for replica in partition.replicas) <= 1


def allow_unclean_by_policy(
    view: ControllerView, topic_id: bytes, builder: PartitionChangeBuilder, partition: PartitionRegistration
) -> None:
    """Allow an unclean election if the topic's unclean.leader.election.enable does. It does not apply if the topic has
    a recovery strategy, or if a broker that holds its records may still return within its session."""
    if view.recovery_strategy(topic_id) != RecoveryStrategy.NONE:
        return
    if not is_held(partition, view.held_brokers) and view.unclean_election_enabled(topic_id):
        builder.election = Election.UNCLEAN


def is_held(partition: PartitionRegistration, held: frozenset[int]) -> bool:
    """Whether a broker that may have all records of the partition was fenced before its session ended. It may return
    until then."""
    if not held:
        return False
    members: Sequence[int] = (*partition.isr, *partition.elr, *partition.last_known_elr)
    return any(replica in held for replica in members)
