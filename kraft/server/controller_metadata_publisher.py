"""Lets the handlers of a controller see each new metadata image."""

from __future__ import annotations

from kraft.handlers.metadata_cache import MetadataCache
from kraft.metadata.publisher import MetadataUpdate


class ControllerMetadataPublisher:
    """Called by the metadata loader, one image at a time."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def publish(self, update: MetadataUpdate) -> None:
        """See `kraft.metadata.publisher.MetadataPublisher`."""
        self._metadata.set(update.image, update.offset, update.epoch)
