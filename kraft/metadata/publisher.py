"""The loader's interface to the rest of the node: whole images with their changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage


class MetadataUpdate(NamedTuple):
    """A new image and its changes since the previously published one.

    `offset` is that of the last record in it (inclusive). `epoch` and `timestamp_ms` are that record's. `size` is the
    number of log bytes since the last update; 0 for a snapshot, whose `changes` were found by comparison.
    """

    image: MetadataImage
    changes: MetadataChanges
    offset: int
    epoch: int
    timestamp_ms: int
    size: int
    is_snapshot: bool


class MetadataPublisher(Protocol):
    """Acts on new metadata. Called in order of offset, never with a part of an open metadata transaction."""

    def publish(self, update: MetadataUpdate) -> Iterator[None] | None:
        """Act on `update`. Long work is returned as an iterator of steps. Other tasks run between them, and the next
        update follows after the last step."""
