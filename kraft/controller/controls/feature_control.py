"""UpdateFeatures (KIP-584, KIP-1022): every node must support the requested level.

metadata.version decreases only where no contents of the metadata log can be lost: contents that a lower level does not
know would have to be dropped.

kraft.version is not a metadata record: the Raft layer raises it. This happens after all other updates in the request
have been checked, and before they are written. (Apache Kafka raises it in the order of the request, and it stays raised
if a later feature is refused.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from kraft.common.errors import ApiError
from kraft.common.features import missing_requirement
from kraft.common.metadata_versions import loses_metadata
from kraft.controller.controller_result import ControllerResult, check_operation_size
from kraft.controller.controller_view import ControllerView
from kraft.controller.controls.configuration_control import elr_safety_records
from kraft.metadata.image.cluster_image import FeatureRange
from kraft.metadata.image.features_image import ELIGIBLE_LEADER_REPLICAS_VERSION, KRAFT_VERSION, METADATA_VERSION
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.metadata.records.no_op_record import NoOpRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3

_NOT_SUPPORTED: Final = FeatureRange(0, 0)


class Quorum:
    """The Raft layer's voters, and kraft.version, the one feature that it owns."""

    __slots__ = ("kraft_version", "raise_kraft_version", "voter_ids")

    def __init__(
        self,
        voter_ids: Callable[[], Sequence[int]],
        kraft_version: Callable[[], int],
        raise_kraft_version: Callable[[int, bool], Awaitable[None]],
    ) -> None:
        """`raise_kraft_version(level, validate_only)` returns when the new kraft.version is committed, or, with
        `validate_only`, when it has been validated. Raises ApiError."""
        self.voter_ids = voter_ids
        self.kraft_version = kraft_version
        self.raise_kraft_version = raise_kraft_version


def update_features(
    view: ControllerView, request: UpdateFeaturesRequest, api_version: int, quorum: Quorum
) -> ControllerResult[UpdateFeaturesResponse]:
    """Return the records and the response for UpdateFeatures: all updates, or none."""
    records: list[Any] = []
    proposed = dict(view.image.features.levels.items())
    proposed |= {update.feature: update.max_version_level for update in request.feature_updates}
    try:
        for update in request.feature_updates:
            records += _update(view, update, _upgrade_type(update, api_version), quorum, proposed)
    except ApiError as error:
        return refused(error)
    response = UpdateFeaturesResponse(error_message=None)
    if api_version <= 1:
        response.results = [
            UpdatableFeatureResult(feature=update.feature, error_message="NONE") for update in request.feature_updates
        ]
    if request.validate_only:
        return ControllerResult([], response)
    if any(
        update.feature == ELIGIBLE_LEADER_REPLICAS_VERSION and update.max_version_level > 0
        for update in request.feature_updates
    ):
        records = elr_safety_records(view) + records
    check_operation_size(records)
    return ControllerResult(records, response, atomic=True)


def refused(error: ApiError) -> ControllerResult[UpdateFeaturesResponse]:
    """Return the response when one of the features cannot be updated."""
    problem = f"The update failed for all features since the following feature had an error: {error.message}"
    return ControllerResult([], UpdateFeaturesResponse(error_code=error.code, error_message=problem))


def kraft_version_to_raise(request: UpdateFeaturesRequest, quorum: Quorum) -> int | None:
    """Return the kraft.version to request from the Raft layer, or None if the valid request does not raise it."""
    levels = [update.max_version_level for update in request.feature_updates if update.feature == KRAFT_VERSION]
    return levels[-1] if levels and levels[-1] > quorum.kraft_version() else None


def _upgrade_type(update: FeatureUpdateKey, api_version: int) -> int:
    """Return the upgrade type. Version 0 has only a flag for downgrades."""
    if api_version == 0:
        return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    return update.upgrade_type


def _refused(update: FeatureUpdateKey, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}",
    )


def _update(
    view: ControllerView, update: FeatureUpdateKey, upgrade_type: int, quorum: Quorum, proposed: Mapping[str, int]
) -> list[Any]:
    """Return the records for one update. `proposed` has the levels after all updates. Raises ApiError."""
    name, level = update.feature, update.max_version_level
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _refused(update, "The controller does not support the given upgrade type.")
    current = quorum.kraft_version() if name == KRAFT_VERSION else view.image.features.level(name)
    if level < 0:
        raise _refused(update, "A feature version cannot be less than 0.")
    reason = _reason_not_supported(view, name, level, quorum.voter_ids())
    if reason is not None:
        raise _refused(update, reason)
    if level < current and upgrade_type == UPGRADE:
        raise _refused(
            update,
            (
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
                "unsafe downgrade."
            ),
        )
    if level > current and upgrade_type != UPGRADE:
        raise _refused(update, "Can't downgrade to a newer version.")
    if name == KRAFT_VERSION:
        return _update_kraft_version(update, current, upgrade_type)
    if name == METADATA_VERSION and level < current and loses_metadata(current, level):
        raise _metadata_downgrade(current, level, upgrade_type)
    missing = missing_requirement(name, level, proposed)
    if missing is not None:
        raise _refused(update, missing)
    return [FeatureLevelRecord(name=name, feature_level=level)]


def _metadata_downgrade(current: int, level: int, upgrade_type: int) -> ApiError:
    if upgrade_type == UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    else:
        reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION, f"Unsupported metadata.version downgrade from {current} to {level}. {reason}"
    )


def _update_kraft_version(update: FeatureUpdateKey, current: int, upgrade_type: int) -> list[Any]:
    if upgrade_type == UPGRADE:
        return [NoOpRecord()]  # Gives the response an offset to wait for.
    if update.max_version_level != current:
        raise _refused(update, "Can't downgrade the version of this feature.")
    return []


def _reason_not_supported(view: ControllerView, name: str, level: int, voters: Sequence[int]) -> str | None:
    """Return the reason why a node cannot run `level` of a feature, with that node's name. None if all nodes can.

    Below 3.7-IV0 controllers do not register, so only this controller and the registered brokers are checked, as in
    Kafka.
    """
    own = view.settings.node_id
    nodes: list[tuple[str, OrderedMap[str, FeatureRange]]] = [
        (f"Local controller {own}", view.settings.supported_features)
    ]
    nodes += [(f"Broker {broker.id}", broker.features) for broker in view.image.cluster.brokers.values()]
    registers = view.capabilities.registers_controllers
    nodes += [
        (f"Controller {node.id}", node.features)
        for node in view.image.cluster.controllers.values()
        if registers and node.id != own
    ]
    for who, features in nodes:
        supported = features.get(name, _NOT_SUPPORTED)
        if not supported.min_level <= level <= supported.max_level:
            return (
                f"{who} does not support this feature."
                if supported.max_level == 0
                else f"{who} only supports versions {supported}"
            )
    for voter in voters if registers else ():
        if voter != own and voter not in view.image.cluster.controllers:
            return f"controller {voter} has not registered, and may not support this feature"
    return None
