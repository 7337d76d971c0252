"""Whether a query is refused before it runs, by what nodes say of its rights."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.security.acls import Operation
from kraft.spark.client.wire import WireCluster
from kraft.spark.client.wire_security import WireSecurity
from kraft.spark.errors import SourceError
from kraft.spark.source.permissions import NOT_TOLD, require_right
from kraft.world.ports import Login
from tests.unit.spark.fake_cluster import FakeCluster

ALICE = WireSecurity(login=Login(mechanism="PLAIN", username="alice", password="p-secret"))


class GuardedCluster(FakeCluster):
    """`operations` are told of every topic that is there; `code` of all."""

    operations = NOT_TOLD
    code = 0

    def on_metadata(self, request: Any) -> Any:
        answer = super().on_metadata(request)
        for each in answer.topics:
            each.topic_authorized_operations = self.operations
            each.error_code = self.code or each.error_code
        return answer


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> GuardedCluster:
    monkeypatch.setattr("kraft.spark.client.wire.WireConnection.log_in", lambda *_: float("inf"))
    return GuardedCluster(monkeypatch, t=1)


def refusal(operation: int) -> str:
    with pytest.raises(SourceError) as problem:
        require_right("h:1", ALICE, ("t",), operation)
    return str(pickle.loads(pickle.dumps(problem.value)))


def test_a_granted_or_unknown_permission_refuses_nothing(guarded: GuardedCluster) -> None:
    require_right("h:1", ALICE, ("t",), Operation.READ)
    guarded.operations = 1 << Operation.READ
    require_right("h:1", ALICE, ("t", "not-there"), Operation.READ)


def test_a_missing_permission_is_named_with_topic_user_and_remedy(guarded: GuardedCluster) -> None:
    guarded.operations = 1 << Operation.DESCRIBE
    told = refusal(Operation.WRITE)
    assert told.startswith("[KAFKA_NOT_AUTHORIZED] User:alice lacks the permission Write on topic t")
    assert told.endswith("kraft acls add --allow-principal 'User:alice' --operation write --topic t")
    assert "secret" not in told


def test_a_hidden_topic_counts_as_one_without_read_permission(guarded: GuardedCluster) -> None:
    guarded.code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "User:alice lacks the permission Read on topic t" in refusal(Operation.READ)


def test_unreachable_nodes_leave_the_permission_check_to_the_next_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreachable(*_: Any) -> Any:
        raise ConnectionError("nobody is there")

    monkeypatch.setattr(WireCluster, "any_call", unreachable)
    require_right("h:1", ALICE, ("t",), Operation.READ)
    assert "permissions on t are unknown: nobody is there" in caplog.text
