"""The log offset of each broker's registration. A broker may be unfenced once it has replayed its own registration."""

from __future__ import annotations

from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage


class RegistrationOffsets:
    """The registration offsets of all brokers. An offset is known once this node has replayed the record, or has loaded
    a snapshot with it.

    The active controller decides by appended records. Appended offsets are dropped when the role is lost. The next
    claim starts with the committed offsets, which are then complete.
    """

    __slots__ = ("_appended", "_committed")

    def __init__(self) -> None:
        self._committed: dict[int, int] = {}
        self._appended: dict[int, int] = {}

    def of(self, broker_id: int) -> int | None:
        """The offset of the broker's registration, including appended records; None if it is not known."""
        return self._appended.get(broker_id)

    def claimed(self) -> None:
        """Start with the committed offsets: this node has become the active controller, and its whole log is
        committed."""
        self._appended = dict(self._committed)

    def appended(self, changes: MetadataChanges, image: MetadataImage, offset: int) -> None:
        """Record the registrations among appended records. They lead to `image`, and the last record is at `offset`."""
        _note(self._appended, changes, image, offset)

    def committed(self, changes: MetadataChanges, image: MetadataImage, offset: int) -> None:
        """Record the registrations among committed records. They lead to `image`, and the last record is at
        `offset`."""
        _note(self._committed, changes, image, offset)


def _note(offsets: dict[int, int], changes: MetadataChanges, image: MetadataImage, offset: int) -> None:
    for broker_id, before in changes.brokers.items():
        broker = image.cluster.brokers.get(broker_id)
        if broker is None:
            offsets.pop(broker_id, None)
        elif before is None or before.epoch != broker.epoch:
            offsets[broker_id] = offset
