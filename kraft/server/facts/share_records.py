"""The records in flight of a share group, on the partitions that this node leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kraft.share.in_flight import ranges_in_flight

if TYPE_CHECKING:
    from kraft.server.node import Node

RANGES_MAX: Final = 1_000
"""Limit of ranges in a document, over all partitions."""


def own_share_records(node: Node, group_id: str) -> dict[str, Any] | None:
    """The document of `kraft.status.group.share`: the share partitions that are loaded here, with their first ranges.
    None from a node without a broker role."""
    if node.broker is None:
        return None
    now_ms = int(node.world.clock.now() * 1000)
    partitions: list[dict[str, Any]] = []
    left = RANGES_MAX
    for hosted in node.broker.shares.partitions.hosted():
        led = hosted.led
        if hosted.key.group_id != group_id or led is None or not hosted.is_loaded or led.ended is not None:
            continue
        window = led.window
        ranges = [list(each) for each, _ in zip(ranges_in_flight(window, now_ms), range(left), strict=False)]
        left -= len(ranges)
        partitions.append(
            {
                "topic": hosted.partition.topic,
                "partition": hosted.partition.index,
                "start_offset": window.start_offset,
                "end_offset": window.end_offset,
                "ranges_count": window.batch_count,
                "ranges": ranges,
            }
        )
    return {"partitions": partitions}
