"""Where in the log each broker's registration lies: a broker may be unfenced once it has replayed that far."""

from __future__ import annotations

from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage


class RegistrationOffsets:
    """The offsets of the registered brokers' records. They are known from when this node replayed them, at the latest
    from when it loaded a snapshot.

    An active controller decides by what it has appended. Appended offsets are dropped with the role: the next time it
    begins with what is committed, which is all there is then.
    """

    __slots__ = ("_appended", "_committed")

    def __init__(self) -> None:
        self._committed: dict[int, int] = {}
        self._appended: dict[int, int] = {}

    def of(self, broker_id: int) -> int | None:
        """The offset of the broker's registration, appended ones included; None if it is not known."""
        return self._appended.get(broker_id)

    def claimed(self) -> None:
        """This node becomes the active controller, its whole log committed."""
        self._appended = dict(self._committed)

    def appended(self, changes: MetadataChanges, image: MetadataImage, offset: int) -> None:
        """What this active controller appended led to `image`, and the last record of it lies at `offset`."""
        _note(self._appended, changes, image, offset)

    def committed(self, changes: MetadataChanges, image: MetadataImage, offset: int) -> None:
        """What is committed led to `image`, and the last record of it lies at `offset`."""
        _note(self._committed, changes, image, offset)


def _note(offsets: dict[int, int], changes: MetadataChanges, image: MetadataImage, offset: int) -> None:
    for broker_id, before in changes.brokers.items():
        broker = image.cluster.brokers.get(broker_id)
        if broker is None:
            offsets.pop(broker_id, None)
        elif before is None or before.epoch != broker.epoch:
            offsets[broker_id] = offset
