"""Since when partitions have no leader, and since when they wait for a recovery. Every controller records it by its own
clock, active or not.

A recovery waits for a limited time for replicas that may have more records. If the time counted from when a node became
the active controller, each fail-over would restart it, and frequent fail-overs would prevent the recovery forever. So
each controller records when a partition is first open for a recovery in the metadata that it follows. The next active
controller continues from its own record. Only a controller that started meanwhile restarts the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kraft.common.config.resource_type import ResourceType
from kraft.controller.controller_view import ControllerView
from kraft.controller.unclean.recovery import is_open
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.image.topics_image import TopicIdPartition
from kraft.metadata.publisher import MetadataUpdate
from kraft.world.ports import Clock
from kraft.world.turns import TURN_ITEMS


class LeaderlessSince:
    """A metadata publisher of a node with the controller role."""

    def __init__(self, view: Callable[[MetadataImage], ControllerView], clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._has_seen = False
        self._since: dict[TopicIdPartition, tuple[int, bool, float]] = {}

    def publish(self, update: MetadataUpdate) -> Iterator[None] | None:
        """See `kraft.metadata.publisher.MetadataPublisher`. Checks only the partitions that may have changed, not all
        that wait."""
        topics = update.image.topics
        looks_at_all = not self._has_seen or _may_change_all(update)
        self._has_seen = True
        if not topics.leaderless and not self._since:
            return None
        return self._look(update.image, (*self._since, *topics.leaderless) if looks_at_all else _touched(update))

    def _look(self, image: MetadataImage, keys: Iterable[TopicIdPartition]) -> Iterator[None]:
        now, view = self._clock.now(), self._view(image)
        for count, key in enumerate(keys, 1):
            if key in image.topics.leaderless:
                partition = image.topics.by_id[key[0]].partitions[key[1]]
                state = (partition.leader_epoch, is_open(view, key[0], partition))
                before = self._since.get(key)
                if before is None or before[:2] != state:
                    self._since[key] = (*state, now)
            else:
                self._since.pop(key, None)
            if count % TURN_ITEMS == 0:
                yield

    def since(self, key: TopicIdPartition, leader_epoch: int, is_open: bool) -> float | None:
        """Return when the partition was first seen in that leader epoch, either open for a recovery or waiting for a
        member of ISR or ELR (`is_open`); None if it was not seen."""
        known = self._since.get(key)
        return known[2] if known is not None and known[:2] == (leader_epoch, is_open) else None


def _may_change_all(update: MetadataUpdate) -> bool:
    """Whether a broker or cluster config, or a feature, has changed, which may affect all topics."""
    resources = update.changes.configs
    return bool(update.changes.features) or any(kind != ResourceType.TOPIC for kind, _ in resources)


def _touched(update: MetadataUpdate) -> Iterator[TopicIdPartition]:
    """Return the partitions that changed or were deleted, and all partitions of topics whose configs changed."""
    topics, changed = update.image.topics, update.changes.topics
    for topic_id, partitions in changed.partitions.items():
        for index in partitions:
            yield topic_id, index
    for topic_id, deleted in changed.deleted.items():
        for index in deleted.partitions:
            yield topic_id, index
    for _, name in update.changes.configs:
        topic = topics.by_name(name)
        if topic is not None:
            for index in topic.partitions:
                yield topic.id, index
