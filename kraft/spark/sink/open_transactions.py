"""Looks up the open transactions of a sink's tasks at their coordinators, and ends them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.spark.client.wire import RETRY_SECONDS, WireCluster, WireConnection, WireError
from kraft.spark.sink.batch_sender import DELIVERY_SECONDS_MAX
from kraft.spark.sink.prepared_transactions import PreparedTransaction
from kraft.spark.sink.sink_transaction import COORDINATOR_OF_TRANSACTION, TWO_PHASE_VERSIONS, retried

ONGOING = "Ongoing"
BATCHED_LOOK_UPS = 4
"""The version of FindCoordinator that takes many keys (KIP-699)."""
IDS_PER_REQUEST = 500

Address = tuple[str, int]


def open_transactions(cluster: WireCluster, prefix: str) -> list[PreparedTransaction]:
    """The open transactions whose transactional ids begin with `prefix`. One whose coordinator moves meanwhile may be
    missing. Raises WireError, OSError."""
    return retried(lambda: listed(cluster, prefix))


def listed(cluster: WireCluster, prefix: str) -> list[PreparedTransaction]:
    cluster.view.learn_all(cluster.any_call(MetadataRequest(topics=[])))
    found: list[PreparedTransaction] = []
    for address in cluster.view.nodes.values():
        answer = cluster.call_at(address, ListTransactionsRequest(state_filters=[ONGOING]))
        check(answer.error_code, f"the transactions of {address[0]}:{address[1]}")
        ids = [each.transactional_id for each in answer.transaction_states if each.transactional_id.startswith(prefix)]
        for start in range(0, len(ids), IDS_PER_REQUEST):
            found += ongoing(cluster, address, ids[start : start + IDS_PER_REQUEST])
    return found


def still_open(cluster: WireCluster, wanted: Sequence[PreparedTransaction]) -> list[PreparedTransaction]:
    """Those of the transactions that are open, asked of each one's coordinator. Raises WireError, OSError."""

    def ask() -> list[PreparedTransaction]:
        found: list[PreparedTransaction] = []
        for address, group in by_coordinator(cluster, wanted).items():
            found += ongoing(cluster, address, [each.transactional_id for each in group], is_coordinator=True)
        return [each for each in found if each in wanted]

    return retried(ask)


def ongoing(
    cluster: WireCluster, address: Address, ids: list[str], *, is_coordinator: bool = False
) -> list[PreparedTransaction]:
    """Describe transactions, and return the open ones. With `is_coordinator` an error of one is raised; else an id that
    has moved or ended meanwhile is left out."""
    answer = cluster.call_at(address, DescribeTransactionsRequest(transactional_ids=ids))
    for each in answer.transaction_states:
        if is_coordinator and each.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            check(each.error_code, f"transactional id {each.transactional_id}")
    return [
        PreparedTransaction(each.transactional_id, each.producer_id, each.producer_epoch)
        for each in answer.transaction_states
        if not each.error_code and each.transaction_state == ONGOING
    ]


def end_all(
    cluster: WireCluster, transactions: Sequence[PreparedTransaction], *, is_commit: bool
) -> dict[PreparedTransaction, int]:
    """End the transactions. Returns the final error codes of those that could not be ended so. Ending one again has the
    same answer. Raises WireError, OSError when coordinators do not answer."""
    waiting, failed = list(transactions), dict[PreparedTransaction, int]()
    deadline = time.monotonic() + DELIVERY_SECONDS_MAX
    while waiting:
        problem: OSError | WireError | None = None
        for address, group in retried(lambda: by_coordinator(cluster, waiting)).items():
            try:
                codes = end_at(cluster, address, group, is_commit=is_commit)
            except OSError as broken:
                cluster.forget(address)
                problem = broken
                continue
            for each, code in codes.items():
                refusal = WireError(code, f"ending transactional id {each.transactional_id}")
                if code and refusal.is_retriable:
                    problem = refusal
                    continue
                waiting.remove(each)
                if code:
                    failed[each] = code
        if problem is not None:
            if time.monotonic() > deadline:
                raise problem
            time.sleep(RETRY_SECONDS)
    return failed


def end_at(
    cluster: WireCluster, address: Address, group: Iterable[PreparedTransaction], *, is_commit: bool
) -> dict[PreparedTransaction, int]:
    """Send one coordinator all its requests, then receive the error codes."""
    connection: WireConnection = cluster.connection(address)
    sent: dict[PreparedTransaction, int] = {}
    for each in group:
        request = EndTxnRequest(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            producer_epoch=each.epoch,
            committed=is_commit,
        )
        sent[each] = connection.send(request, TWO_PHASE_VERSIONS[request.API_KEY])
    return {each: int(connection.receive(number).error_code) for each, number in sent.items()}


def by_coordinator(
    cluster: WireCluster, transactions: Sequence[PreparedTransaction]
) -> dict[Address, list[PreparedTransaction]]:
    """Group the transactions by the address of their coordinator. Raises WireError, OSError."""
    found: dict[Address, list[PreparedTransaction]] = {}
    of_id = {each.transactional_id: each for each in transactions}
    ids = list(of_id)
    for start in range(0, len(ids), IDS_PER_REQUEST):
        request = FindCoordinatorRequest(
            key_type=COORDINATOR_OF_TRANSACTION, coordinator_keys=ids[start : start + IDS_PER_REQUEST]
        )
        for each in cluster.any_call(request, BATCHED_LOOK_UPS).coordinators:
            check(each.error_code, f"the coordinator of transactional id {each.key}")
            found.setdefault((each.host, each.port), []).append(of_id[each.key])
    return found


def check(code: int, what: str) -> None:
    if code:
        raise WireError(code, what)
