"""InitProducerId of two-phase commit (KIP-939): its versions, and its permission."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from kraft.common.errors import ApiError
from kraft.coordinator.transaction.transaction_coordinator import Initialized
from kraft.handlers.all_handlers import broker_registry
from kraft.handlers.transactions.init_producer_id import TWO_PHASE
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.security.acls import Operation, ResourceKind

ID = "orders"


class Coordinator:
    """Records the requests, and answers as for a kept transaction."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    async def init_two_phase(
        self, transactional_id: str, timeout_ms: int, claim: Any, *, has_timeout: bool, keep: bool
    ) -> Initialized:
        self.asked.append((transactional_id, timeout_ms, claim, has_timeout, keep))
        return Initialized((7, 6), (7, 5))


class Access:
    """Allows some operations on the transactional id."""

    def __init__(self, *allowed: int) -> None:
        self.allowed = allowed

    def allows(self, operation: int, kind: int, name: str) -> bool:
        assert (kind, name) == (ResourceKind.TRANSACTIONAL_ID, ID)
        return operation in self.allowed


def serve(request: InitProducerIdRequest, access: Access) -> tuple[InitProducerIdResponse, Coordinator]:
    coordinator = Coordinator()
    context, broker = SimpleNamespace(api_version=6), SimpleNamespace(transactions=coordinator)

    async def ask() -> InitProducerIdResponse:
        answer: InitProducerIdResponse = await TWO_PHASE.permission.serve(
            request,
            context,  # type: ignore[arg-type]
            broker,
            access,  # type: ignore[arg-type]
            TWO_PHASE,
        )
        return answer

    return trio.run(ask), coordinator


def two_phase(*, enable: bool, keep: bool) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=ID, transaction_timeout_ms=1_000, enable2_pc=enable, keep_prepared_txn=keep
    )


@pytest.mark.parametrize(("is_enabled", "highest"), [(False, 5), (True, 6)])
def test_version_6_is_served_only_with_two_phase_commit(is_enabled: bool, highest: int) -> None:
    registry = broker_registry(serves_two_phase=is_enabled)
    [version] = [each for each in registry.api_versions if each.api_key == ApiKey.INIT_PRODUCER_ID]
    assert (version.min_version, version.max_version) == (0, highest)


def test_the_response_names_both_producers_of_a_kept_transaction() -> None:
    answer, coordinator = serve(two_phase(enable=True, keep=True), Access(Operation.WRITE, Operation.TWO_PHASE_COMMIT))
    assert coordinator.asked == [(ID, 1_000, None, False, True)]
    assert (answer.producer_id, answer.producer_epoch) == (7, 6)
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (7, 5)


def test_two_phase_commit_needs_its_own_permission_besides_write() -> None:
    for allowed in ((Operation.WRITE,), (Operation.TWO_PHASE_COMMIT,)):
        with pytest.raises(ApiError) as refused:
            serve(two_phase(enable=True, keep=False), Access(*allowed))
        assert refused.value.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    serve(two_phase(enable=False, keep=True), Access(Operation.WRITE))
