"""Since when partitions have no leader, and since when they wait for a recovery. Every controller notes it by its own
clock, active or not.

A recovery waits for a limited time for replicas that may have more. Counted from when a node became the active
controller, each fail-over would begin it anew, and controllers that change every few minutes would never end it. So
each controller notes when a partition is first open for a recovery in the metadata that it follows. The next active
controller goes on from what it noted itself. Only a controller that started meanwhile begins the wait anew.
"""

from __future__ import annotations

from collections.abc import Callable

from kraft.controller.controller_view import ControllerView
from kraft.controller.unclean.recovery import is_open
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.image.topics_image import TopicIdPartition
from kraft.metadata.publisher import MetadataUpdate
from kraft.world.ports import Clock


class OpenTimes:
    """A metadata publisher of a node with a controller role."""

    def __init__(self, view: Callable[[MetadataImage], ControllerView], clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._seen: MetadataImage | None = None
        self._since: dict[TopicIdPartition, tuple[int, bool, float]] = {}

    def publish(self, update: MetadataUpdate) -> None:
        """See `kraft.metadata.publisher.MetadataPublisher`."""
        image, seen = update.image, self._seen
        self._seen = image
        if seen is not None and image.topics.leaderless is seen.topics.leaderless and image.configs is seen.configs:
            return
        known, self._since = self._since, {}
        now, view = self._clock.now(), self._view(image)
        for key in image.topics.leaderless:
            partition = image.topics.by_id[key[0]].partitions[key[1]]
            state = (partition.leader_epoch, is_open(view, key[0], partition))
            before = known.get(key)
            self._since[key] = before if before is not None and before[:2] == state else (*state, now)

    def since(self, key: TopicIdPartition, leader_epoch: int, is_open: bool) -> float | None:
        """When the partition was first seen in that leader epoch, open or waiting for a member of ISR or ELR; None if
        it never was."""
        known = self._since.get(key)
        return known[2] if known is not None and known[:2] == (leader_epoch, is_open) else None
