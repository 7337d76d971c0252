"""Registration of brokers and controllers, producer ids, placement."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.controller.brokers import cluster_control
from kraft.controller.controls.producer_ids_control import allocate_producer_ids
from kraft.controller.replication_control.replica_placer import StripedReplicaPlacer, UsableBroker
from kraft.metadata.image.cluster_image import Endpoint
from kraft.metadata.records.producer_ids_record import ProducerIdsRecord
from kraft.metadata.records.serde import encode_record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import controller_registration_request as controllers
from kraft.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kraft.protocol.messages.broker_registration_request import Feature
from tests.unit.controller.pure_cluster import PureCluster

CONTROLLER_3 = controllers.ControllerRegistrationRequest(
    controller_id=3,
    incarnation_id=b"i" * 16,
    listeners=[controllers.Listener(name="C", host="h", port=1, security_protocol=0)],
)


def test_a_new_broker_starts_fenced_with_the_next_offset_as_broker_epoch() -> None:
    cluster = PureCluster()
    epoch = cluster.register(5, rack="r1")
    broker = cluster.image.cluster.brokers[5]
    assert (broker.epoch, broker.fenced, broker.in_controlled_shutdown, broker.rack) == (epoch, True, False, "r1")
    assert broker.endpoints == (Endpoint("PLAINTEXT", "host5", 9005, 0),)
    assert broker.directories == (b"\x05" * 16,)
    assert str(broker.features["kraft.version"]) == "0-1"


def test_the_same_incarnation_keeps_its_epoch_and_state_even_during_its_session() -> None:
    cluster = PureCluster(5)
    before = cluster.image.cluster.brokers[5]
    assert cluster.register(5, session=True, rack="moved") == before.epoch
    after = cluster.image.cluster.brokers[5]
    assert (after.fenced, after.rack) == (False, "moved")


def test_a_new_incarnation_is_fenced_and_leads_nothing() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    assert cluster.register(1, incarnation=2) > cluster.epoch(2)
    assert cluster.image.cluster.brokers[1].fenced
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        (
            {"cluster_id": "other"},
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            "Expected cluster ID MkU3OEVBNTcwNTJENDM2Qk, but got cluster ID other",
        ),
        (
            {"is_migrating_zk_broker": True},
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "Controller does not support registering ZK brokers.",
        ),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION, "No directories specified in request"),
        ({"log_dirs": [bytes(15) + b"\x02"]}, ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request"),
        ({"log_dirs": [b"x" * 16, b"x" * 16]}, ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request"),
        (
            {"log_dirs": [b"\x01" * 16]},
            ErrorCode.INVALID_REGISTRATION,
            "Broker 1 is already registered with directory AQEBAQEBAQEBAQEBAQEBAQ",
        ),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'"),
        (
            {"features": [Feature(name="metadata.version", min_supported_version=7, max_supported_version=29)]},
            ErrorCode.UNSUPPORTED_VERSION,
            "Unable to register because the broker does not support finalized version 30 of metadata.version. "
            "The broker wants a version between 7 and 29, inclusive.",
        ),
        (
            {"features": [Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)]},
            ErrorCode.UNSUPPORTED_VERSION,
            "Unable to register because the broker does not support finalized version 1 of kraft.version. "
            "The broker wants a version between 0 and 0, inclusive.",
        ),
    ],
)
def test_invalid_broker_registrations_are_refused(fields: dict[str, Any], code: int, message: str) -> None:
    cluster = PureCluster(1)
    with pytest.raises(ApiError) as refused:
        cluster.register(2, **fields)
    assert (refused.value.code, refused.value.message) == (code, message)


def test_a_controller_registration_is_written() -> None:
    cluster = PureCluster()
    cluster.apply(cluster_control.register_controller(cluster.view, CONTROLLER_3))
    assert cluster.image.cluster.controllers[3].endpoints == (Endpoint("C", "h", 1, 0),)


def test_a_controller_is_unregistered_and_may_register_again() -> None:
    cluster = PureCluster(metadata_version=33)
    cluster.apply(cluster_control.register_controller(cluster.view, CONTROLLER_3))
    result = cluster_control.unregister_controller(cluster.view, 3)
    assert encode_record(result.records[0], 0) == bytes((1, 29, 0, 0, 0, 0, 3, 0)), "frame 1, record 29, version 0"
    cluster.apply(result)
    assert 3 not in cluster.image.cluster.controllers
    cluster.apply(cluster_control.register_controller(cluster.view, CONTROLLER_3))
    assert 3 in cluster.image.cluster.controllers


@pytest.mark.parametrize(
    ("controller_id", "metadata_version", "code", "message"),
    [
        (1, 33, ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."),
        (1, 32, ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."),
        (
            3,
            32,
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration.",
        ),
        (9, 33, ErrorCode.CONTROLLER_ID_NOT_REGISTERED, "Controller ID 9 is not currently registered."),
    ],
)
def test_invalid_unregistrations_of_controllers_are_refused(
    controller_id: int, metadata_version: int, code: int, message: str
) -> None:
    cluster = PureCluster(metadata_version=metadata_version)
    cluster.apply(cluster_control.register_controller(cluster.view, CONTROLLER_3))
    with pytest.raises(ApiError) as refused:
        cluster_control.unregister_controller(cluster.view, controller_id)
    assert (refused.value.code, refused.value.message) == (code, message)


def test_producer_ids_are_allocated_in_blocks_of_a_thousand() -> None:
    cluster = PureCluster(1)
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=cluster.epoch(1))
    blocks = [cluster.apply(allocate_producer_ids(cluster.view, request)) for _ in range(3)]
    assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [
        (0, 1000),
        (1000, 1000),
        (2000, 1000),
    ]
    with pytest.raises(ApiError) as stale:
        allocate_producer_ids(cluster.view, AllocateProducerIdsRequest(broker_id=1, broker_epoch=0))
    assert stale.value.code == ErrorCode.STALE_BROKER_EPOCH
    last_block = (1 << 63) - 1001
    cluster.replay(ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=last_block))
    assert cluster.apply(allocate_producer_ids(cluster.view, request)).producer_id_start == last_block
    with pytest.raises(ApiError) as exhausted:
        allocate_producer_ids(cluster.view, request)
    assert exhausted.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


def usable(*specs: tuple[int, str | None, bool]) -> list[UsableBroker]:
    return [UsableBroker(*spec) for spec in specs]


@pytest.mark.parametrize("seed", range(20))
def test_replicas_are_striped_over_racks_and_brokers(seed: int) -> None:
    brokers = usable(
        (1, "a", False), (2, "a", False), (3, "b", False), (4, "b", False), (5, "c", False), (6, "c", False)
    )
    placed = list(StripedReplicaPlacer(random.Random(seed)).place(60, 3, brokers))
    rack = {broker.id: broker.rack for broker in brokers}
    for replicas in placed:
        assert len(set(replicas)) == 3
        assert len({rack[broker] for broker in replicas}) == 3
    leaders = [replicas[0] for replicas in placed]
    assert all(leaders.count(broker.id) == 10 for broker in brokers)
    assert all(sum(broker.id in replicas for replicas in placed) == 30 for broker in brokers)


@pytest.mark.parametrize("seed", range(20))
def test_fenced_brokers_are_placed_last_and_never_lead(seed: int) -> None:
    brokers = usable((1, None, False), (2, None, True), (3, None, False))
    for replicas in StripedReplicaPlacer(random.Random(seed)).place(20, 3, brokers):
        assert replicas[2] == 2
    for replicas in StripedReplicaPlacer(random.Random(seed)).place(20, 2, brokers):
        assert 2 not in replicas


@pytest.mark.parametrize("seed", range(5))
def test_a_rack_with_only_fenced_brokers_gets_only_followers(seed: int) -> None:
    brokers = usable((1, "a", False), (2, "b", True))
    assert set(StripedReplicaPlacer(random.Random(seed)).place(5, 2, brokers)) == {(1, 2)}
