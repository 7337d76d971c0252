"""Clients that push their own metrics (KIP-714), of the whole cluster."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path

from kraft.admin.clients import describe_client, list_clients
from kraft_http.models.clients import ClientData, ClientDataList, ClientReportData
from kraft_http.node_transport import NodeTransport
from kraft_http.requests.deps import Port, unanswered
from kraft_http.requests.errors import documented, not_found

router = APIRouter(prefix="/v1/clients", tags=["Clients"])


@router.get("", summary="List clients that push their metrics", responses=documented(403, 404))
async def get_clients(port: Port) -> ClientDataList:
    """List the clients that support client telemetry (KIP-714), with their latest metrics. Brokers with
    kraft.telemetry.enable=false have none; the status is 404 if all brokers have that setting."""
    kafka = NodeTransport(port)
    found = await list_clients(kafka)
    if found is None:
        raise not_found("A broker that receives metrics of clients")
    return ClientDataList(
        clients_count=found.count,
        data=[ClientData.model_validate(asdict(each)) for each in found.clients],
        unanswered_brokers=unanswered(kafka),
    )


@router.get("/{instance_id}", summary="A client's own metrics", responses=documented(403, 404))
async def get_client(
    port: Port, instance_id: Annotated[str, Path(description="Instance id of the client.")]
) -> ClientReportData:
    """Return all numbers of the client's last push, from the broker to which it pushed."""
    kafka = NodeTransport(port)
    found = await describe_client(kafka, instance_id)
    if found is None:
        raise not_found(f"Client {instance_id}")
    return ClientReportData.model_validate(asdict(found) | {"unanswered_brokers": unanswered(kafka)})
