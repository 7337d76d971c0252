"""Quotas: the limits of users, client ids and addresses on each broker."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from kraft.admin.quotas import alter_quotas, describe_quotas
from kraft_http.models.quotas import KINDS, QuotaChange, QuotaData, QuotaList, by_field
from kraft_http.node_transport import NodeTransport
from kraft_http.requests.deps import Port, Writable
from kraft_http.requests.errors import documented

router = APIRouter(tags=["Quotas"])

_Name = Annotated[str | None, Query(min_length=1, max_length=1_000, description="Only quotas that include this name.")]


@router.get("/v1/quotas", summary="List quotas", responses=documented(400))
async def list_quotas(port: Port, user: _Name = None, client_id: _Name = None, ip: _Name = None) -> QuotaList:
    """List all quotas, or those whose entity has the given parts."""
    wanted = {kind: name for kind, name in zip(KINDS.values(), (user, client_id, ip), strict=True) if name is not None}
    found = [
        QuotaData(entity=by_field(each.entity), limits=dict(each.limits))
        for each in await describe_quotas(NodeTransport(port), wanted)
    ]
    return QuotaList(
        data=sorted(found, key=lambda each: sorted((kind, name or "") for kind, name in each.entity.items()))
    )


@router.post("/v1/quotas", summary="Change quotas", dependencies=[Writable], responses=documented(400, 403))
async def change_quotas(port: Port, body: QuotaChange) -> QuotaData:
    """Set and remove limits of one entity. The response repeats the request; brokers apply it when they have read it
    from the metadata log."""
    changes: dict[str, float | None] = {**body.set, **dict.fromkeys(body.delete)}
    await alter_quotas(NodeTransport(port), body.entity.parts(), changes, validate_only=body.validate_only)
    return QuotaData(entity=by_field(body.entity.parts()), limits=body.set)
