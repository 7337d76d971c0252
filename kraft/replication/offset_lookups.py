"""Offset look-ups by time in a partition with both its tiers."""

from __future__ import annotations

from typing import Final

from kraft.common.errors import NotLeader, StorageError
from kraft.replication.partition import Partition
from kraft.replication.replica_manager import ReplicaManager
from kraft.replication.time_lookups import Found

MAX_TIMESTAMP: Final = -3
"""The timestamp that selects the record with the largest timestamp (KIP-734)."""


async def find_by_time(replicas: ReplicaManager, partition: Partition, timestamp: int) -> Found | None:
    """Find the first record whose timestamp is not before `timestamp`, or for MAX_TIMESTAMP the record with the largest
    timestamp, in the local log or the remote tier.

    Raises NotLeader if the log was deleted or moved meanwhile: its missing files are then no disk error. Otherwise
    raises as `TimeLookups.find` does.
    """
    log = partition.log
    try:
        return await _find(replicas, partition, timestamp)
    except (OSError, StorageError) as problem:
        if replicas.find(partition.topic, partition.index) is partition and partition.log is log:
            raise
        raise NotLeader(
            f"{partition}: its log is not here any more", partition.leader_id, partition.leader_epoch
        ) from problem


async def _find(replicas: ReplicaManager, partition: Partition, timestamp: int) -> Found | None:
    times, remote, log = replicas.time_lookups, replicas.remote, partition.log
    if remote is None or log.log_start_offset >= log.local_log_start_offset:
        return await (times.find_latest(log) if timestamp == MAX_TIMESTAMP else times.find(log, timestamp))
    if timestamp == MAX_TIMESTAMP:
        timestamp = max(log.local.max_timestamp(), await remote.reads.max_timestamp(partition))
        if timestamp < 0:
            return None
    found = await remote.reads.find_by_time(partition, timestamp)
    return await times.find(log, timestamp) if found is None else found
