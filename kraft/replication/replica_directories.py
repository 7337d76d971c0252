"""The log directory in which a replica is, should be, and is known to be (KIP-113, KIP-858)."""

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
"""Directories remembered for replicas that may yet come: more than that are not."""


class ReplicaDirectories:
    """Owned by the broker's loop."""

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
        """Where a replica that has no log yet belongs: where an administrator wants it, else where the metadata has
        it. None: anywhere."""
        path = self._preferred.get(topic_partition)
        for directory in self._logs.online():
            if directory.path == path:
                return directory.directory_id
        return None if directory_is_reserved(assigned) else Uuid(assigned)

    def may_be_lost(self, topic_id: bytes, index: int, assigned: bytes, before: MetadataImage | None) -> bool:
        """Whether a replica that is on no directory at hand may be on one that is offline: the metadata says so, or
        it was here in the image `before`."""
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
        """The metadata says that the replica is in `assigned`. Where it is not, the controller is told; a move that
        a restart interrupted begins again."""
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
        """Its directory failed. The controller hears of that; of a replica that it believes elsewhere it has to hear
        apart."""
        move = self.mover.move_of(partition.topic, partition.index)
        if self.assignments.is_pending((partition.topic_id, partition.index)) or (
            move is not None and move.assigned is not None
        ):
            self.lost(partition.topic_id, partition.index)

    def lost(self, topic_id: bytes, index: int) -> None:
        """The replica's directory is offline, and it may not be the one that the controller knows."""
        self.assignments.assign((topic_id, index), LOST_DIRECTORY)

    def alter(self, topic: str, index: int, path: str) -> None:
        """AlterReplicaLogDirs for one replica. Raises ApiError, NotLeader where there is no such replica (it is made
        there when it comes), StorageError."""
        directory = self._directory(path)
        if directory is None:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is no log directory of this broker")
        if not directory.is_online:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {path} is offline")
        if self._replicas.find(topic, index) is None and len(self._preferred) < PREFERRED_MAX:
            self._preferred[topic, index] = path
        self.mover.start(self._replicas.partition(topic, index), directory)

    def _directory(self, path: str) -> LogDirectory | None:
        return next((directory for directory in self._logs.directories if directory.path == path), None)
