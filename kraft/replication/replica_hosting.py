"""Finds or creates the log of a replica that the metadata assigns to this broker.

A disk error takes the directory offline, as anywhere else. A creation that fails for lack of resources is retried every
second, until it succeeds or the replica leaves this broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kraft.common.backed_off_log import BackedOffLog
from kraft.common.errors import OutOfResources, StorageError
from kraft.common.ids import TopicPartition, Uuid
from kraft.replication.logs.ownership import settle_owner
from kraft.storage.storage_failure import upkeep_failure

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.metadata.image.metadata_image import MetadataImage
    from kraft.metadata.image.partition_registration import PartitionRegistration
    from kraft.replication.replica_manager import ReplicaManager
    from kraft.storage.unified_log import UnifiedLog

TRY_AGAIN_SECONDS = 1.0


class ReplicaHosting:
    """The creation and removal of one broker's replicas."""

    def __init__(self, replicas: ReplicaManager, log: Logger) -> None:
        self._replicas = replicas
        self._log = log
        self._shortages = BackedOffLog(log, replicas.world.clock)
        self._postponed: dict[tuple[str, int], bytes] = {}
        self._woken = trio.Event()

    def log_of(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        registration: PartitionRegistration,
        before: MetadataImage | None,
    ) -> UnifiedLog | None:
        """Return the replica's log, found or new. None if it cannot have one until the next start. Raises
        OutOfResources; the creation is then retried."""
        replicas, now_ms = self._replicas, self._replicas.world.clock.wall_ms()
        assigned = registration.directory(replicas.node_id)
        key = (topic_partition.topic, topic_partition.partition)
        self._postponed.pop(key, None)
        found = replicas.logs.get(topic_partition)
        if found is None and replicas.directories.may_be_lost(topic_id, topic_partition.partition, assigned, before):
            self._log.error(
                "replica missing while a log directory is offline: not recreated", topic=key[0], partition=key[1]
            )
            return None
        directory = None
        try:
            wanted = replicas.directories.for_new(topic_partition, assigned)
            directory = replicas.logs.directory_for_new(wanted) if found is None else replicas.logs.directory_of(found)
            settle_owner(replicas.logs, topic_partition, topic_id, registration, replicas.node_id, now_ms, self._log)
            return replicas.logs.get_or_create(
                topic_partition, Uuid(topic_id), now_ms=now_ms, directory_id=directory.directory_id
            )
        except (OSError, StorageError) as problem:
            failure = problem if isinstance(problem, StorageError) else upkeep_failure(problem, str(topic_partition))
            fields = {"topic": key[0], "partition": key[1], "reason": str(failure)}
            if isinstance(failure, OutOfResources):
                where = "" if directory is None else directory.path
                self._shortages.error("replica cannot be created", where, **fields)
                self._postponed[key] = topic_id
                self._woken.set()
                raise failure from problem
            self._log.error("replica cannot be created", **fields)
            if directory is not None:
                replicas.directory_failed(directory.path, str(failure))
            return None

    def forget(self, topic: str, index: int) -> None:
        """Stop retrying for a replica that left this broker."""
        self._postponed.pop((topic, index), None)

    async def run(self) -> None:
        """Retry postponed creations until cancelled."""
        while True:
            await self._woken.wait()
            await self._replicas.world.clock.sleep(TRY_AGAIN_SECONDS)
            self._woken = trio.Event()
            for (topic, index), topic_id in list(self._postponed.items()):
                self._replicas.apply_again(topic, index, topic_id)
                await trio.lowlevel.checkpoint()
            if self._postponed:
                self._woken.set()
