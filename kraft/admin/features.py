"""Features of a cluster: the finalized levels, which all of its nodes support (KIP-584, KIP-1022)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kraft.admin.errors import check
from kraft.admin.transport import AdminTransport
from kraft.common.features import KRAFT_VERSION, METADATA_VERSION, level_at_format
from kraft.common.version import VERSION
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.protocol.messages.update_features_response import UpdateFeaturesResponse

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""Upgrade types: raise only; lower if no metadata is lost; lower in any case."""

OPERATION_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature that a broker of the cluster supports."""

    name: str
    level: int
    """The finalized level; 0 if the feature is not finalized."""
    min_level: int
    max_level: int
    """The highest level that every live broker supports. It is below `min_level` if two brokers have no level in
    common."""


async def describe_features(port: AdminTransport) -> list[Feature]:
    """Return the features in order of name, with the range that every live broker supports.

    Raises Refused, and what `AdminTransport.ask` raises for a broker that does not answer.
    """

    async def of_broker(node_id: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name="kraft-admin", client_software_version=VERSION)
        answer = await port.ask(request, ApiVersionsResponse, node_id=node_id)
        check(answer.error_code, f"the features of broker {node_id}")
        return answer

    answers = await port.of_each(of_broker, await port.broker_ids())
    finalized = {each.name: each.max_version_level for answer in answers for each in answer.finalized_features}
    ranges = [{each.name: (each.min_version, each.max_version) for each in it.supported_features} for it in answers]
    return [
        Feature(
            name,
            finalized.get(name, 0),
            max(supported.get(name, (0, 0))[0] for supported in ranges),
            min(supported.get(name, (0, 0))[1] for supported in ranges),
        )
        for name in sorted({*finalized, *(name for supported in ranges for name in supported)})
    ]


def levels_of_release(found: Sequence[Feature], metadata_version: int) -> dict[str, int]:
    """Return the levels that `found` have in a new cluster with this metadata.version, of the features that are below
    them, metadata.version first. The quorum's own kraft.version belongs to no release."""
    usual = {
        each.name: metadata_version
        if each.name == METADATA_VERSION
        else level_at_format(each.name, each.max_level, metadata_version)
        for each in sorted(found, key=lambda each: each.name != METADATA_VERSION)
        if each.name != KRAFT_VERSION
    }
    now = {each.name: each.level for each in found}
    return {name: level for name, level in usual.items() if level > now[name]}


async def update_features(
    port: AdminTransport, levels: Mapping[str, int], upgrade_type: int, *, validate_only: bool = False
) -> None:
    """Finalize these levels: all of them, or none. Raises Refused."""
    request = UpdateFeaturesRequest(
        timeout_ms=OPERATION_TIMEOUT_MS,
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )

    async def attempt() -> None:
        answer = await port.ask(request, UpdateFeaturesResponse)
        check(answer.error_code, "features", answer.error_message)
        for result in answer.results or ():
            check(result.error_code, f"feature {result.feature}", result.error_message)

    await port.retrying(attempt)
