"""The limit on requests that carry a group member's metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices


def request_bytes_max(broker: BrokerServices) -> int:
    """The size in bytes of the largest frame that is decoded."""
    return broker.config.integer("kraft.group.request.max.bytes")
