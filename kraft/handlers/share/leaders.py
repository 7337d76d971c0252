"""The current leaders in responses to members of share groups that sent a request to another broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from kraft.handlers.registry import RequestContext
from kraft.share.share_sessions import Place

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

NO_LEADER = (-1, -1)


def current_leader(place: Place, broker: BrokerServices) -> tuple[int, int]:
    """The id and the epoch of the partition's leader; NO_LEADER if this broker knows none."""
    registration = broker.metadata.image.topics.partition(*place)
    return NO_LEADER if registration is None else (registration.leader, registration.leader_epoch)


def endpoints_of(leaders: Collection[int], context: RequestContext, broker: BrokerServices) -> list[Any]:
    """The brokers among `leaders`, with their addresses for clients of this listener."""
    if not leaders:
        return []
    return [node for node in broker.metadata.live_brokers(context.peer.listener) if node.id in leaders]
