"""How an image is written as records at a level of metadata.version (Kafka's ImageWriterOptions)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kraft.common.metadata_versions import MetadataVersion


class UnwritableMetadata(ValueError):
    """Raised when an image has contents that its metadata.version does not know."""


def refuse_loss(problem: str) -> None:
    """Raise UnwritableMetadata."""
    raise UnwritableMetadata(problem)


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """The level to write, and what happens to contents that it does not know: they are left out after `on_loss`
    returns."""

    metadata_version: MetadataVersion
    on_loss: Callable[[str], None] = refuse_loss

    def handle_loss(self, what: str) -> None:
        """Report contents that are left out."""
        self.on_loss(
            "Metadata has been lost because the following could not be represented in metadata.version "
            f"{self.metadata_version.name}: {what}"
        )
