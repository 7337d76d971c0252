"""The topics that members of a consumer group subscribe to. The coordinator reads nothing else of their metadata, and
needs the topics to know which offsets are in use."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kraft.common.errors import ProtocolError
from kraft.coordinator.group.classic.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicMember
from kraft.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

_I16 = struct.Struct(">h")


def subscribed_topics(
    protocol_type: str | None, protocol: str | None, members: Iterable[ClassicMember]
) -> frozenset[str] | None:
    """All topics that members subscribe to. None if unknown: the protocol type differs, or the metadata is not a
    consumer subscription."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    topics: list[str] = []
    try:
        for member in members:
            topics += _topics(member.metadata_for(protocol))
    except ProtocolError:
        # Any client may invent its own metadata; the group works, its offsets are just never taken to be unused.
        return None
    return frozenset(topics)


def _topics(metadata: bytes) -> list[str]:
    """The topics of a subscription. They come first in every version, so later fields need not be understood."""
    if len(metadata) < _I16.size:
        raise ProtocolError("a consumer subscription without a version")
    subscription, _ = ConsumerProtocolSubscription.decode_from(metadata, _I16.size, 0)
    return subscription.topics
