"""The clients that push their metrics to this node (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kraft.common.ids import uuid_from_text, uuid_to_text
from kraft.telemetry.instances import slowest_first

if TYPE_CHECKING:
    from kraft.server.node import Node
    from kraft.telemetry.instances import Instance

LISTED_MAX: Final = 1_000
"""Limit of clients in a document: those with the largest latency. The count is complete."""


def own_clients(node: Node) -> dict[str, Any] | None:
    """The document of `kraft.status.clients`; None from a node without a broker role, or that serves no telemetry."""
    if node.broker is None or not node.config.flag("kraft.telemetry.enable"):
        return None
    telemetry = node.broker.services.telemetry
    live = slowest_first(telemetry.instances.live(telemetry.now_ms()))
    return {
        "clients_count": len(live),
        "clients": [_client(each, telemetry.now_ms(), node.config.node_id) for each in live[:LISTED_MAX]],
    }


def own_client(node: Node, instance_id: str) -> dict[str, Any] | None:
    """The document of `kraft.status.client`, with an empty list if the client does not push here. None as for
    `own_clients`."""
    if node.broker is None or not node.config.flag("kraft.telemetry.enable"):
        return None
    telemetry = node.broker.services.telemetry
    try:
        found = telemetry.instances.of(uuid_from_text(instance_id), telemetry.now_ms())
    except ValueError:
        found = None
    if found is None:
        return {"clients": []}
    details = _client(found, telemetry.now_ms(), node.config.node_id)
    details["labels"] = found.labels
    details["metrics"] = [
        {
            "name": name,
            "attributes": dict(attributes),
            "value": value,
            "type": "counter" if name in found.monotonic else "gauge",
        }
        for (name, attributes), value in sorted(found.values.items())
    ]
    return {"clients": [details]}


def _client(instance: Instance, now_ms: int, node_id: int) -> dict[str, Any]:
    client = instance.client
    return {
        "instance_id": uuid_to_text(instance.instance_id),
        "client_id": client.text("client_id"),
        "software_name": client.text("client_software_name"),
        "software_version": client.text("client_software_version"),
        "address": client.text("client_source_address"),
        "port": client.text("client_source_port"),
        "broker_id": node_id,
        "nodes": list(instance.nodes),
        "subscriptions": list(instance.subscriptions),
        "interval_ms": instance.interval_ms,
        "idle_ms": now_ms - instance.last_ms,
        "pushes": instance.pushes,
        "terminating": instance.is_terminating,
        "error_code": int(instance.last_error),
        "metrics_count": len(instance.values),
        "left_out": instance.left_out,
        **instance.summary._asdict(),
    }
