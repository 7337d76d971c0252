"""What the controller writes at each level of metadata.version, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.common.metadata_versions import METADATA_VERSIONS, metadata_version_of
from kraft.controller.brokers import cluster_control
from kraft.controller.controls.delegation_token_control import create_delegation_token
from kraft.controller.controls.feature_control import update_features
from kraft.controller.controls.scram_control import alter_user_scram_credentials
from kraft.controller.replication_control import leader_and_isr
from kraft.controller.replication_control.assign_directories import assign_replicas_to_dirs
from kraft.controller.request_context import ControllerRequestContext
from kraft.controller.writes.activation import activation_records
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.image.partition_registration import MIGRATING_DIRECTORY
from kraft.metadata.image.writer_options import UnwritableMetadata, WriterOptions
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.metadata.records.begin_transaction_record import BeginTransactionRecord
from kraft.metadata.records.end_transaction_record import EndTransactionRecord
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.metadata.records.serde import decode_record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kraft.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from kraft.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from kraft.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.world.steps import at_once
from tests.unit.controller.partition_requests import move, propose
from tests.unit.controller.pure_cluster import PureCluster
from tests.unit.controller.test_features import quorum
from tests.unit.controller.test_lost_directories import beat

LEVELS = [each.level for each in METADATA_VERSIONS]
SERDE = MetadataRecordSerde()
FIRST, SECOND = b"f" * 16, b"s" * 16


class WrittenCluster(PureCluster):
    """A cluster whose records pass through the log, in the versions of its level."""

    def __init__(self, level: int, **settings: Any) -> None:
        self.versions: dict[str, set[int]] = {}
        super().__init__(metadata_version=level, **settings)

    def replay(self, *records: Any) -> None:
        """Encode the records at the level before them, and replay what is read back."""
        level = self.image.features.metadata_version
        read = [decode_record(SERDE.encode(record, level)) for record in records]
        for record, version in read:
            self.versions.setdefault(type(record).__name__, set()).add(version)
        super().replay(*(record for record, _ in read))


def scram(cluster: PureCluster, name: str) -> Any:
    upsertion = ScramCredentialUpsertion(
        name=name, mechanism=1, iterations=4096, salt=b"salt", salted_password=b"p" * 32
    )
    return cluster.apply(
        alter_user_scram_credentials(cluster.view, AlterUserScramCredentialsRequest(upsertions=[upsertion]))
    ).results[0]


def token(cluster: PureCluster) -> int:
    request, context = CreateDelegationTokenRequest(max_lifetime_ms=-1), ControllerRequestContext(3, "User:alice")
    decided = create_delegation_token(
        cluster.view, request, context, 1_000, lambda: f"id-{len(cluster.image.delegation_tokens.by_id)}"
    )
    return int(cluster.apply(decided).error_code)


def live(cluster: PureCluster, name: str) -> None:
    """Use everything that the controller writes about brokers and partitions: `name` is a new topic."""
    for broker_id in (1, 2, 3):
        if broker_id in cluster.image.cluster.brokers:
            cluster.fence(broker_id)
        directories = [FIRST[1:] + bytes([broker_id]), SECOND[1:] + bytes([broker_id])]
        cluster.register(broker_id, incarnation=1 + len(cluster.image.topics.by_id), log_dirs=directories)
        cluster.unfence(broker_id)
    cluster.topic(name, [1, 2], [2, 3], cleanup_policy="compact")
    assert propose(cluster, name, [1])[0] == ErrorCode.NONE
    assert propose(cluster, name, [1, 2])[0] == ErrorCode.NONE
    assert move(cluster, [3, 1], name=name)[0] == ErrorCode.NONE
    assert propose(cluster, name, [1, 2, 3])[0] == ErrorCode.NONE
    assert cluster.partition(name).replicas == (3, 1)
    cluster.replay(*at_once(leader_and_isr.broker_in_controlled_shutdown(cluster.view, 2, cluster.epoch(2))))
    cluster.fence(2)
    beat(cluster, 1, offline_log_dirs=[SECOND[1:] + b"\x01"], cordoned_log_dirs=[FIRST[1:] + b"\x01"])
    scram(cluster, name)
    token(cluster)


@pytest.mark.parametrize("level", LEVELS)
def test_every_record_of_a_level_is_read_back_and_rebuilds_the_image(level: int) -> None:
    cluster = WrittenCluster(level, delegation_token_secret_key="s")
    live(cluster, "a")
    has = metadata_version_of(level)
    assert cluster.versions["RegisterBrokerRecord"] == {has.register_broker_record_version}
    assert cluster.versions["PartitionRecord"] == {has.partition_record_version}
    assert cluster.versions["PartitionChangeRecord"] == {has.partition_record_version}
    assert cluster.versions["BrokerRegistrationChangeRecord"] == {
        0,
        1,
        *({2} if has.assigns_directories else ()),
        *({3} if has.serves_cordons else ()),
    }
    snapshot = [SERDE.decode(SERDE.encode(record, level)) for record in cluster.image.write()]
    assert MetadataImage().replay_batch(snapshot)[0] == cluster.image


def test_a_cluster_is_raised_through_all_levels_with_changes_at_each() -> None:
    cluster = WrittenCluster(LEVELS[0], delegation_token_secret_key="s")
    live(cluster, "at-7")
    for level in LEVELS[1:]:
        request = UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="metadata.version", max_version_level=level, upgrade_type=1)]
        )
        answer = cluster.apply(update_features(cluster.view, request, 2, quorum(1)))
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        live(cluster, f"at-{level}")
        snapshot = [SERDE.decode(SERDE.encode(record, level)) for record in cluster.image.write()]
        assert MetadataImage().replay_batch(snapshot)[0] == cluster.image
    assert len(cluster.image.topics.by_id) == len(LEVELS), "every step had its changes"
    assert cluster.partition("at-7").directories == (MIGRATING_DIRECTORY,) * 2
    assert MIGRATING_DIRECTORY not in cluster.partition("at-33").directories


@pytest.mark.parametrize("level", [10, 11])
def test_scram_credentials_are_refused_below_3_5_iv2(level: int) -> None:
    result = scram(WrittenCluster(level), "alice")
    expected = (
        (ErrorCode.NONE, None)
        if level == 11
        else (ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    )
    assert (result.error_code, result.error_message) == expected


@pytest.mark.parametrize(("level", "code"), [(13, ErrorCode.UNSUPPORTED_VERSION), (14, ErrorCode.NONE)])
def test_delegation_tokens_are_refused_below_3_6_iv2(level: int, code: int) -> None:
    assert token(WrittenCluster(level, delegation_token_secret_key="s")) == code
    assert token(WrittenCluster(level)) == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


@pytest.mark.parametrize("level", [14, 15])
def test_controllers_register_from_3_7_iv0_on(level: int) -> None:
    cluster = WrittenCluster(level)
    request = ControllerRegistrationRequest(controller_id=7)
    if level == 15:
        cluster.apply(cluster_control.register_controller(cluster.view, request))
        assert 7 in cluster.image.cluster.controllers
        return
    with pytest.raises(ApiError, match="too old to support controller registrations") as refused:
        cluster_control.register_controller(cluster.view, request)
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("level", [14, 15])
def test_unregistered_voters_count_from_3_7_iv0_on(level: int) -> None:
    cluster = WrittenCluster(level)
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="metadata.version", max_version_level=level + 1, upgrade_type=1)]
    )
    answer = update_features(cluster.view, request, 2, quorum(1, 2)).response
    assert ("controller 2 has not registered" in (answer.error_message or "")) is (level == 15)


@pytest.mark.parametrize("level", [16, 17])
def test_log_directories_are_registered_and_assigned_from_3_7_iv2_on(level: int) -> None:
    cluster = WrittenCluster(level)
    cluster.register(1, log_dirs=[FIRST])
    cluster.unfence(1)
    cluster.topic("t", [1])
    request = AssignReplicasToDirsRequest(broker_id=1, broker_epoch=cluster.epoch(1))
    if level == 17:
        assert cluster.image.cluster.brokers[1].directories == (FIRST,)
        assert cluster.partition("t").directories == (FIRST,)
        at_once(assign_replicas_to_dirs(cluster.view, request))
        with pytest.raises(ApiError, match="No directories specified in request"):
            cluster.register(2, log_dirs=[])
        return
    assert cluster.image.cluster.brokers[1].directories == ()
    assert cluster.partition("t").directories == (MIGRATING_DIRECTORY,)
    with pytest.raises(ApiError, match="Directory assignment is not supported yet"):
        at_once(assign_replicas_to_dirs(cluster.view, request))
    cluster.register(2, log_dirs=[])


@pytest.mark.parametrize(("level", "epoch"), [(11, 1), (12, 0)])
def test_the_leader_epoch_rises_when_the_isr_shrinks_below_3_6_iv0(level: int, epoch: int) -> None:
    cluster = WrittenCluster(level)
    for broker_id in (1, 2):
        cluster.register(broker_id)
        cluster.unfence(broker_id)
    cluster.topic("t", [1, 2])
    assert propose(cluster, "t", [1])[0] == ErrorCode.NONE
    assert cluster.partition("t").leader_epoch == epoch
    assert propose(cluster, "t", [1, 2])[0] == ErrorCode.NONE
    assert cluster.partition("t").leader_epoch == epoch


@pytest.mark.parametrize("level", [12, 13])
def test_an_empty_log_begins_with_a_transaction_from_3_6_iv1_on(level: int) -> None:
    bootstrap = [FeatureLevelRecord(name="metadata.version", feature_level=level)]
    empty = PureCluster()
    empty.image = MetadataImage()
    records = activation_records(empty.view, transaction_is_open=False, bootstrap=bootstrap)
    kinds = [type(record) for record in records]
    assert kinds == (
        [FeatureLevelRecord] if level == 12 else [BeginTransactionRecord, FeatureLevelRecord, EndTransactionRecord]
    )


@pytest.mark.parametrize("level", [22, 23])
def test_eligible_leader_replicas_are_refused_below_4_0_iv1(level: int) -> None:
    elr = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=1, upgrade_type=1)
    raised = FeatureUpdateKey(feature="metadata.version", max_version_level=23, upgrade_type=1)
    cluster = WrittenCluster(level)
    alone = update_features(cluster.view, UpdateFeaturesRequest(feature_updates=[elr]), 2, quorum(1)).response
    assert (alone.error_message or "").endswith("it depends on metadata.version level 23") is (level == 22)
    both = UpdateFeaturesRequest(feature_updates=[elr, raised])
    cluster.apply(update_features(cluster.view, both, 2, quorum(1)))
    assert cluster.image.features.elr_enabled
    assert cluster.image.features.metadata_version == 23


def test_a_snapshot_at_a_lower_level_leaves_out_what_the_level_does_not_know() -> None:
    cluster = WrittenCluster(33, delegation_token_secret_key="s")
    live(cluster, "t")
    cluster.apply(cluster_control.register_controller(cluster.view, ControllerRegistrationRequest(controller_id=7)))
    lost: list[str] = []
    lowest = metadata_version_of(7)
    records = list(cluster.image.write(WriterOptions(lowest, lost.append)))
    prefix = "Metadata has been lost because the following could not be represented in metadata.version 3.3-IV3: "
    assert [text.removeprefix(prefix) for text in dict.fromkeys(lost)] == [
        "the online log directories of one or more brokers",
        "the cordoned log directories of one or more brokers",
        "controller registration data",
        "the directory assignment state of one or more replicas",
        "the SCRAM credentials of t",
        "the delegation tokens id-0",
    ]
    left = MetadataImage().replay_batch([SERDE.decode(SERDE.encode(record, 7)) for record in records])[0]
    assert left.cluster.controllers == MetadataImage().cluster.controllers
    assert left.cluster.brokers[1].directories == ()
    assert left.topics.id_by_name == cluster.image.topics.id_by_name
    with pytest.raises(UnwritableMetadata, match="the online log directories"):
        list(cluster.image.write(WriterOptions(lowest)))
