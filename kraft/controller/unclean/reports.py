"""Reports elections that may lose acknowledged records, in the node's log and to a listener. `loss_records` stores the
reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.image.partition_registration import is_unclean_election
from kraft.world.steps import Steps

if TYPE_CHECKING:
    from kraft.common.logging import Logger

TOLD_AT_ONCE_MAX: Final = 20


class RecoveryListener(Protocol):
    """Is notified of recoveries. All fields are JSON values."""

    def handle_recovered(self, fields: Mapping[str, Any]) -> None:
        """A recovery chose a leader, and the choice is committed.
        The fields are those of `election_facts.fields_of`."""

    def handle_waiting(self, fields: Mapping[str, Any]) -> None:
        """A partition has waited for replicas for a while, or its awaited replicas have changed. The fields are those
        of `election_facts.waiting_fields`."""


class NoRecoveryListener:
    """A listener that does nothing."""

    def handle_recovered(self, fields: Mapping[str, Any]) -> None:
        """See `RecoveryListener`."""

    def handle_waiting(self, fields: Mapping[str, Any]) -> None:
        """See `RecoveryListener`."""


def log_unclean_elections(logger: Logger, changes: MetadataChanges, image: MetadataImage) -> Steps[None]:
    """Log a warning for each partition whose new leader may lack acknowledged records. If there are many, only the
    first few are logged, with the number of the rest. Yields after each changed partition."""
    count = 0
    for topic_id, partitions in changes.topics.partitions.items():
        topic = image.topics.by_id.get(topic_id)
        for index, before in partitions.items():
            yield None
            after = None if topic is None else topic.partitions.get(index)
            if topic is None or before is None or after is None or not is_unclean_election(before, after):
                continue
            count += 1
            if count > TOLD_AT_ONCE_MAX:
                continue
            logger.warning(
                "unclean leader election",
                topic=topic.name,
                partition=index,
                leader=after.leader,
                leader_epoch=after.leader_epoch,
                former_leader=before.leader,
                former_isr=list(before.isr),
            )
    if count > TOLD_AT_ONCE_MAX:
        logger.warning(
            "unclean leader elections of further partitions",
            partitions=count - TOLD_AT_ONCE_MAX,
            note="GET /v1/events lists each",
        )
