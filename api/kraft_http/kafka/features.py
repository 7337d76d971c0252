"""Features: the levels that all nodes agreed to run (KIP-584, KIP-1022)."""

from __future__ import annotations

from collections.abc import Mapping

from kraft.common.version import VERSION
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.protocol.messages.update_features_response import UpdateFeaturesResponse
from kraft_http.kafka.client import Kafka, of_each, raise_for
from kraft_http.kafka.cluster import describe_brokers


async def describe_features(kafka: Kafka) -> list[tuple[str, int, int, int]]:
    """Name, finalized level (0: none), and the first and last level that every broker in service can run. Raises
    KafkaProblem when one of them does not answer."""

    async def of_broker(node_id: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name="kraft-admin", client_software_version=VERSION)
        answer = await kafka.ask(ApiKey.API_VERSIONS, 4, request, ApiVersionsResponse, node_id)
        raise_for(answer.error_code, subject=f"broker {node_id}")
        return answer

    brokers = [broker.broker_id for broker in await describe_brokers(kafka) if not broker.is_fenced]
    answers = await of_each(of_broker, brokers)
    levels = {each.name: each.max_version_level for answer in answers for each in answer.finalized_features}
    ranges = [{each.name: (each.min_version, each.max_version) for each in it.supported_features} for it in answers]
    return [
        (
            name,
            levels.get(name, 0),
            max(supported.get(name, (0, 0))[0] for supported in ranges),
            min(supported.get(name, (0, 0))[1] for supported in ranges),
        )
        for name in sorted({*levels, *(name for supported in ranges for name in supported)})
    ]


async def update_features(kafka: Kafka, levels: Mapping[str, int], upgrade_type: int, *, validate_only: bool) -> None:
    """All levels, or none. `upgrade_type` as in UpdateFeatures. Raises KafkaProblem."""
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )
    answer = await kafka.ask(ApiKey.UPDATE_FEATURES, 2, request, UpdateFeaturesResponse)
    raise_for(answer.error_code, answer.error_message)
