"""UpdateFeatures: what cannot be finalized, kraft.version beside the features that are records, and turning ELR on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.common.features import SHARE_VERSION, SUPPORTED_FEATURES, serves_share_groups, writes_dead_letters
from kraft.controller.brokers import cluster_control
from kraft.controller.controls.feature_control import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    Quorum,
    update_features,
)
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.image.cluster_image import FeatureRange
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.metadata.records.no_op_record import NoOpRecord
from kraft.metadata.records.serde import encode_record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import controller_registration_request as controllers
from kraft.protocol.messages.broker_registration_request import Feature
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.world.simulated import Universe
from tests.unit.controller.harness import KraftVersion, running, simulate
from tests.unit.controller.pure_cluster import PureCluster

ELR = "eligible.leader.replicas.version"


def quorum(*voters: int, level: int = 0) -> Quorum:
    """One that is asked for its voters and its kraft.version."""
    return Quorum(lambda: voters, lambda: level, KraftVersion().raise_level)


def wish(name: str, level: int, upgrade: int = 1, **fields: Any) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade, **fields)


def update(
    cluster: PureCluster,
    *wishes: FeatureUpdateKey,
    version: int = 2,
    raft: Quorum | None = None,
    validate_only: bool = False,
) -> Any:
    request = UpdateFeaturesRequest(feature_updates=list(wishes), validate_only=validate_only)
    return update_features(cluster.view, request, version, raft or quorum(1))


def refusal(result: Any) -> str:
    assert result.records == []
    assert result.response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    prefix = "The update failed for all features since the following feature had an error: "
    assert result.response.error_message.startswith(prefix)
    return str(result.response.error_message.removeprefix(prefix))


def brokers_of_release(metadata_versions: tuple[int, int]) -> list[Feature]:
    ranges = {"metadata.version": metadata_versions, "kraft.version": (0, 1)}
    return [
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in ranges.items()
    ]


def supporting(cluster: PureCluster) -> PureCluster:
    """A controller that could run ELR."""
    features = cluster.settings.supported_features.set(
        ELR, type(cluster.settings.supported_features["kraft.version"])(0, 1)
    )
    cluster.settings = type(cluster.settings)(
        node_id=1, cluster_id=cluster.settings.cluster_id, supported_features=features
    )
    return cluster


def test_unsupported_feature_changes_are_refused() -> None:
    cluster = PureCluster(1)
    assert (
        refusal(update(cluster, wish("nonsense", 1)))
        == "Invalid update version 1 for feature nonsense. Local controller 1 does not support this feature."
    )
    assert refusal(update(cluster, wish(ELR, 2))).endswith("Local controller 1 only supports versions 0-1")
    assert refusal(update(cluster, wish("metadata.version", 34))).endswith(
        "Local controller 1 only supports versions 7-33"
    )
    assert refusal(update(cluster, wish("kraft.version", -1))).endswith("A feature version cannot be less than 0.")
    assert refusal(update(cluster, wish("kraft.version", 1, 9))).endswith(
        "The controller does not support the given upgrade type."
    )
    assert refusal(update(cluster, wish("kraft.version", 1, 2))).endswith("Can't downgrade to a newer version.")
    with_peer = quorum(1, 2)
    assert refusal(update(cluster, wish("kraft.version", 1), raft=with_peer)).endswith(
        "controller 2 has not registered, and may not support this feature"
    )


@pytest.mark.parametrize("upgrade", [1, 2, 3])
@pytest.mark.parametrize("level", [0, 6, 34])
def test_metadata_versions_outside_of_the_supported_range_are_refused(level: int, upgrade: int) -> None:
    told = refusal(update(PureCluster(1), wish("metadata.version", level, upgrade)))
    assert told.endswith("only supports versions 7-33") or told == "Can't downgrade to a newer version.", told


@pytest.mark.parametrize("level", range(8, 34))
def test_metadata_version_is_raised_by_one_record(level: int) -> None:
    cluster = PureCluster(1, metadata_version=level - 1)
    result = update(cluster, wish("metadata.version", level))
    assert [encode_record(record, 0) for record in result.records] == [
        b"\x01\x0c\x00" + b"\x11metadata.version" + bytes((0, level, 0))
    ]
    cluster.apply(result)
    assert cluster.image.features.metadata_version == level


@pytest.mark.parametrize("upgrade", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
@pytest.mark.parametrize(
    ("current", "level"), [(10, 8), (12, 11), (16, 15), (22, 17), (29, 23), (31, 30), (31, 31), (33, 33)]
)
def test_metadata_version_is_lowered_where_no_metadata_can_be_lost(current: int, level: int, upgrade: int) -> None:
    cluster = PureCluster(1, metadata_version=current)
    cluster.apply(update(cluster, wish("metadata.version", level, upgrade)))
    assert cluster.image.features.metadata_version == level


@pytest.mark.parametrize(
    ("current", "level"),
    [(8, 7), (11, 10), (13, 12), (15, 14), (17, 16), (23, 22), (30, 29), (32, 31), (33, 32), (33, 7)],
)
def test_metadata_version_is_not_lowered_where_metadata_could_be_lost(current: int, level: int) -> None:
    cluster = PureCluster(1, metadata_version=current)
    prefix = f"Unsupported metadata.version downgrade from {current} to {level}. "
    assert refusal(update(cluster, wish("metadata.version", level, SAFE_DOWNGRADE))) == (
        prefix + "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    assert refusal(update(cluster, wish("metadata.version", level, UNSAFE_DOWNGRADE))) == (
        prefix + "Unsafe metadata downgrade is not supported in this version."
    )
    assert "without setting the upgrade type" in refusal(update(cluster, wish("metadata.version", level)))


def test_metadata_version_is_not_raised_while_a_node_of_an_earlier_release_is_registered() -> None:
    earlier = [controllers.Feature(name="metadata.version", min_supported_version=30, max_supported_version=30)]
    cluster = PureCluster(1, metadata_version=31)
    cluster.apply(
        cluster_control.register_controller(
            cluster.view, controllers.ControllerRegistrationRequest(controller_id=7, features=earlier)
        )
    )
    assert refusal(update(cluster, wish("metadata.version", 33))).endswith("Controller 7 only supports versions 30")
    cluster = PureCluster()
    cluster.register(8, features=[*brokers_of_release((30, 30))])
    assert refusal(update(cluster, wish("metadata.version", 33))).endswith("Broker 8 only supports versions 30")


def test_the_levels_of_metadata_version_give_equal_images_when_replayed_again() -> None:
    cluster = PureCluster(1)
    for level, kind in ((31, UPGRADE), (30, SAFE_DOWNGRADE), (32, UPGRADE), (33, UPGRADE)):
        before = cluster.image
        cluster.apply(update(cluster, wish("metadata.version", level, kind)))
        again, _ = MetadataImage().replay_batch(cluster.image.write())
        assert again == cluster.image
        assert again.cluster == before.cluster


def test_kraft_version_is_written_by_the_quorum_and_never_decreases() -> None:
    cluster = PureCluster(1)
    assert update(cluster, wish("kraft.version", 1), validate_only=True).records == []
    assert [type(record) for record in update(cluster, wish("kraft.version", 1)).records] == [NoOpRecord]
    raised = quorum(1, level=1)
    assert "without setting the upgrade type" in refusal(update(cluster, wish("kraft.version", 0), raft=raised))
    assert refusal(update(cluster, wish("kraft.version", 0, 2), raft=raised)).endswith(
        "Can't downgrade the version of this feature."
    )


async def ask(rig: Any, *wishes: FeatureUpdateKey, validate_only: bool = False) -> Any:
    request = UpdateFeaturesRequest(feature_updates=list(wishes), validate_only=validate_only)
    return await rig.controller.requests.update_features(request, ControllerRequestContext(2))


def test_kraft_version_is_not_raised_when_another_feature_of_the_request_is_refused() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            refused = await ask(rig, wish("kraft.version", 1), wish("nonsense", 1))
            assert (refused.error_code, rig.kraft_version.level) == (ErrorCode.INVALID_UPDATE_VERSION, 0)
            assert (
                await ask(rig, wish("kraft.version", 1), wish(ELR, 1), validate_only=True)
            ).error_code == ErrorCode.NONE
            assert (rig.kraft_version.level, rig.image.features.elr_enabled) == (0, False)
            assert (await ask(rig, wish("kraft.version", 1), wish(ELR, 1))).error_code == ErrorCode.NONE
            assert (rig.kraft_version.level, rig.image.features.elr_enabled) == (1, True)
            assert (await ask(rig, wish("kraft.version", 1), wish(ELR, 1))).error_code == ErrorCode.NONE, (
                "asked again by who lost the answer"
            )

    simulate(body)


@pytest.mark.parametrize("validate_only", [False, True])
def test_nothing_is_written_when_the_quorum_does_not_raise_kraft_version(validate_only: bool) -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            rig.kraft_version.refusal = ApiError(ErrorCode.REQUEST_TIMED_OUT, "another change of voters is under way")
            refused = await ask(rig, wish(ELR, 1), wish("kraft.version", 1), validate_only=validate_only)
            assert refused.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert refused.error_message.endswith(
                "since the following feature had an error: another change of voters is under way"
            )
            assert not rig.image.features.elr_enabled

    simulate(body)


def test_a_controller_deposed_while_kraft_version_is_raised_writes_nothing() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:

            async def raised_by_the_next(level: int, validate_only: bool) -> None:
                rig.log.lose(2, 2)
                await rig.log.lead(3)

            rig.kraft_version.raise_level = raised_by_the_next
            with pytest.raises(ApiError) as unknown:
                await ask(rig, wish("kraft.version", 1), wish(ELR, 1))
            assert unknown.value.code == ErrorCode.NOT_CONTROLLER
            assert not rig.image.features.elr_enabled

    simulate(body)


def test_enabling_elr_writes_one_min_isr_for_the_cluster() -> None:
    cluster = supporting(PureCluster(1))
    cluster.configure(4, "1", min_insync_replicas="2")
    result = update(cluster, wish(ELR, 1), version=1)
    assert [type(record) for record in result.records] == [ConfigRecord, ConfigRecord, FeatureLevelRecord]
    answer = cluster.apply(result)
    assert [(r.feature, r.error_code) for r in answer.results] == [(ELR, 0)]
    assert dict(cluster.image.configs.cluster.items()) == {"min.insync.replicas": "1"}
    assert "min.insync.replicas" not in cluster.image.configs.broker(1)
    assert cluster.view.elr_enabled
    assert "without setting the upgrade type" in refusal(update(cluster, wish(ELR, 0), version=0))
    cluster.apply(update(cluster, wish(ELR, 0, allow_downgrade=True), version=0))
    assert not cluster.view.elr_enabled


def test_share_version_is_raised_and_safely_lowered_between_its_levels() -> None:
    cluster = PureCluster()
    cluster.settings = replace(
        cluster.settings,
        supported_features=cluster.settings.supported_features.set(
            SHARE_VERSION, FeatureRange(*SUPPORTED_FEATURES[SHARE_VERSION])
        ),
    )
    assert not serves_share_groups(cluster.image.features)
    raised = update(cluster, wish(SHARE_VERSION, 1))
    assert raised.response.error_code == ErrorCode.NONE
    cluster.replay(*raised.records)
    assert serves_share_groups(cluster.image.features)
    assert not writes_dead_letters(cluster.image.features)
    cluster.replay(*update(cluster, wish(SHARE_VERSION, 2)).records)
    assert serves_share_groups(cluster.image.features)
    assert writes_dead_letters(cluster.image.features)
    assert "only supports versions 0-2" in refusal(update(cluster, wish(SHARE_VERSION, 3)))
    assert "Can't downgrade the version of this feature without" in refusal(update(cluster, wish(SHARE_VERSION, 0)))
    cluster.replay(*update(cluster, wish(SHARE_VERSION, 0, upgrade=2)).records)
    assert not serves_share_groups(cluster.image.features)
