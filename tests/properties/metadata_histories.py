"""Histories of metadata records that a controller could have written, drawn from a random source, for the laws of
the metadata image.

`draw_history` keeps just enough of a model (which topics, partitions, brokers ... exist) to write only records that
may follow each other.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kraft.metadata.records.access_control_entry_record import AccessControlEntryRecord
from kraft.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.metadata.records.clear_elr_record import ClearElrRecord
from kraft.metadata.records.client_quota_record import ClientQuotaRecord, EntityData
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.delegation_token_record import DelegationTokenRecord
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.metadata.records.fence_broker_record import FenceBrokerRecord
from kraft.metadata.records.no_op_record import NoOpRecord
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.metadata.records.partition_record import PartitionRecord
from kraft.metadata.records.producer_ids_record import ProducerIdsRecord
from kraft.metadata.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from kraft.metadata.records.register_controller_record import ControllerEndpoint, RegisterControllerRecord
from kraft.metadata.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kraft.metadata.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from kraft.metadata.records.remove_topic_record import RemoveTopicRecord
from kraft.metadata.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.metadata.records.unfence_broker_record import UnfenceBrokerRecord
from kraft.metadata.records.unregister_broker_record import UnregisterBrokerRecord
from kraft.metadata.records.unregister_controller_record import UnregisterControllerRecord
from kraft.metadata.records.user_scram_credential_record import UserScramCredentialRecord


class _Model:
    """What exists so far."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.topics: dict[bytes, tuple[str, int]] = {}
        self.brokers: dict[int, int] = {}
        self.controllers: set[int] = set()
        self.acls: list[bytes] = []
        self.scram: list[tuple[str, int]] = []
        self.tokens: list[str] = []
        self.producer_id = 0
        self.serial = 0

    def uuid(self) -> bytes:
        self.serial += 1
        return self.source.randrange(1 << 30).to_bytes(8, "big") + self.serial.to_bytes(8, "big")

    def some(self, pool: list[Any], most: int = 3) -> list[Any]:
        count = self.source.randint(0, min(most, len(pool)))
        return self.source.sample(pool, count)

    def partition(self) -> tuple[bytes, int] | None:
        held = [(topic_id, count) for topic_id, (_, count) in self.topics.items() if count]
        if not held:
            return None
        topic_id, count = self.source.choice(held)
        return topic_id, self.source.randrange(count)


def _topic(model: _Model) -> list[Any]:
    name = model.source.choice(["a.b", "a_b", "a-b", *(f"topic-{index}" for index in range(6))])
    if any(name == known for known, _ in model.topics.values()):
        return []
    topic_id = model.uuid()
    count = model.source.randint(1, 3)
    model.topics[topic_id] = (name, count)
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(_partition_record(model, topic_id, index) for index in range(count)),
    ]


def _partition_record(model: _Model, topic_id: bytes, index: int) -> PartitionRecord:
    replicas = model.source.sample([1, 2, 3, 4], model.source.randint(1, 3))
    return PartitionRecord(
        topic_id=topic_id,
        partition_id=index,
        replicas=replicas,
        isr=replicas[: model.source.randint(1, len(replicas))],
        leader=model.source.choice([-1, *replicas]),
        leader_epoch=model.source.randrange(5),
        partition_epoch=model.source.randrange(5),
        leader_recovery_state=model.source.randrange(2),
        directories=[model.source.choice([bytes(15) + b"\x01", bytes([replica]) * 16]) for replica in replicas]
        if model.source.random() < 0.8
        else [],
        adding_replicas=replicas[-1:] if model.source.random() < 0.2 else [],
        eligible_leader_replicas=model.source.choice([None, [], [4]]),
        last_known_elr=model.source.choice([None, [3]]),
    )


def _grow(model: _Model) -> list[Any]:
    if not model.topics:
        return []
    topic_id = model.source.choice(list(model.topics))
    name, count = model.topics[topic_id]
    model.topics[topic_id] = (name, count + 1)
    return [_partition_record(model, topic_id, count)]


def _change(model: _Model) -> list[Any]:
    where = model.partition()
    if where is None:
        return []
    source = model.source
    replicas = source.choice([None, source.sample([1, 2, 3, 4, 5], source.randint(1, 3))])
    return [
        PartitionChangeRecord(
            topic_id=where[0],
            partition_id=where[1],
            replicas=replicas,
            isr=source.choice([None, [], [1], [2, 1]]),
            leader=source.choice([-2, -1, 1, 2, 3]),
            leader_recovery_state=source.choice([-1, 0, 1]),
            removing_replicas=source.choice([None, [], [2]]),
            adding_replicas=source.choice([None, [], [3]]),
            directories=None
            if replicas is None or source.random() < 0.5
            else [bytes([replica]) * 16 for replica in replicas],
            eligible_leader_replicas=source.choice([None, [], [1]]),
            last_known_elr=source.choice([None, [], [1]]),
        )
    ]


def _remove_topic(model: _Model) -> list[Any]:
    if not model.topics:
        return []
    topic_id = model.source.choice(list(model.topics))
    del model.topics[topic_id]
    return [RemoveTopicRecord(topic_id=topic_id)]


def _clear_elr(model: _Model) -> list[Any]:
    names = [name for name, _ in model.topics.values()]
    return [ClearElrRecord(topic_name=model.source.choice(["", *names]))]


def _register_broker(model: _Model) -> list[Any]:
    broker_id = model.source.randint(1, 4)
    model.serial += 1
    model.brokers[broker_id] = model.serial
    return [
        RegisterBrokerRecord(
            broker_id=broker_id,
            broker_epoch=model.serial,
            incarnation_id=model.uuid(),
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092 + broker_id, security_protocol=0)],
            features=[
                BrokerFeature(name=name, min_supported_version=1, max_supported_version=9)
                for name in model.some(["z", "metadata.version", "a"])
            ],
            rack=model.source.choice([None, "", "r1"]),
            fenced=model.source.random() < 0.5,
            in_controlled_shutdown=model.source.random() < 0.2,
            log_dirs=[bytes([broker_id, number]) * 8 for number in model.some([1, 2, 3])],
            cordoned_log_dirs=model.source.choice([None, [], [bytes([broker_id, 1]) * 8]]),
        )
    ]


def _change_broker(model: _Model) -> list[Any]:
    if not model.brokers:
        return []
    broker_id = model.source.choice(list(model.brokers))
    epoch = model.brokers[broker_id]
    kind = model.source.randrange(4)
    if kind == 0:
        return [FenceBrokerRecord(id=broker_id, epoch=epoch)]
    if kind == 1:
        return [UnfenceBrokerRecord(id=broker_id, epoch=epoch)]
    if kind == 2:
        del model.brokers[broker_id]
        return [UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch)]
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker_id,
            broker_epoch=epoch,
            fenced=model.source.choice([-1, 0, 1]),
            in_controlled_shutdown=model.source.randrange(2),
            log_dirs=[bytes([broker_id, number]) * 8 for number in model.some([1, 2, 3])],
            cordoned_log_dirs=model.source.choice([None, [], [bytes([broker_id, 2]) * 8]]),
        )
    ]


def _register_controller(model: _Model) -> list[Any]:
    endpoints = [ControllerEndpoint(name="CONTROLLER", host="localhost", port=9093, security_protocol=0)]
    controller_id = model.source.randint(1, 3)
    model.controllers.add(controller_id)
    return [RegisterControllerRecord(controller_id=controller_id, incarnation_id=model.uuid(), end_points=endpoints)]


def _unregister_controller(model: _Model) -> list[Any]:
    if not model.controllers:
        return []
    controller_id = model.source.choice(sorted(model.controllers))
    model.controllers.remove(controller_id)
    return [UnregisterControllerRecord(controller_id=controller_id)]


def _config(model: _Model) -> list[Any]:
    kind, name = model.source.choice([(2, "topic-1"), (2, "topic-2"), (4, ""), (4, "1"), (16, "m"), (32, "g")])
    return [
        ConfigRecord(
            resource_type=kind,
            resource_name=name,
            name=model.source.choice(["a", "b", "c"]),
            value=model.source.choice([None, "", "1", "x,y"]),
        )
    ]


def _feature(model: _Model) -> list[Any]:
    name = model.source.choice(
        ["metadata.version", "kraft.version", "group.version", "eligible.leader.replicas.version"]
    )
    # Levels at which records may have every field of a history.
    level = model.source.randint(30, 33) if name == "metadata.version" else model.source.randint(0, 3)
    return [FeatureLevelRecord(name=name, feature_level=level)]


def _quota(model: _Model) -> list[Any]:
    kinds = model.source.choice([["user"], ["client-id"], ["user", "client-id"], ["ip"]])
    entity = [EntityData(entity_type=kind, entity_name=model.source.choice([None, "", "n"])) for kind in kinds]
    key, value = model.source.choice(["producer_byte_rate", "x"]), float(model.source.randrange(9))
    return [ClientQuotaRecord(entity=entity, key=key, value=value, remove=model.source.random() < 0.3)]


def _producer_ids(model: _Model) -> list[Any]:
    model.producer_id += 1000
    return [ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=model.producer_id)]


def _acl(model: _Model) -> list[Any]:
    if model.acls and model.source.random() < 0.4:
        return [RemoveAccessControlEntryRecord(id=model.acls.pop(model.source.randrange(len(model.acls))))]
    acl_id = model.uuid()
    model.acls.append(acl_id)
    operation = model.source.randint(2, 12)
    what = {"resource_type": 2, "resource_name": "t", "pattern_type": 3, "operation": operation, "permission_type": 3}
    return [AccessControlEntryRecord(id=acl_id, principal="User:a", host="*", **what)]


def _scram(model: _Model) -> list[Any]:
    if model.scram and model.source.random() < 0.4:
        name, mechanism = model.scram.pop(model.source.randrange(len(model.scram)))
        return [RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)]
    key = (model.source.choice(["alice", "bob"]), model.source.randint(1, 2))
    if key not in model.scram:
        model.scram.append(key)
    return [
        UserScramCredentialRecord(
            name=key[0],
            mechanism=key[1],
            salt=b"s",
            stored_key=b"k",
            server_key=b"v",
            iterations=model.source.randint(4096, 5000),
        )
    ]


def _token(model: _Model) -> list[Any]:
    if model.tokens and model.source.random() < 0.4:
        return [RemoveDelegationTokenRecord(token_id=model.tokens.pop(model.source.randrange(len(model.tokens))))]
    token_id = f"token-{model.source.randrange(5)}"
    if token_id not in model.tokens:
        model.tokens.append(token_id)
    times = {"issue_timestamp": 1, "max_timestamp": 9, "expiration_timestamp": 5}
    return [DelegationTokenRecord(token_id=token_id, owner="User:a", requester="User:b", renewers=["User:c"], **times)]


def _no_op(model: _Model) -> list[Any]:
    return [NoOpRecord()]


STEPS: list[Callable[[_Model], list[Any]]] = [
    *(
        _topic,
        _topic,
        _grow,
        _change,
        _change,
        _change,
        _remove_topic,
        _clear_elr,
        _register_broker,
        _register_broker,
        _change_broker,
        _change_broker,
    ),
    *(
        _register_controller,
        _unregister_controller,
        _config,
        _config,
        _feature,
        _quota,
        _producer_ids,
        _acl,
        _scram,
        _token,
        _no_op,
    ),
]


def draw_history(source: random.Random, steps: int) -> list[Any]:
    """Records of `steps` random steps, each of which may follow those before it."""
    model = _Model(source)
    records: list[Any] = []
    for _ in range(steps):
        records += source.choice(STEPS)(model)
    return records


def encoded(records: list[Any]) -> bytes:
    """All records as bytes, in order, at their newest version."""
    return b"".join(bytes([record.API_KEY]) + record.encode(record.VALID_VERSIONS[1]) for record in records)


def snapshot_digest(seed: int) -> str:
    """Digest of the snapshot of a long history: the same in every process."""
    import hashlib

    from kraft.metadata.image.metadata_image import MetadataImage

    image, _ = MetadataImage().replay_batch(draw_history(random.Random(seed), 400))
    return hashlib.sha256(encoded(list(image.write()))).hexdigest()
