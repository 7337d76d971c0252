"""Features of a cluster: the levels that all of its nodes agreed to run (KIP-584, KIP-1022)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kraft.client.cluster import Cluster
from kraft.client.errors import check
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""What an update may do: only raise levels; lower them where no metadata is lost; lower them in any case."""

OPERATION_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature that a broker of the cluster knows."""

    name: str
    level: int
    """The one that is finalized. 0: none, which most features also call their first level."""
    min_level: int
    max_level: int
    """The levels that every live broker can run. The last is below the first where two have none in common."""


async def describe_features(cluster: Cluster) -> list[Feature]:
    """By name. Every live broker is asked what it can run. Raises as `Cluster.call`."""
    finalized: dict[str, int] = {}
    ranges: list[dict[str, tuple[int, int]]] = []
    for broker in (await cluster.metadata()).brokers.values():
        request = ApiVersionsRequest(client_software_name="kraft", client_software_version="1")
        answer: ApiVersionsResponse = await cluster.call(request, node_id=broker.node_id)
        check(answer.error_code, f"the features of broker {broker.node_id}")
        ranges.append({each.name: (each.min_version, each.max_version) for each in answer.supported_features})
        finalized |= {each.name: each.max_version_level for each in answer.finalized_features}
    return [
        Feature(
            name,
            finalized.get(name, 0),
            max(supported.get(name, (0, 0))[0] for supported in ranges),
            min(supported.get(name, (0, 0))[1] for supported in ranges),
        )
        for name in sorted({*finalized, *(name for supported in ranges for name in supported)})
    ]


async def update_features(
    cluster: Cluster, levels: Mapping[str, int], upgrade_type: int, *, validate_only: bool = False
) -> None:
    """Finalize these levels: all of them, or none. Raises ApiError."""
    request = UpdateFeaturesRequest(
        timeout_ms=OPERATION_TIMEOUT_MS,
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )

    async def attempt() -> None:
        answer = await cluster.call(request)
        check(answer.error_code, "features", answer.error_message)
        for result in answer.results or ():
            check(result.error_code, f"feature {result.feature}", result.error_message)

    await cluster.retrying(attempt)
