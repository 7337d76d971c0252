"""One partition in the metadata log, and how a PartitionChangeRecord changes it (KIP-631, KIP-858, KIP-966).

The safety of replication rests on the two epochs. The partition epoch rises with every change, so an AlterPartition
based on an older state is refused. The leader epoch rises if and only if the record has the Leader tag, even if it
names the same leader, so that a leader can be made to start a new term. Brokers fence followers and clients by the
leader epoch.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kraft.metadata.image.writer_options import WriterOptions
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.metadata.records.partition_record import PartitionRecord

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2

RECOVERED: Final = 0
RECOVERING: Final = 1
NO_RECOVERY_CHANGE: Final = -1

MIGRATING_DIRECTORY: Final = bytes(16)
UNASSIGNED_DIRECTORY: Final = bytes(15) + b"\x01"
LOST_DIRECTORY: Final = bytes(15) + b"\x02"


def directory_is_reserved(directory: bytes) -> bool:
    """Whether the id is one of the hundred that never name a real directory (KIP-858): the upper bytes are zero and the
    last one is below 100."""
    return directory[:15] == bytes(15) and directory[15] < 100


def directory_is_online(directory: bytes, online: tuple[bytes, ...]) -> bool:
    """Whether a replica in `directory` counts as online on a broker whose online directories are `online`."""
    if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
        return True
    if directory == LOST_DIRECTORY:
        return False
    return not online or directory in online


class PartitionRegistration(NamedTuple):
    """The registration of one partition. Immutable. It is a tuple rather than a dataclass, because a batch creates
    thousands, and a tuple has a fifth of the cost."""

    replicas: tuple[int, ...]
    directories: tuple[bytes, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def preferred_replica(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def has_preferred_leader(self) -> bool:
        return self.leader == self.preferred_replica

    @property
    def is_reassigning(self) -> bool:
        return bool(self.removing_replicas or self.adding_replicas)

    def directory(self, broker_id: int) -> bytes:
        """Return the log directory of the broker's replica. Raises ValueError if the broker has no replica."""
        return self.directories[self.replicas.index(broker_id)]

    def merge(self, record: PartitionChangeRecord) -> PartitionRegistration:
        """Return the partition after `record`."""
        replicas = self.replicas if record.replicas is None else tuple(record.replicas)
        if record.directories is not None:
            directories = tuple(record.directories) or (MIGRATING_DIRECTORY,) * len(replicas)
        elif record.replicas is None:
            directories = self.directories
        elif _are_migrating(self.directories):
            directories = (MIGRATING_DIRECTORY,) * len(replicas)
        else:
            known = dict(zip(self.replicas, self.directories, strict=True))
            directories = tuple(known.get(replica, UNASSIGNED_DIRECTORY) for replica in replicas)
        if len(directories) != len(replicas):
            raise ValueError(f"a partition has {len(replicas)} replicas but {len(directories)} directories")
        changes_leader = record.leader != NO_LEADER_CHANGE
        return PartitionRegistration(
            replicas,
            directories,
            self.isr if record.isr is None else tuple(record.isr),
            self.removing_replicas if record.removing_replicas is None else tuple(record.removing_replicas),
            self.adding_replicas if record.adding_replicas is None else tuple(record.adding_replicas),
            record.leader if changes_leader else self.leader,
            self.leader_recovery_state
            if record.leader_recovery_state == NO_RECOVERY_CHANGE
            else record.leader_recovery_state,
            self.leader_epoch + 1 if changes_leader else self.leader_epoch,
            self.partition_epoch + 1,
            self.elr if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
            self.last_known_elr if record.last_known_elr is None else tuple(record.last_known_elr),
        )

    def to_record(self, topic_id: bytes, partition_id: int, options: WriterOptions) -> PartitionRecord:
        """Return the record that creates this registration, without the fields that the level does not know. ELR fields
        are set only if they are not empty."""
        directories, elr, last_known_elr = self.directories, self.elr, self.last_known_elr
        if not options.metadata_version.assigns_directories:
            if not _are_migrating(directories):
                options.handle_loss("the directory assignment state of one or more replicas")
            directories = ()
        if (elr or last_known_elr) and not options.metadata_version.serves_elr:
            options.handle_loss("the eligible leader replicas of one or more partitions")
            elr = last_known_elr = ()
        return PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(directories),
            eligible_leader_replicas=list(elr) if elr else None,
            last_known_elr=list(last_known_elr) if last_known_elr else None,
        )


def _are_migrating(directories: tuple[bytes, ...]) -> bool:
    """Whether no replica was assigned to a directory since the cluster assigns them."""
    return directories.count(MIGRATING_DIRECTORY) == len(directories)


def is_unclean_election(before: PartitionRegistration, after: PartitionRegistration) -> bool:
    """Whether the change elected a leader that may lack acknowledged records: it was neither in sync nor eligible, and
    the partition is RECOVERING.

    The recovery state alone is not enough. It stays RECOVERING if the next election is unclean again, before the leader
    could report its recovery.
    """
    if after.leader_recovery_state != RECOVERING or after.leader_epoch == before.leader_epoch or not after.has_leader:
        return False
    return after.leader not in before.isr and after.leader not in before.elr


def registration_of(
    record: PartitionRecord,
    interned: dict[tuple[int, ...], tuple[int, ...]],
    directories: dict[tuple[bytes, ...], tuple[bytes, ...]],
) -> PartitionRegistration:
    """Return the registration of a PartitionRecord. Equal replica lists share one tuple: most partitions of a cluster
    have one of a few dozen lists."""
    replicas = tuple(record.replicas)
    replicas = interned.setdefault(replicas, replicas)
    isr = tuple(record.isr)
    isr = replicas if isr == replicas else interned.setdefault(isr, isr)
    places = tuple(record.directories) or (MIGRATING_DIRECTORY,) * len(replicas)
    if len(places) != len(replicas):
        raise ValueError(f"a partition has {len(replicas)} replicas but {len(places)} directories")
    return PartitionRegistration(
        replicas,
        directories.setdefault(places, places),
        isr,
        tuple(record.removing_replicas) if record.removing_replicas else (),
        tuple(record.adding_replicas) if record.adding_replicas else (),
        record.leader,
        record.leader_recovery_state,
        record.leader_epoch,
        record.partition_epoch,
        tuple(record.eligible_leader_replicas) if record.eligible_leader_replicas else (),
        tuple(record.last_known_elr) if record.last_known_elr else (),
    )
