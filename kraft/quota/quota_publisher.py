"""Applies quotas from the metadata."""

from __future__ import annotations

from typing import Protocol

from kraft.metadata.image.client_quotas_image import ClientQuotasImage
from kraft.metadata.publisher import MetadataUpdate


class QuotaHolder(Protocol):
    def take_image(self, image: ClientQuotasImage) -> None:
        """Apply the quotas of the image."""


class QuotaPublisher:
    """A metadata publisher that applies changed quotas."""

    def __init__(self, quotas: QuotaHolder) -> None:
        self._quotas = quotas

    def publish(self, update: MetadataUpdate) -> None:
        self._quotas.take_image(update.image.client_quotas)
