"""How single records change an image, and which records it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.metadata.image import metadata_image
from kraft.metadata.image.configs_image import ConfigResource
from kraft.metadata.image.metadata_image import MetadataDraft, MetadataImage
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.image.partition_registration import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    PartitionRegistration,
    directory_is_online,
    directory_is_reserved,
)
from kraft.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.metadata.records.fence_broker_record import FenceBrokerRecord
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.metadata.records.partition_record import PartitionRecord
from kraft.metadata.records.producer_ids_record import ProducerIdsRecord
from kraft.metadata.records.register_broker_record import RegisterBrokerRecord
from kraft.metadata.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kraft.metadata.records.remove_topic_record import RemoveTopicRecord
from kraft.metadata.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kraft.metadata.records.table import RECORDS
from kraft.metadata.records.topic_record import TopicRecord
from kraft.metadata.records.unregister_broker_record import UnregisterBrokerRecord

D1, D2, D3 = (bytes([number]) * 16 for number in (1, 2, 3))
BASE = PartitionRegistration((1, 2), (D1, D2), (1, 2), (), (), 1, 0, 5, 7)
ID = b"t" * 16


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {}),
        ({"leader": 2}, {"leader": 2, "leader_epoch": 6}),
        ({"leader": 1}, {"leader_epoch": 6}),
        ({"leader": -1}, {"leader": -1, "leader_epoch": 6}),
        ({"leader": -2, "isr": [1]}, {"isr": (1,)}),
        ({"isr": []}, {"isr": ()}),
        ({"leader_recovery_state": 1}, {"leader_recovery_state": 1}),
        ({"removing_replicas": [2], "adding_replicas": [3]}, {"removing_replicas": (2,), "adding_replicas": (3,)}),
        ({"replicas": [2, 3, 1]}, {"replicas": (2, 3, 1), "directories": (D2, UNASSIGNED_DIRECTORY, D1)}),
        ({"replicas": [3], "directories": [D3]}, {"replicas": (3,), "directories": (D3,)}),
        ({"directories": [D3, D2]}, {"directories": (D3, D2)}),
        ({"directories": []}, {"directories": (MIGRATING_DIRECTORY, MIGRATING_DIRECTORY)}),
        ({"eligible_leader_replicas": [2], "last_known_elr": [1]}, {"elr": (2,), "last_known_elr": (1,)}),
    ],
)
def test_each_change_raises_the_partition_epoch_and_a_leader_tag_also_the_leader_epoch(
    change: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert BASE.merge(PartitionChangeRecord(**change)) == BASE._replace(partition_epoch=8, **expected)


def test_a_change_must_name_a_directory_for_each_replica() -> None:
    with pytest.raises(ValueError, match="2 replicas but 1 directories"):
        BASE.merge(PartitionChangeRecord(directories=[D1]))


def test_records_of_old_versions_have_no_directories() -> None:
    image, _ = MetadataImage().replay_batch(
        [TopicRecord(name="t", topic_id=ID), PartitionRecord(topic_id=ID, partition_id=0, replicas=[1, 2], isr=[1])]
    )
    assert image.topics.by_id[ID].partitions[0].directories == (MIGRATING_DIRECTORY, MIGRATING_DIRECTORY)


def test_equal_replica_lists_are_one_object() -> None:
    records = [
        PartitionRecord(topic_id=ID, partition_id=index, replicas=[1, 2], isr=[1, 2], directories=[D1, D2])
        for index in range(3)
    ]
    image, _ = MetadataImage().replay_batch([TopicRecord(name="t", topic_id=ID), *records])
    partitions = list(image.topics.by_id[ID].partitions.values())
    assert (
        len({id(partition.replicas) for partition in partitions} | {id(partition.isr) for partition in partitions}) == 1
    )
    assert len({id(partition.directories) for partition in partitions}) == 1


def test_reserved_and_online_directory_ids_are_recognized() -> None:
    assert directory_is_reserved(MIGRATING_DIRECTORY)
    assert directory_is_reserved(bytes(15) + bytes([99]))
    assert not directory_is_reserved(bytes(15) + bytes([100]))
    assert not directory_is_reserved(D1)
    assert directory_is_online(UNASSIGNED_DIRECTORY, (D1,))
    assert not directory_is_online(LOST_DIRECTORY, ())
    assert directory_is_online(D1, (D1,))
    assert not directory_is_online(D2, (D1,))
    assert directory_is_online(D2, ()), "a broker that never told its directories"


BROKER = RegisterBrokerRecord(broker_id=1, broker_epoch=5, fenced=True, log_dirs=[D2, D1])


def test_a_broker_is_registered_changed_and_unregistered() -> None:
    image, changes = MetadataImage().replay_batch([BROKER])
    assert changes.brokers == {1: None}
    assert image.cluster.brokers[1].directories == (D1, D2)
    change = BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=5, fenced=-1, in_controlled_shutdown=1, log_dirs=[D1], cordoned_log_dirs=[]
    )
    after, changes = image.replay_batch([change])
    broker = after.cluster.brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown, broker.directories, broker.cordoned_directories) == (
        False,
        True,
        (D1,),
        (),
    )
    assert changes.brokers == {1: image.cluster.brokers[1]}
    unchanged, _ = after.replay_batch([BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5)])
    assert unchanged == after
    gone, _ = after.replay_batch([UnregisterBrokerRecord(broker_id=1, broker_epoch=5)])
    assert not gone.cluster.brokers


def test_a_deleted_topic_loses_its_configuration() -> None:
    records = [
        TopicRecord(name="t", topic_id=ID),
        ConfigRecord(resource_type=2, resource_name="t", name="a", value="1"),
    ]
    image, _ = MetadataImage().replay_batch(records)
    after, changes = image.replay_batch([RemoveTopicRecord(topic_id=ID)])
    assert not after.configs.resources
    assert changes.configs == {ConfigResource(2, "t"): OrderedMap({"a": "1"})}
    assert changes.topics.deleted[ID].name == "t"


def test_a_topic_created_and_deleted_in_one_batch_leaves_no_trace() -> None:
    records = [
        TopicRecord(name="t", topic_id=ID),
        PartitionRecord(topic_id=ID, partition_id=0, replicas=[1], isr=[1]),
        RemoveTopicRecord(topic_id=ID),
    ]
    image, changes = MetadataImage().replay_batch(records)
    assert image == MetadataImage()
    assert not changes


def test_metadata_version_is_first_in_a_snapshot_and_kraft_version_is_never_in_it() -> None:
    levels = [
        FeatureLevelRecord(name=name, feature_level=1)
        for name in ("a.version", "kraft.version", "metadata.version", "z.version")
    ]
    image, _ = MetadataImage().replay_batch(levels)
    assert [record.name for record in image.write()] == ["metadata.version", "a.version", "z.version"]
    after, _ = image.replay_batch([FeatureLevelRecord(name="a.version", feature_level=0)])
    assert list(after.features.levels) == ["metadata.version", "z.version"]


@pytest.mark.parametrize(
    "records",
    [
        [TopicRecord(name="t", topic_id=ID), TopicRecord(name="t", topic_id=b"u" * 16)],
        [PartitionRecord(topic_id=ID, partition_id=0)],
        [RemoveTopicRecord(topic_id=ID)],
        [TopicRecord(name="t", topic_id=ID), PartitionChangeRecord(topic_id=ID, partition_id=0)],
        [FenceBrokerRecord(id=1, epoch=5)],
        [BROKER, FenceBrokerRecord(id=1, epoch=4)],
        [BROKER, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=3)],
        [BROKER, UnregisterBrokerRecord(broker_id=1, broker_epoch=6)],
        [ProducerIdsRecord(next_producer_id=1000), ProducerIdsRecord(next_producer_id=1000)],
        [RemoveAccessControlEntryRecord(id=ID)],
        [RemoveUserScramCredentialRecord(name="a", mechanism=1)],
    ],
)
def test_records_that_contradict_the_image_are_rejected(records: list[Any]) -> None:
    with pytest.raises(ValueError):
        MetadataImage().replay_batch(records)


def test_an_unknown_record_is_rejected() -> None:
    class Unknown:
        API_KEY = 99

    with pytest.raises(ValueError, match="id 99 is unknown"):
        MetadataImage().replay_batch([Unknown()])


def test_an_ordered_map_iterates_in_key_order_and_is_immutable() -> None:
    table = OrderedMap({3: "c", 1: "a", 2: "b"})
    assert list(table) == [1, 2, 3]
    assert list(table.items()) == [(1, "a"), (2, "b"), (3, "c")]
    assert list(table.values()) == ["a", "b", "c"]
    bigger = table.set(0, "z").without(3).without(9)
    assert list(bigger) == [0, 1, 2]
    assert list(table) == [1, 2, 3]
    assert table == OrderedMap([(1, "a"), (2, "b"), (3, "c")])
    assert hash(table) == hash(OrderedMap({1: "a", 2: "b", 3: "c"}))
    assert (table.get(9), table.get(9, "-"), 1 in table, len(table), bool(OrderedMap())) == (None, "-", True, 3, False)
    assert repr(table) == "OrderedMap({1: 'a', 2: 'b', 3: 'c'})"


def test_every_record_of_the_generated_table_is_replayed_or_known_to_change_nothing() -> None:
    """And no name stands there that no record has."""
    named = {name for _, name in RECORDS.values()}
    replayed = {*metadata_image._REPLAY, RemoveTopicRecord.__name__}
    assert replayed | metadata_image._WITHOUT_EFFECT == named
    assert not replayed & metadata_image._WITHOUT_EFFECT
    draft = MetadataDraft(MetadataImage())
    for record_id in RECORDS:
        assert callable(draft.handler(record_id))
    with pytest.raises(ValueError, match="record id 6 is unknown"):
        draft.handler(6)
