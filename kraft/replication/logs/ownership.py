"""Decides the owner of a log that lost its partition.metadata, and with it the topic id.

The records may belong to an earlier topic of the same name, with similar epochs and offsets. Only an operator can say
that they belong to the current topic. Until then:

- The last shutdown was clean: no power failure explains the loss. The directory is treated as failed.
- Another replica leads the partition: the log is set aside as a stray, and the records are fetched from the leader.
- This is the only replica, or the log was flushed before: the replica waits like one with a damaged log
  (`damaged_replicas`). The file becomes durable with the first flush, so a power failure does not explain its loss
  after that. An empty log in its place might be elected and lose acknowledged records.
- Otherwise a power failure soon after the first append explains the loss. The log is set aside, as in Kafka. The broker
  has reported the unclean shutdown to the controller, so it is in no ISR for the records of this log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kraft.common.errors import StorageError
from kraft.common.ids import TopicPartition, Uuid, uuid_to_text
from kraft.storage.directories.log_directory import NO_BROKER_EPOCH
from kraft.storage.recovery.damaged_log import ACCEPTED, WAITING, DamageReport, read_damage, write_damage

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.metadata.image.partition_registration import PartitionRegistration
    from kraft.storage.log_manager import LogManager
    from kraft.storage.unified_log import UnifiedLog

NO_LEADER: Final = -1


def settle_owner(
    logs: LogManager,
    topic_partition: TopicPartition,
    topic_id: bytes,
    registration: PartitionRegistration,
    node_id: int,
    now_ms: int,
    log: Logger,
) -> None:
    """Ensure that an existing log has a topic id or waits for an operator to assign one. The log may be set aside.
    Raises OSError, StorageError."""
    found = logs.get(topic_partition)
    if found is None:
        return
    if found.topic_id is not None:
        if found.damage is not None and found.damage.possible_topic_id:
            _settle(logs, found, found.damage)
        return
    if found.log_end_offset == 0:
        found.assign_topic_id(Uuid(topic_id))
        return
    report, wanted = read_damage(logs.files, found.directory), uuid_to_text(topic_id)
    known_topic = "" if report is None else report.possible_topic_id
    if report is not None and known_topic == wanted and not report.is_waiting:
        found.assign_topic_id(Uuid(topic_id))
        _settle(logs, found, report)
        return
    if not known_topic and logs.directory_of(found).clean_shutdown_epoch != NO_BROKER_EPOCH:
        raise StorageError(
            f"{found.directory}: partition.metadata, which names the topic that these records are of, is "
            "missing or damaged, and the last shutdown was clean. "
            "Put it back, or move the directory away if other replicas have all of it; then start again"
        )
    is_led_elsewhere = registration.leader not in (NO_LEADER, node_id)
    was_flushed = found.load_report is not None and found.load_report.was_flushed
    is_needed = len(registration.replicas) == 1 or was_flushed
    if not is_led_elsewhere and is_needed and known_topic in ("", wanted):
        if not known_topic or report is None:
            _wait(logs, found, wanted, now_ms)
        return
    log.error(
        "log of an unknown topic set aside",
        partition=str(topic_partition),
        directory=found.directory,
        end_offset=found.log_end_offset,
    )
    logs.set_aside_stray(topic_partition, now_ms=now_ms)


def _wait(logs: LogManager, found: UnifiedLog, topic_id: str, now_ms: int) -> None:
    """Write a damage report, which keeps the replica from leading until it is settled. Raises OSError."""
    reason = "partition.metadata is missing or damaged: the records may belong to an earlier topic of this name"
    if found.damage is not None:
        reason = f"{found.damage.reason}; {reason}"
        found.damage = replace(found.damage, reason=reason, possible_topic_id=topic_id)
    else:
        found.damage = DamageReport(
            since_ms=now_ms,
            start_offset=found.log_start_offset,
            known_end_offset=found.log_end_offset,
            known_epoch=found.leader_epoch_cache.latest_epoch,
            kept_bytes=0,
            reason=reason,
            possible_topic_id=topic_id,
        )
    write_damage(logs.files, found.directory, found.damage)


def _settle(logs: LogManager, found: UnifiedLog, report: DamageReport) -> None:
    """Mark the topic as known: the file was restored, or an operator confirmed the topic. Other damage in the report
    still counts. Raises OSError."""
    state = WAITING if report.is_waiting and report.kept_bytes else ACCEPTED
    settled = replace(report, possible_topic_id="", state=state)
    write_damage(logs.files, found.directory, settled)
    found.damage = settled if settled.is_waiting else None
