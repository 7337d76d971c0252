"""A broker in memory that coordinates transactions by the product's own rules, with the markers that follow, and at
which any request can be a process's last: `FakeCluster` with a coordinator.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.coordinator.shard import Moment
from kraft.coordinator.transaction.ending import End, complete, end_transaction
from kraft.coordinator.transaction.init_producer import init_producer
from kraft.coordinator.transaction.inspection import describe
from kraft.coordinator.transaction.partitions import add_partitions
from kraft.coordinator.transaction.shard import FreshId, TransactionShard
from kraft.coordinator.transaction.transaction import NO_TIMEOUT_MS, ProducerIdNeeded, State
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.api_versions_response import FinalizedFeatureKey
from kraft.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from kraft.protocol.messages.end_txn_response import EndTxnResponse
from kraft.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse, TransactionState
from kraft.protocol.records.control_record import (
    ControlRecordType,
    TransactionMarker,
    build_marker_batch,
    control_type_of,
)
from kraft.protocol.records.record_batch import RecordBatch, batches
from tests.unit.spark import fake_cluster, memory_broker
from tests.unit.spark.fake_cluster import FakeCluster
from tests.unit.spark.memory_broker import FakePartition

ENDS_WITH_NEW_EPOCH = 5


class Killed(BaseException):
    """The process that sends requests is gone."""


class TransactionalCluster(FakeCluster):
    """`die_at` kills the process in its n-th request from now, before it is served or (`answers_lost`) after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **topics: int) -> None:
        super().__init__(monkeypatch, **topics)
        monkeypatch.setattr(memory_broker, "SERVED", (*memory_broker.SERVED, 65, 66))
        monkeypatch.setattr(fake_cluster, "decode_request", self.decoded(fake_cluster.decode_request))
        self.shard = TransactionShard(lambda: 2)
        self.state = self.shard.empty()
        self.is_offered = True
        self.version = 0
        self.next_id = 100
        self.left: int | None = None
        self.answers_lost = False
        self.paused_thread: threading.Thread | None = None
        self.reached, self.goes_on = threading.Event(), threading.Event()

    def decoded(self, decode: Any) -> Any:
        """Decode, and keep the version of the request."""

        def kept(frame: memoryview) -> Any:
            header, request = decode(frame)
            self.version = header.api_version
            return header, request

        return kept

    def die_at(self, request: int | None, *, answers_lost: bool = False) -> None:
        self.left, self.answers_lost = request, answers_lost

    def answer(self, request: Any) -> Any:
        version = self.version
        if self.left is None or (self.paused_thread not in (None, threading.current_thread())):
            return super().answer(request)
        self.left -= 1
        if self.left < 0 and self.paused_thread is None:
            if self.left == -1 and self.answers_lost:
                super().answer(request)
            raise Killed
        if self.left == -1:
            self.reached.set()
            assert self.goes_on.wait(30)
            self.version = version
        return super().answer(request)

    def decide(self, decision: Any, *arguments: Any, fresh: bool = False) -> Any:
        taken = FreshId()
        while True:
            draft = self.shard.draft(self.state, 0, Moment(0, 1))
            try:
                answer = decision(draft, *arguments, taken) if fresh else decision(draft, *arguments)
            except ProducerIdNeeded:
                self.next_id += 1
                taken = FreshId(self.next_id)
                continue
            self.state = draft.finish()
            for ending in draft.effects:
                for place in ending.partitions:
                    self.mark(place, ending)
                self.decide(complete, ending)
            return answer

    def mark(self, place: TopicPartition, ending: Any) -> None:
        partition = self.topics[place.topic][place.partition]
        kind = ControlRecordType.COMMIT if ending.committed else ControlRecordType.ABORT
        partition.log.append(
            build_marker_batch(
                TransactionMarker(kind, 0),
                producer_id=ending.producer_id,
                producer_epoch=ending.producer_epoch,
                timestamp_ms=0,
                offset=partition.end,
                leader_epoch=0,
            )
        )
        partition.end += 1
        partition.state[ending.producer_id] = (ending.producer_epoch, -1)

    def on_apiversions(self, request: Any) -> Any:
        answer = super().on_apiversions(request)
        answer.finalized_features_epoch = 1
        answer.finalized_features = [
            FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=1)
        ]
        for each in answer.api_keys:
            if each.api_key == 22 and not self.is_offered:
                each.max_version = 5
        return answer

    def on_findcoordinator(self, request: Any) -> Any:
        if self.version < 4:
            return super().on_findcoordinator(request)
        found = [Coordinator(key=key, node_id=0, host="h", port=1) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)

    def on_initproducerid(self, request: Any) -> Any:
        timeout_ms = NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms
        try:
            made = self.decide(init_producer, request.transactional_id, timeout_ms, None, fresh=True)
        except ApiError as refused:
            return InitProducerIdResponse(error_code=refused.code)
        if made is None:
            return InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
        return InitProducerIdResponse(producer_id=made.producer_id, producer_epoch=made.producer_epoch)

    def add(self, transactional_id: str, producer: tuple[int, int], places: list[TopicPartition], version: int) -> int:
        try:
            self.decide(add_partitions, transactional_id, *producer, places, version)
        except ApiError as refused:
            return refused.code
        return ErrorCode.NONE

    def on_addpartitionstotxn(self, request: Any) -> Any:
        places = [
            TopicPartition(topic.name, each) for topic in request.v3_and_below_topics for each in topic.partitions
        ]
        producer = request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
        self.coordinator_codes.append(self.add(request.v3_and_below_transactional_id, producer, places, 0))
        return super().on_addpartitionstotxn(request)

    def on_endtxn(self, request: Any) -> Any:
        version = 2 if self.version >= ENDS_WITH_NEW_EPOCH else 0
        producer = request.producer_id, request.producer_epoch
        try:
            self.decide(
                end_transaction, End(request.transactional_id, *producer, request.committed, version), fresh=True
            )
        except ApiError as refused:
            return EndTxnResponse(error_code=refused.code)
        return EndTxnResponse()

    def on_produce(self, request: Any) -> Any:
        version = self.version
        for topic in request.topic_data if request.transactional_id is not None else ():
            for each in topic.partition_data:
                batch = next(iter(batches(bytes(each.records))))
                producer = batch.producer_id, batch.producer_epoch
                place = TopicPartition(topic.name, each.index)
                if version >= 12:
                    code = self.add(request.transactional_id, producer, [place], 2)
                else:
                    found = self.state.transactions[request.transactional_id]
                    is_in = found.state is State.ONGOING and place in found.partitions
                    code = 0 if is_in and found.owner == producer else ErrorCode.INVALID_PRODUCER_EPOCH
                if code:
                    self.refuse[topic.name, self.produced[topic.name] + 1] = (
                        ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED else code
                    )
        return super().on_produce(request)

    def appended(self, partition: FakePartition, batch: RecordBatch) -> int:
        partition.state.pop(-1, None)  # Without a producer id there are no sequences.
        return super().appended(partition, batch)

    def on_listtransactions(self, request: Any) -> Any:
        found = [
            TransactionState(transactional_id=name, producer_id=each.producer_id, transaction_state=each.state.shown)
            for name, each in sorted(self.state.transactions.items())
            if each.state.shown in request.state_filters
        ]
        return ListTransactionsResponse(transaction_states=found)

    def on_describetransactions(self, request: Any) -> Any:
        return DescribeTransactionsResponse(
            transaction_states=[describe(self.state, each) for each in request.transactional_ids]
        )

    def open_ids(self) -> list[str]:
        return [name for name, each in sorted(self.state.transactions.items()) if each.state is State.ONGOING]

    def committed(self, topic: str) -> Counter[bytes | None]:
        """The values that a reader of committed records gets."""
        found: Counter[bytes | None] = Counter()
        for partition in self.topics[topic]:
            waiting: dict[int, list[RecordBatch]] = {}
            for chunk in partition.log:
                for batch in batches(chunk):
                    if not batch.is_control:
                        waiting.setdefault(batch.producer_id, []).append(batch)
                        continue
                    [marker] = batch.records()
                    ended = waiting.pop(batch.producer_id, [])
                    if control_type_of(marker.key) == ControlRecordType.COMMIT:
                        found.update(record.value for each in ended for record in each.records())
        return found
