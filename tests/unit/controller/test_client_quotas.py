"""AlterClientQuotas at the controller: each entity is changed or refused for itself."""

from __future__ import annotations

from kraft.controller.client_quota_control import alter_client_quotas
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from tests.unit.controller.pure_cluster import PureCluster


def entry(user: str, value: float) -> EntryData:
    op = OpData(key="producer_byte_rate", value=value)
    return EntryData(entity=[EntityData(entity_type="user", entity_name=user)], ops=[op])


def test_of_an_entity_that_comes_twice_nothing_is_changed() -> None:
    cluster = PureCluster()
    entries = [entry("alice", 1000.0), entry("bob", 5.0), entry("alice", 2000.0), entry("alice", 3000.0)]
    answer = cluster.apply(alter_client_quotas(cluster.view, AlterClientQuotasRequest(entries=entries)))
    assert [(each.entity[0].entity_name, each.error_code) for each in answer.entries] == [
        ("alice", ErrorCode.INVALID_REQUEST),
        ("bob", ErrorCode.NONE),
    ]
    quotas = cluster.image.client_quotas.entities
    assert [dict(each.items()) for each in quotas.values()] == [{"producer_byte_rate": 5.0}]
