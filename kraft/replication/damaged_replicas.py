"""Replicas whose log was damaged (`kraft.storage.recovery.damaged_log`). Such a replica must not lead until the damage
is settled.

While no other replica leads the partition, the damaged replica waits. It is offline on this broker, and its directory
is reported to the controller as LOST, so that the controller elects another leader. Once another replica leads, the
damaged replica follows it and fetches what it lacks. The damage is settled when the replica is in sync.

An operator can end the wait with `kraft storage damaged`, which settles the report on the disk. The broker checks the
report once a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from kraft.common.ids import OffsetAndEpoch, TopicPartition
from kraft.storage.recovery.damaged_log import FETCHED, DamageReport, read_damage
from kraft.storage.storage_failure import upkeep_failure

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.metadata.image.partition_registration import PartitionRegistration
    from kraft.replication.partition import Partition
    from kraft.replication.replica_manager import ReplicaManager
    from kraft.storage.unified_log import UnifiedLog

POLL_SECONDS: Final = 1.0
READ_AT_ONCE: Final = 20
"""Reports that one pass reads between two yields."""
NO_LEADER: Final = -1


class DamagedReplica(NamedTuple):
    """A damaged replica that waits for a decision, as shown to operators."""

    topic_partition: TopicPartition
    topic_id: bytes
    log: UnifiedLog
    report: DamageReport

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Return the end offset, before the damage, of the largest epoch not above `epoch`, as far as it is known.

        The controller compares it with other replicas to find those that have everything this replica had.
        """
        report = self.report
        if epoch >= report.known_epoch:
            return OffsetAndEpoch(report.known_end_offset, report.known_epoch)
        return self.log.end_offset_for_epoch(epoch)

    @property
    def remedy(self) -> str:
        """Return the command that ends the wait. Without --execute the command only shows what would be lost."""
        directory = self.log.directory.rpartition("/")[0]
        name = f"{self.topic_partition.topic}:{self.topic_partition.partition}"
        return f"kraft storage damaged --data-dir {directory} --accept {name}"


class DamagedReplicas:
    """The damaged replicas of one broker. Owned by its loop."""

    def __init__(self, replicas: ReplicaManager, log: Logger) -> None:
        self._replicas = replicas
        self._log = log
        self._waiting: dict[tuple[str, int], DamagedReplica] = {}
        self._woken = trio.Event()

    def waiting(self) -> list[DamagedReplica]:
        """The waiting replicas, in the order in which they were found."""
        return list(self._waiting.values())

    def find(self, topic: str, index: int) -> DamagedReplica | None:
        """The waiting replica of this partition, or None."""
        return self._waiting.get((topic, index))

    def must_wait(self, log: UnifiedLog, registration: PartitionRegistration) -> bool:
        """Whether the replica may neither lead nor be elected: its log is damaged, and no other replica leads the
        partition."""
        return log.damage is not None and registration.leader in (NO_LEADER, self._replicas.node_id)

    def wait(self, partition: Partition) -> None:
        """Add the replica to the waiting ones and log the command that ends the wait."""
        log, report = partition.log, partition.log.damage
        assert report is not None
        waiting = DamagedReplica(log.topic_partition, partition.topic_id, log, report)
        self._waiting[partition.topic, partition.index] = waiting
        self._woken.set()
        self._log.error(
            "replica with a damaged log does not lead",
            topic=partition.topic,
            partition=partition.index,
            since_ms=report.since_ms,
            missing_from=report.start_offset,
            known_end=report.known_end_offset,
            reason=report.reason,
            remedy=waiting.remedy,
        )

    def may_return(self, topic: str, index: int, registration: PartitionRegistration) -> bool:
        """Remove a waiting replica that need not wait any more. Returns whether it was removed."""
        waiting = self._waiting.get((topic, index))
        if waiting is None or self.must_wait(waiting.log, registration):
            return False
        del self._waiting[topic, index]
        return True

    def forget(self, topic: str, index: int) -> bool:
        """Remove a replica that left this broker. Returns whether it was waiting."""
        return self._waiting.pop((topic, index), None) is not None

    def directory_failed(self, path: str) -> None:
        """Stop watching the replicas of the failed directory."""
        self._waiting = {
            key: waiting for key, waiting in self._waiting.items() if not waiting.log.directory.startswith(f"{path}/")
        }

    def applied(self, partition: Partition, was_in_sync: bool) -> None:
        """Settle the damage of a replica that fetched the missing records from another leader. Called after the
        metadata was applied.

        The replica is whole when it has just joined the in-sync replica set, or when it is in the set and its log has
        reached its end offset of before the damage.
        """
        log, report = partition.log, partition.log.damage
        if report is None or partition.is_leader or self._replicas.node_id not in partition.isr:
            return
        if not was_in_sync or log.log_end_offset >= report.known_end_offset:
            try:
                log.settle_damage(FETCHED)
            except OSError as problem:
                failure = upkeep_failure(problem, log.directory)
                self._replicas.handle_storage_error(failure, partition.topic, partition.index, "settling damage", log)
                return
            self._log.info("damaged log repaired", topic=partition.topic, partition=partition.index)

    async def run(self) -> None:
        """Poll the reports for an operator's decision, until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            while self._waiting:
                await self._replicas.world.clock.sleep(POLL_SECONDS)
                for done, waiting in enumerate(self.waiting()):
                    self._look(waiting)
                    if done % READ_AT_ONCE == READ_AT_ONCE - 1:
                        await trio.lowlevel.checkpoint()

    def _look(self, waiting: DamagedReplica) -> None:
        topic, index = waiting.topic_partition.topic, waiting.topic_partition.partition
        if self._waiting.get((topic, index)) is not waiting:
            return
        try:
            report = read_damage(self._replicas.world.files, waiting.log.directory)
        except OSError as problem:
            self._log.warning("damage report cannot be read", topic=topic, partition=index, reason=str(problem))
            return
        if report is None or not report.is_waiting:
            waiting.log.damage = None
            self._log.warning(
                "loss of a damaged log accepted",
                topic=topic,
                partition=index,
                missing_from=waiting.report.start_offset,
                known_end=waiting.report.known_end_offset,
            )
            self._replicas.apply_again(topic, index, waiting.topic_id)
