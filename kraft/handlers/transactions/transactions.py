"""The transaction APIs that the coordinator serves (KIP-98, KIP-664, KIP-890), except InitProducerId."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.common.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from kraft.coordinator.transaction.ending import End
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.authorized_operations import access_of
from kraft.handlers.security.permissions import (
    ASKS_INSIDE,
    OnEach,
    OnGroup,
    OnTransaction,
    check_cluster,
    check_transactional_id,
)
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kraft.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from kraft.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kraft.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.describe_transactions_response import DescribeTransactionsResponse, TransactionState
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.end_txn_response import EndTxnResponse
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse
from kraft.security.acls import Operation, ResourceKind
from kraft.world.steps import Steps
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.security.authorizer import Access

KNOWS_FENCED = 2
"""From this version on clients of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn know PRODUCER_FENCED (KIP-588)."""
BATCHED = 4
"""From this version on brokers send AddPartitionsToTxn, with many transactions in one request."""
ENDS_WITH_NEW_EPOCH = 5
"""From this version on clients of EndTxn use the new epoch in its response: transaction.version 2."""
NEW_EPOCHS = 2
"""The transaction.version from which on each transaction has a new producer epoch (KIP-890)."""

ADD_PARTITIONS = Handler(ApiKey.ADD_PARTITIONS_TO_TXN, between(0, 5), permission=ASKS_INSIDE)
ADD_OFFSETS = Handler(ApiKey.ADD_OFFSETS_TO_TXN, between(0, 4), permission=OnTransaction(OnGroup(Operation.READ)))
END_TXN = Handler(ApiKey.END_TXN, between(0, 5), permission=OnTransaction())
DESCRIBE = Handler(
    ApiKey.DESCRIBE_TRANSACTIONS,
    between(0, 0),
    permission=OnEach(
        "transactional_ids",
        "transaction_states",
        lambda transactional_id, *_: (Operation.DESCRIBE, ResourceKind.TRANSACTIONAL_ID, transactional_id),
    ),
)
LIST = Handler(ApiKey.LIST_TRANSACTIONS, between(0, 2), permission=ASKS_INSIDE)


def for_older(refused: ApiError, is_older: bool) -> ApiError:
    """Replace PRODUCER_FENCED by INVALID_PRODUCER_EPOCH for clients that do not know the former."""
    if is_older and refused.code == ErrorCode.PRODUCER_FENCED:
        return ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, refused.message)
    return refused


# AddPartitionsToTxn.


@ADD_PARTITIONS.serve
async def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: RequestContext, broker: BrokerServices
) -> AddPartitionsToTxnResponse:
    """Add partitions to transactions. Each transaction is accepted or rejected as a whole. Brokers need ClusterAction;
    a client needs Write on its transactional id and on each topic."""
    access = access_of(context, broker)
    if context.api_version >= BATCHED:
        if access is not None:
            check_cluster(Operation.CLUSTER_ACTION, context, access)
        return await add_partitions(request, broker)
    transaction = _single(request)
    if access is not None:
        check_transactional_id(Operation.WRITE, transaction.transactional_id, access)
    refused = await _refused_topics(transaction.topics, access)
    codes = await _add(
        transaction,
        broker,
        version=0,
        is_older=context.api_version < KNOWS_FENCED,
        patience_s=patience_of(broker),
        refused_topics=refused,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(request.v3_and_below_topics, codes))


async def add_partitions(request: AddPartitionsToTxnRequest, broker: BrokerServices) -> AddPartitionsToTxnResponse:
    """Serve a request of another broker (version 4 and later), on behalf of producers of transaction.version 2. It does
    not wait for the markers of an earlier transaction, since their append would end the broker's verifications.
    It returns CONCURRENT_TRANSACTIONS, and the broker asks again."""
    response = AddPartitionsToTxnResponse()
    turn = Turn()
    for transaction in request.transactions:
        if turn.is_over():
            await turn.next()
        codes = await _add(transaction, broker, version=NEW_EPOCHS, is_older=False, patience_s=0.0)
        response.results_by_transaction.append(
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=_topic_results(transaction.topics, codes)
            )
        )
    return response


def patience_of(broker: BrokerServices) -> float:
    """The longest time in seconds for which a producer's request waits for the markers of its previous transaction,
    before it gets a retriable error."""
    config = broker.config
    return min(config.seconds("add.partitions.to.txn.retry.backoff.max.ms"), config.seconds("request.timeout.ms"))


def _single(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    """The one transaction of a client's request."""
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


async def _refused_topics(topics: Iterable[AddPartitionsToTxnTopic], access: Access | None) -> frozenset[str]:
    """The topics that the client may not write to, including every internal topic."""
    refused = set()
    turn = Turn()
    for topic in topics:
        if turn.is_over():
            await turn.next()
        if topic.name in INTERNAL_TOPICS or (
            access is not None and not access.allows(Operation.WRITE, ResourceKind.TOPIC, topic.name)
        ):
            refused.add(topic.name)
    return frozenset(refused)


async def _add(
    transaction: AddPartitionsToTxnTransaction,
    broker: BrokerServices,
    *,
    version: int,
    is_older: bool,
    patience_s: float,
    refused_topics: Set[str] = frozenset(),
) -> dict[TopicPartition, int]:
    """Add the partitions to the transaction, and return the error code of each."""
    partitions = _partitions(transaction.topics)
    wrong = {}
    for place in partitions:
        if place.topic in refused_topics:
            wrong[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif broker.metadata.leader_of(*place) is None:
            wrong[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if wrong:
        return {place: wrong.get(place, ErrorCode.OPERATION_NOT_ATTEMPTED) for place in partitions}
    producer = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    try:
        if transaction.verify_only:
            missing = broker.transactions.missing_partitions(*producer, partitions)
            return {
                place: ErrorCode.TRANSACTION_ABORTABLE if place in missing else ErrorCode.NONE for place in partitions
            }
        await broker.transactions.add_partitions(*producer, partitions, version, patience_s)
    except ApiError as refused:
        return dict.fromkeys(partitions, for_older(refused, is_older).code)
    return dict.fromkeys(partitions, ErrorCode.NONE)


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    """The partitions in the order of the request, without duplicates."""
    return list(dict.fromkeys(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions))


def _topic_results(
    topics: Iterable[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, int]
) -> list[AddPartitionsToTxnTopicResult]:
    """The results by topic, in the order of the request."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


@ADD_PARTITIONS.error
def _add_partitions_failed(
    request: AddPartitionsToTxnRequest, code: int, message: str | None
) -> Steps[AddPartitionsToTxnResponse]:
    response = AddPartitionsToTxnResponse(error_code=code)
    topics = request.v3_and_below_topics
    response.results_by_topic_v3_and_below = _topic_results(topics, dict.fromkeys(_partitions(topics), code))
    yield None
    return response


# AddOffsetsToTxn, EndTxn.


@ADD_OFFSETS.serve
async def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, context: RequestContext, broker: BrokerServices
) -> AddOffsetsToTxnResponse:
    """Add the group's partition of `__consumer_offsets` to the transaction. Raises ApiError."""
    place = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_for(request.group_id))
    try:
        await broker.transactions.add_partitions(
            request.transactional_id, request.producer_id, request.producer_epoch, [place], 0, patience_of(broker)
        )
    except ApiError as refused:
        raise for_older(refused, context.api_version < KNOWS_FENCED) from refused
    return AddOffsetsToTxnResponse()


@END_TXN.serve
async def end_txn(request: EndTxnRequest, context: RequestContext, broker: BrokerServices) -> EndTxnResponse:
    """Commit or abort the transaction. Raises ApiError."""
    version = NEW_EPOCHS if context.api_version >= ENDS_WITH_NEW_EPOCH else 0
    end = End(request.transactional_id, request.producer_id, request.producer_epoch, request.committed, version)
    try:
        producer_id, producer_epoch = await broker.transactions.end_transaction(end)
    except ApiError as refused:
        raise for_older(refused, context.api_version < KNOWS_FENCED) from refused
    return EndTxnResponse(producer_id=producer_id, producer_epoch=producer_epoch)


# Administration.


@DESCRIBE.serve
async def describe_transactions(
    request: DescribeTransactionsRequest, context: RequestContext, broker: BrokerServices
) -> DescribeTransactionsResponse:
    """Describe each transactional id once, even if the request repeats it. Partitions of deleted topics are left out,
    and topics that the caller may not describe."""
    access = access_of(context, broker)
    response = DescribeTransactionsResponse()
    turn = Turn()
    for transactional_id in dict.fromkeys(request.transactional_ids):
        if turn.is_over():
            await turn.next()
        state = broker.transactions.describe(transactional_id)
        if access is not None:
            state.topics = [
                each for each in state.topics if access.may(Operation.DESCRIBE, ResourceKind.TOPIC, each.topic)
            ]
        response.transaction_states.append(state)
    return response


@DESCRIBE.error
def _describe_failed(
    request: DescribeTransactionsRequest, code: int, message: str | None
) -> Steps[DescribeTransactionsResponse]:
    response = DescribeTransactionsResponse()
    for transactional_id in dict.fromkeys(request.transactional_ids):
        response.transaction_states.append(TransactionState(transactional_id=transactional_id, error_code=code))
        yield None
    return response


@LIST.serve
async def list_transactions(
    request: ListTransactionsRequest, context: RequestContext, broker: BrokerServices
) -> ListTransactionsResponse:
    """List the transactions that this broker coordinates and that the caller may describe."""
    response = await broker.transactions.list_transactions(
        request.state_filters, request.producer_id_filters, request.duration_filter, request.transactional_id_pattern
    )
    access = access_of(context, broker)
    if access is not None:
        listed, response.transaction_states = response.transaction_states, []
        turn = Turn()
        for state in listed:
            if turn.is_over():
                await turn.next()
            if access.may(Operation.DESCRIBE, ResourceKind.TRANSACTIONAL_ID, state.transactional_id):
                response.transaction_states.append(state)
    return response


APIS = (ADD_PARTITIONS, ADD_OFFSETS, END_TXN, DESCRIBE, LIST)
