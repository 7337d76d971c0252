"""Features: the finalized levels, which all nodes support, raised after an upgrade."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from kraft.admin.features import describe_features, update_features
from kraft_http.models.features import FeatureChange, FeatureData, FeatureLevels, FeatureList
from kraft_http.node_transport import NodeTransport
from kraft_http.requests.deps import Port, Writable
from kraft_http.requests.errors import documented

router = APIRouter(tags=["Features"])


@router.get("/v1/features", summary="List features", responses=documented())
async def list_features(port: Port) -> FeatureList:
    """List the features with their levels, and the levels that every broker in service supports."""
    found = await describe_features(NodeTransport(port))
    return FeatureList(data=[FeatureData(**asdict(each)) for each in found])


@router.post("/v1/features", summary="Change levels", dependencies=[Writable], responses=documented(400, 403))
async def change_features(port: Port, body: FeatureChange) -> FeatureLevels:
    """Raise levels, or lower them if `direction` permits it."""
    await update_features(
        NodeTransport(port), body.levels, body.direction.upgrade_type, validate_only=body.validate_only
    )
    return FeatureLevels(levels=body.levels)
