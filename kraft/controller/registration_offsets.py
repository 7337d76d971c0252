"""Where in the log each broker's registration lies: a broker may be unfenced once it has replayed that far."""

from __future__ import annotations

from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage


class RegistrationOffsets:
    """Of the brokers that are registered, committed or not; known only as far as this node saw it happen, which is at the latest when it loads a snapshot."""

    __slots__ = ("_offsets",)

    def __init__(self) -> None:
        self._offsets: dict[int, int] = {}

    def of(self, broker_id: int) -> int | None:
        return self._offsets.get(broker_id)

    def note(self, changes: MetadataChanges, image: MetadataImage, offset: int) -> None:
        """`changes` led to `image`, and the last of their records lies at `offset`."""
        for broker_id, before in changes.brokers.items():
            broker = image.cluster.brokers.get(broker_id)
            if broker is None:
                self._offsets.pop(broker_id, None)
            elif before is None or before.epoch != broker.epoch:
                self._offsets[broker_id] = offset
