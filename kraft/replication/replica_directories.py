"""The log directory of each replica: current, wanted, and as known to the controller (KIP-113, KIP-858)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft.common.errors import ApiError, OutOfResources, StorageError
from kraft.common.ids import TopicPartition, Uuid
from kraft.metadata.image.partition_registration import LOST_DIRECTORY, directory_is_reserved
from kraft.protocol.error_codes import ErrorCode
from kraft.replication.directory_assignments import DirectoryAssignments, Key
from kraft.replication.logs.mover import LogDirMover
from kraft.replication.partition import Partition
from kraft.storage.directories.log_directory import LogDirectory

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.metadata.image.metadata_image import MetadataImage
    from kraft.replication.replica_manager import ReplicaManager

PREFERRED_MAX: Final = 100_000
"""Limit of directories kept for replicas that are not yet created."""


class ReplicaDirectories:
    """The log directories of one broker's replicas. Owned by the broker's loop."""

    def __init__(self, replicas: ReplicaManager, log: Logger) -> None:
        self._replicas = replicas
        self._logs = replicas.logs
        self._log = log
        self._preferred: dict[tuple[str, int], str] = {}
        self.assignments = DirectoryAssignments(
            replicas.node_id, replicas.world.clock, self._is_here, replicas.set_aside, log
        )
        self.mover = LogDirMover(
            replicas,
            self.assignments,
            lambda: replicas.config.integer("replica.alter.log.dirs.io.max.bytes.per.second"),
            log,
        )

    def _is_here(self, key: Key) -> bool:
        name = self._replicas.topic_names.get(key[0])
        return name is not None and (
            (name, key[1]) in self._replicas.offline or self._replicas.find(name, key[1]) is not None
        )

    def for_new(self, topic_partition: TopicPartition, assigned: bytes) -> Uuid | None:
        """Return the directory for a replica without a log: the administrator's choice, else the one assigned in the
        metadata. None: any directory."""
        path = self._preferred.get(topic_partition)
        for directory in self._logs.online():
            if directory.path == path:
                return directory.directory_id
        return None if directory_is_reserved(assigned) else Uuid(assigned)

    def may_be_lost(self, topic_id: bytes, index: int, assigned: bytes, before: MetadataImage | None) -> bool:
        """Whether a replica found in no online directory may be in an offline one: the metadata assigns it there, or it
        was on this broker in the image `before`."""
        online = self._logs.online()
        if len(online) == len(self._logs.directories):
            return False
        if not directory_is_reserved(assigned):
            return assigned not in [directory.directory_id for directory in online]
        if before is None:
            return True
        registration = before.topics.partition(topic_id, index)
        return registration is not None and self._replicas.node_id in registration.replicas

    def placed(self, partition: Partition, assigned: bytes) -> None:
        """Compare the replica's directory with `assigned`, the one in the metadata. A difference is reported to the
        controller. A move that a restart interrupted is resumed."""
        key = (partition.topic_id, partition.index)
        self._preferred.pop((partition.topic, partition.index), None)
        move = self.mover.move_of(partition.topic, partition.index)
        actual = self._logs.directory_of(partition.log).directory_id
        if move is not None and move.target.directory_id == assigned:
            self.assignments.confirmed(key)
        elif actual is not None and actual != assigned:
            if move is None or move.assigned is None:
                self.assignments.assign(key, actual)
        elif move is None or move.assigned is None:
            self.assignments.confirmed(key)
        if self._logs.futures.interrupted_moves:
            self._resume(partition)

    def _resume(self, partition: Partition) -> None:
        topic_partition = TopicPartition(partition.topic, partition.index)
        interrupted = self._logs.futures.interrupted_moves.get(topic_partition)
        if interrupted is None or not interrupted.directory.is_online:
            return
        directory = interrupted.directory
        try:
            self.mover.start(partition, directory)
        except OutOfResources as problem:
            self._log.warning(
                "move of replica not resumed",
                topic=partition.topic,
                partition=partition.index,
                to=directory.path,
                reason=str(problem),
            )
        except StorageError as problem:
            self._replicas.directory_failed(directory.path, str(problem))
        self._logs.futures.interrupted_moves.pop(topic_partition, None)

    def went_offline(self, partition: Partition) -> None:
        """Handle the failure of the replica's directory. The failed directory itself is reported elsewhere. If the
        controller may believe the replica in another directory, report it as LOST."""
        move = self.mover.move_of(partition.topic, partition.index)
        if self.assignments.is_pending((partition.topic_id, partition.index)) or (
            move is not None and move.assigned is not None
        ):
            self.lost(partition.topic_id, partition.index)

    def lost(self, topic_id: bytes, index: int) -> None:
        """Report the replica as LOST: its directory is offline, and the controller may know another one."""
        self.assignments.assign((topic_id, index), LOST_DIRECTORY)

    def alter(self, topic: str, index: int, path: str) -> None:
        """Handle AlterReplicaLogDirs for one replica.

        Raises ApiError; StorageError; NotLeader if this broker has no such replica. In that case the directory is kept
        for a replica created later.
        """
        directory = self._directory(path)
        if directory is None:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is no log directory of this broker")
        if not directory.is_online:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {path} is offline")
        if path in self._logs.cordoned:
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned")
        if self._replicas.find(topic, index) is None and len(self._preferred) < PREFERRED_MAX:
            self._preferred[topic, index] = path
        self.mover.start(self._replicas.partition(topic, index), directory)

    def _directory(self, path: str) -> LogDirectory | None:
        return next((directory for directory in self._logs.directories if directory.path == path), None)
