"""The ownership of a log that lost its partition.metadata, and with it the id of its topic.

The records may be those of an earlier topic of the name, whose epochs and offsets look like the new one's. So nobody
but a person can say that they are this topic's. What happens until then depends on who else has the records:

- Another replica leads the partition: the log is set aside as a stray, and the records are fetched from the leader.
- The partition has this replica alone, or the log was flushed once: the replica waits as one with a damaged log does
  (`damaged_replicas`). The file is durable with the first flush, so no power cut explains its loss after that. An
  empty log in its place might be elected and deny acknowledged records.
- Otherwise a power cut within moments of the first append explains the loss. The log is set aside, as in Kafka: its
  broker has told the controller that it did not end cleanly, and is in no in-sync set for what the log held.
- After a clean end that would not hold, and no power cut explains the loss: the directory is out of order.
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
    """See that a log which is here has a topic id, or waits for a person to give it one; afterwards there may be none
    here any more. Raises OSError, StorageError."""
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
    """The replica does not lead until the report that is written here is settled. Raises OSError."""
    reason = "partition.metadata is missing or damaged: the records may be those of an earlier topic of the name"
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
    """The topic is known: the file was put back, or a person has said so. What else the log has lost still counts.
    Raises OSError."""
    state = WAITING if report.is_waiting and report.kept_bytes else ACCEPTED
    settled = replace(report, possible_topic_id="", state=state)
    write_damage(logs.files, found.directory, settled)
    found.damage = settled if settled.is_waiting else None
