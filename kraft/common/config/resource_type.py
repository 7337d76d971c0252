"""Types of resources that can be configured (KIP-133, KIP-412, KIP-714, KIP-848)."""

from __future__ import annotations

from typing import Final


class ResourceType:
    """Wire ids of the resource types."""

    UNKNOWN: Final = 0
    TOPIC: Final = 2
    BROKER: Final = 4
    BROKER_LOGGER: Final = 8
    CLIENT_METRICS: Final = 16
    GROUP: Final = 32
