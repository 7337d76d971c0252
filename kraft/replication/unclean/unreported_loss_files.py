"""The files that keep unreported losses: `untold-cuts-checkpoint`, one in each log directory.

Text, like the other checkpoints: version, count, then a line for each loss with topic, partition, topic id, epoch of
the first record, start offset, end offset (exclusive), high watermark, leader epoch, time in ms. The file is replaced
atomically, and is durable before the log is truncated. So a line says which records were there. The log shows whether
it was truncated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kraft.common.backed_off_log import BackedOffLog
from kraft.common.config.dynamic.loss_reports import Loss, UnreportedLoss
from kraft.common.errors import CorruptData, OutOfResources, StorageError
from kraft.common.ids import TopicPartition, uuid_from_text, uuid_to_text
from kraft.replication.logs.checkpoints import write_checkpoint
from kraft.replication.partition import Partition
from kraft.replication.replica_manager import ReplicaManager
from kraft.storage.checkpoints import checkpoint_lines, checkpoint_text, read_text
from kraft.storage.directories.log_directory import CheckpointJob
from kraft.world.ports import FileSystem

if TYPE_CHECKING:
    from kraft.common.logging import Logger

UNTOLD_LOSSES_CHECKPOINT: Final = "untold-cuts-checkpoint"


class UnreportedLossCheckpoint:
    """The file in the log directory `directory`. It is created with the first loss, and has no lines once everything is
    reported."""

    __slots__ = ("_files", "_newest", "path")

    def __init__(self, files: FileSystem, directory: str) -> None:
        self.path = f"{directory}/{UNTOLD_LOSSES_CHECKPOINT}"
        self._files = files
        self._newest: dict[str, bytes] = {}

    def read(self) -> list[UnreportedLoss]:
        """Return the losses left by the last run, oldest first. Raises OSError, CorruptData."""
        text = read_text(self._files, self.path)
        return [_parse(self.path, words) for words in checkpoint_lines(self.path, text or "")]

    def job(self, untold: Iterable[UnreportedLoss]) -> CheckpointJob:
        """Return a job that replaces the file's content by these losses. The newest job wins."""
        content = checkpoint_text(map(_line, untold)).encode()
        self._newest[self.path] = content
        return CheckpointJob(self._files, [(self.path, content)], self._newest)


def _line(untold: UnreportedLoss) -> str:
    return " ".join(
        (
            untold.topic,
            str(untold.partition),
            uuid_to_text(untold.topic_id),
            str(untold.first_epoch),
            *map(str, untold.loss),
        )
    )


def _parse(path: str, words: list[str]) -> UnreportedLoss:
    try:
        topic, partition, topic_id, first_epoch, *numbers = words
        return UnreportedLoss(
            topic, uuid_from_text(topic_id), int(partition), int(first_epoch), Loss(*map(int, numbers))
        )
    except (ValueError, TypeError):
        raise CorruptData(f"{path}: malformed line {' '.join(words)!r}") from None


class UnreportedLossFiles:
    """The loss files of all log directories. Owned by the broker's loop."""

    def __init__(self, replicas: ReplicaManager, log: Logger) -> None:
        self._replicas = replicas
        self._log = log
        self._shortages = BackedOffLog(log, replicas.world.clock)
        self._checkpoints = {
            directory.path: UnreportedLossCheckpoint(replicas.world.files, directory.path)
            for directory in replicas.logs.directories
        }

    def directory_of(self, partition: Partition) -> str:
        return self._replicas.logs.directory_of(partition.log).path

    def has_happened(self, untold: UnreportedLoss) -> bool:
        """Whether the log has lost these records. Offsets are written once per epoch, so nothing is lost while the
        first record is still there."""
        log = self._replicas.logs.get(TopicPartition(untold.topic, untold.partition))
        start = untold.loss.start_offset
        if log is None:
            # The log of an offline directory is checked after the next start.
            return (untold.topic, untold.partition) not in self._replicas.offline
        if log.topic_id != untold.topic_id or log.log_end_offset <= start:
            return True
        return log.leader_epoch_cache.epoch_for_offset(start) != untold.first_epoch

    def read(self) -> list[tuple[str, UnreportedLoss]]:
        """Return the losses left by the last run, each with its directory. A damaged file is logged and counts as
        empty. An unreadable file takes its directory offline."""
        found: list[tuple[str, UnreportedLoss]] = []
        for directory in self._replicas.logs.online():
            try:
                found += [(directory.path, untold) for untold in self._checkpoints[directory.path].read()]
            except CorruptData as problem:
                self._log.error("unreported losses of the last run cannot be read", reason=str(problem))
            except OSError as problem:
                self._replicas.directory_failed(directory.path, str(problem))
        return found

    def write_now(self, directory: str, untold: Sequence[UnreportedLoss]) -> None:
        """Write the file durably before returning. Blocks for several syncs. Raises StorageError."""
        self._checkpoints[directory].job(untold).run()

    async def write(self, directory: str, untold: Sequence[UnreportedLoss]) -> bool:
        """Write the file in a thread. Returns False if the write must be retried. A failed disk takes its directory
        offline."""
        if directory not in (online.path for online in self._replicas.logs.online()):
            return True
        try:
            await write_checkpoint(self._checkpoints[directory].job(untold), self._replicas.world.threads)
        except OutOfResources as problem:
            fields = {"directory": directory, "reason": str(problem)}
            self._shortages.warning("file of untold losses put off", directory, **fields)
            return False
        except StorageError as problem:
            self._replicas.directory_failed(directory, str(problem))
        return True
