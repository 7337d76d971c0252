"""Whose a log is that lost its partition.metadata, and with it the id of its topic.

The file is durable with a log's first flush, so a power cut within moments of the first append may take it and leave
records. They may be those of an earlier topic of the name, whose epochs and offsets look like the new one's. So such
a log is kept aside, as Kafka does with one that has no id: its broker has told the controller that it did not end
cleanly, and is in no in-sync set for what the log held. After a clean end that would not hold, and no power cut
explains the loss: then the directory is out of order, and starting with an empty log might elect it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.common.errors import StorageError
from kraft.common.ids import TopicPartition, Uuid
from kraft.storage.log_directory import NO_BROKER_EPOCH

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.storage.log_manager import LogManager


def settle_owner(logs: LogManager, topic_partition: TopicPartition, topic_id: bytes, now_ms: int, log: Logger) -> None:
    """See that a log which is here has a topic id; afterwards there may be none here any more. Raises OSError,
    StorageError."""
    found = logs.get(topic_partition)
    if found is None or found.topic_id is not None:
        return
    if found.log_end_offset == 0:
        found.assign_topic_id(Uuid(topic_id))
        return
    if logs.directory_of(found).clean_shutdown_epoch != NO_BROKER_EPOCH:
        raise StorageError(
            f"{found.directory}: partition.metadata, which names the topic that these records are of, is "
            "missing or damaged, and the last shutdown was clean. "
            "Put it back, or move the directory away if other replicas have all of it; then start again"
        )
    log.error(
        "log of an unknown topic set aside",
        partition=str(topic_partition),
        directory=found.directory,
        end_offset=found.log_end_offset,
    )
    logs.set_aside_stray(topic_partition, now_ms=now_ms)
