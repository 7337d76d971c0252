"""What the loader tells the rest of the node: whole images with their changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage


class MetadataUpdate(NamedTuple):
    """A new image and what it changes against the one published before. `offset` is the last record in it
    (inclusive), `epoch` and `timestamp_ms` are that record's; `size` counts the bytes of log since the last update,
    0 for a snapshot, whose `changes` were found by comparing."""

    image: MetadataImage
    changes: MetadataChanges
    offset: int
    epoch: int
    timestamp_ms: int
    size: int
    is_snapshot: bool


class MetadataPublisher(Protocol):
    """Somebody who acts on metadata. Called in order of offset, never with anything of an open metadata transaction."""

    def publish(self, update: MetadataUpdate) -> Iterator[None] | None:
        """Act on `update`. Long work is returned as an iterator of steps: other tasks run between them, the next
        update comes after the last."""
