"""The files that tell of cuts no controller has heard of (`kraft.storage.cut_checkpoint`), one for each log
directory of a broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft.common.errors import CorruptData, OutOfResources, StorageError
from kraft.common.ids import TopicPartition
from kraft.common.loss_reports import Cut
from kraft.replication.partition import Partition
from kraft.replication.replica_manager import ReplicaManager
from kraft.replication.step_driver import write_checkpoint
from kraft.storage.cut_checkpoint import CutCheckpoint

if TYPE_CHECKING:
    from kraft.common.logging import Logger


class CutFiles:
    """Owned by the broker's loop."""

    def __init__(self, replicas: ReplicaManager, log: Logger) -> None:
        self._replicas = replicas
        self._log = log
        self._checkpoints = {
            directory.path: CutCheckpoint(replicas.world.files, directory.path)
            for directory in replicas.logs.directories
        }

    def directory_of(self, partition: Partition) -> str:
        return self._replicas.logs.directory_of(partition.log).path

    def is_made(self, cut: Cut) -> bool:
        """Whether the log has lost what was to be cut. An offset is written once in an epoch: while its first record
        is there, it is not."""
        log = self._replicas.logs.get(TopicPartition(cut.topic, cut.partition))
        start = cut.loss.start_offset
        if log is None:
            # What an offline directory has is seen at the next start.
            return (cut.topic, cut.partition) not in self._replicas.offline
        if log.topic_id != cut.topic_id or log.log_end_offset <= start:
            return True
        return log.leader_epoch_cache.epoch_for_offset(start) != cut.first_epoch

    def read(self) -> list[tuple[str, Cut]]:
        """What the last run left, with the directories. A damaged file tells nothing; one that cannot be read takes
        its directory offline."""
        found: list[tuple[str, Cut]] = []
        for directory in self._replicas.logs.online():
            try:
                found += [(directory.path, cut) for cut in self._checkpoints[directory.path].read()]
            except CorruptData as problem:
                self._log.error("cuts of the last run cannot be told", reason=str(problem))
            except OSError as problem:
                self._replicas.directory_failed(directory.path, str(problem))
        return found

    def write_now(self, directory: str, cuts: Sequence[Cut]) -> None:
        """Durably, before this returns. Blocks for some syncs. Raises StorageError."""
        self._checkpoints[directory].job(cuts).run()

    async def write(self, directory: str, cuts: Sequence[Cut]) -> bool:
        """In a thread. False where it has to be tried again; a disk that fails takes its directory offline."""
        if directory not in (online.path for online in self._replicas.logs.online()):
            return True
        try:
            await write_checkpoint(self._checkpoints[directory].job(cuts), self._replicas.world.threads)
        except OutOfResources as problem:
            self._log.warning("file of cuts put off", directory=directory, reason=str(problem))
            return False
        except StorageError as problem:
            self._replicas.directory_failed(directory, str(problem))
        return True
