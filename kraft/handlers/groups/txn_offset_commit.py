"""TxnOffsetCommit (KIP-447, KIP-1319)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.coordinator.group.offsets.txn_offset_commit import TxnOffsetCommitAnswers
from kraft.handlers.groups.offset_commit import ON_TOPICS
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import OnGroup, OnTransaction
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kraft.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from kraft.security.acls import Operation
from kraft.world.steps import Steps

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices


VERSIONS = between(0, 6)
API = Handler(ApiKey.TXN_OFFSET_COMMIT, VERSIONS, permission=OnTransaction(OnGroup(Operation.READ, ON_TOPICS)))


@API.serve
async def txn_offset_commit(
    request: TxnOffsetCommitRequest, context: RequestContext, broker: BrokerServices
) -> TxnOffsetCommitResponse:
    return await broker.groups.txn_offset_commit(request, context)


@API.error
def _txn_offset_commit_failed(
    request: TxnOffsetCommitRequest, code: int, message: str | None
) -> Steps[TxnOffsetCommitResponse]:
    return TxnOffsetCommitAnswers(request).response(VERSIONS[1], code)
