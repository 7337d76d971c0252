"""Transactions of raw requests in one simulated world, so that a test says what comes between two of them, and what
everybody is promised once they are over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import pytest

from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kraft.protocol.records.control_record import marker_of
from kraft.rpc_client.consumer import READ_COMMITTED
from kraft.rpc_client.fetched import visible_batches
from kraft.storage.unified_log import UnifiedLog
from tests.simulation.clusters import BROKERS, Cluster, simulate
from tests.unit.server.brokers import batch

TRANSACTION_STATE: Final = TopicPartition("__transaction_state", 0)
OFFSETS: Final = TopicPartition("__consumer_offsets", 0)
KEYS: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "replica.lag.time.max.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
}
CHANGED: Final = TopicPartition("changed", 0)
OTHER: Final = TopicPartition("other", 0)
GROUP: Final = "group"
READY_SECONDS: Final = 20.0
SETTLED_SECONDS: Final = 10.0
NOT_READY: Final = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
)
"""What a client tries again on."""


class Transactions:
    """The places of a cluster, and what is asked about them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def create(self, topic: str, *replicas: Sequence[int], **configs: str) -> None:
        """A partition on each of `replicas`, led by the first of them."""
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(each))
            for index, each in enumerate(replicas)
        ]
        given = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
        made = CreatableTopic(
            name=topic, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=given
        )
        response = await self.cluster.call("2", CreateTopicsRequest(topics=[made], timeout_ms=5000))
        assert response.topics[0].error_code == 0, response
        for index, each in enumerate(replicas):
            place = TopicPartition(topic, index)
            await self.until_led(place, each[0])
            await self.until(partial(self._is_hosted, place, each), f"{each} have {place}")

    def _is_hosted(self, place: TopicPartition, replicas: Sequence[int]) -> bool:
        brokers = [self.cluster.nodes[str(broker_id)].broker for broker_id in replicas]
        return all(broker is not None and broker.replicas.find(*place) is not None for broker in brokers)

    async def delete(self, topic: str) -> None:
        """Returns once no broker that is alive has it any more."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000)
        response = await self.cluster.call("2", request)
        assert response.responses[0].error_code == 0, response
        await self.until(lambda: all(self._is_gone(name, topic) for name in BROKERS), f"{topic} is gone")

    def _is_gone(self, name: str, topic: str) -> bool:
        broker = self.cluster.nodes[name].broker
        if not self.cluster.universe.world_of(name).node.alive:
            return True
        return broker is not None and broker.metadata.image.topics.by_name(topic) is None

    async def reassign(self, place: TopicPartition, *replicas: int) -> None:
        """Returns once it is over, and one of them leads."""
        wanted = ReassignablePartition(partition_index=place.partition, replicas=list(replicas))
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=place.topic, partitions=[wanted])], timeout_ms=5000
        )
        response = await self.cluster.call("2", request)
        assert response.error_code == 0, response
        assert response.responses[0].partitions[0].error_code == 0, response
        await self.until(lambda: self._is_reassigned(place, replicas), f"{place} is on {replicas}")

    def _is_reassigned(self, place: TopicPartition, replicas: Sequence[int]) -> bool:
        found = self.registration(place)
        return found.replicas == tuple(replicas) and found.leader in replicas and not found.adding_replicas

    async def until(self, holds: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        end = self.cluster.universe.time.now + seconds
        while not holds():
            assert self.cluster.universe.time.now < end, f"not within {seconds:g} s: {what}"
            await self.cluster.universe.sleep(0.02)

    async def until_led(self, place: TopicPartition, leader: int) -> None:
        def holds() -> bool:
            topic = self.cluster.image.topics.by_name(place.topic)
            return topic is not None and place.partition in topic.partitions and self.leader(place) == leader

        await self.until(holds, f"{leader} leads {place}")

    def registration(self, place: TopicPartition) -> Any:
        topic = self.cluster.image.topics.by_name(place.topic)
        assert topic is not None, place
        return topic.partitions[place.partition]

    def leader(self, place: TopicPartition) -> int:
        leader: int = self.registration(place).leader
        return leader

    def log(self, place: TopicPartition, broker_id: int | None = None) -> UnifiedLog:
        """Of the leader, unless it is said whose."""
        broker = self.cluster.nodes[str(self.leader(place) if broker_id is None else broker_id)].broker
        assert broker is not None
        return broker.replicas.partition(*place).log

    async def ask(
        self, place: TopicPartition, request: Any, codes: Callable[[Any], Iterable[int]], version: int | None = None
    ) -> Any:
        """The answer of whoever leads `place`, tried again as long as it is one of NOT_READY."""
        end = self.cluster.universe.time.now + READY_SECONDS
        while True:
            leader = self.leader(place)
            if leader >= 0:
                answer = await self.cluster.call(str(leader), request, version=version)
                if NOT_READY.isdisjoint(codes(answer)) or self.cluster.universe.time.now > end:
                    return answer
            assert self.cluster.universe.time.now < end, f"nobody leads {place}"
            await self.cluster.universe.sleep(0.05)

    async def fetch(self, place: TopicPartition, isolation: int) -> tuple[list[bytes], list[Any]]:
        """The records that a reader is given, from the beginning of the log to where it ends for this reader, and the
        markers among them."""
        values: list[bytes] = []
        markers: list[Any] = []
        position = self.log(place).log_start_offset
        while True:
            wanted = FetchPartition(
                partition=place.partition, fetch_offset=position, partition_max_bytes=1 << 20, log_start_offset=-1
            )
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                session_epoch=-1,
                isolation_level=isolation,
                topics=[FetchTopic(topic=place.topic, partitions=[wanted])],
            )
            answer = await self.ask(
                place, request, lambda found: [found.responses[0].partitions[0].error_code], version=12
            )
            data = answer.responses[0].partitions[0]
            assert data.error_code == 0, data
            before = position
            for each, is_visible in visible_batches(data.records or b"", data.aborted_transactions):
                position = each.last_offset + 1
                if each.is_control:
                    markers.append(marker_of(each))
                elif is_visible:
                    values += [record.value for record in each.records() if record.offset >= before]
            if position == before:
                assert position == (data.last_stable_offset if isolation == READ_COMMITTED else data.high_watermark)
                return values, markers

    async def committed(self, place: TopicPartition) -> list[bytes]:
        """What read_committed reads of it."""
        return (await self.fetch(place, READ_COMMITTED))[0]

    async def offset(self, group_id: str, place: TopicPartition, *, require_stable: bool = True) -> int:
        """What the group has committed, once it is stable; -1 for nothing. With `require_stable` False at once."""
        wanted = OffsetFetchRequestTopics(name=place.topic, partition_indexes=[place.partition])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=[wanted])], require_stable=require_stable
        )

        def codes(answer: Any) -> list[int]:
            (group,) = answer.groups
            return [group.error_code, *(each.error_code for topic in group.topics for each in topic.partitions)]

        answer = await self.ask(OFFSETS, request, codes, version=9)
        (told,) = answer.groups[0].topics[0].partitions
        assert told.error_code == 0, answer
        offset: int = told.committed_offset
        return offset

    async def find_coordinators(self) -> None:
        """Have both internal topics made, with two replicas of three brokers in sync at least."""
        for kind, place in ((1, TRANSACTION_STATE), (0, OFFSETS)):
            await self.cluster.call("2", FindCoordinatorRequest(key_type=kind, coordinator_keys=["any"]))

            def is_led(place: TopicPartition = place) -> bool:
                topic = self.cluster.image.topics.by_name(place.topic)
                return topic is not None and self.leader(place) >= 0

            await self.until(is_led, f"{place} is there")


class Producer:
    """A transactional producer of transaction.version 2, that waits for nothing but an answer."""

    def __init__(self, transactions: Transactions, transactional_id: str = "x", timeout_ms: int = 60_000) -> None:
        self.transactional_id = transactional_id
        self.id, self.epoch = -1, -1
        self._transactions = transactions
        self._timeout_ms = timeout_ms
        self._sequences: dict[TopicPartition, int] = {}

    async def initialize(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms, producer_id=-1
        )
        answer = await self._transactions.ask(TRANSACTION_STATE, request, lambda answer: [answer.error_code], version=5)
        assert answer.error_code == 0, answer
        self._is_now(answer.producer_id, answer.producer_epoch)

    def zombie(self) -> Producer:
        """Another process that goes on as this one is now."""
        other = Producer(self._transactions, self.transactional_id)
        other.id, other.epoch, other._sequences = self.id, self.epoch, dict(self._sequences)
        return other

    async def write(self, place: TopicPartition, *values: bytes) -> int:
        """The code that it is answered in the end."""
        records = batch(
            *values,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences.get(place, 0),
            is_transactional=True,
            timestamp_ms=self._transactions.cluster.universe.world_for("client").clock.wall_ms(),
        )
        data = TopicProduceData(
            name=place.topic, partition_data=[PartitionProduceData(index=place.partition, records=records)]
        )
        request = ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=5000, topic_data=[data])
        answer = await self._transactions.ask(
            place, request, lambda answer: [answer.responses[0].partition_responses[0].error_code], version=12
        )
        code: int = answer.responses[0].partition_responses[0].error_code
        if code == 0:
            self._sequences[place] = self._sequences.get(place, 0) + len(values)
        return code

    async def write_offset(self, group_id: str, place: TopicPartition, offset: int) -> int:
        """The code that it is answered in the end."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=place.partition, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=place.topic, partitions=[partition])],
        )
        answer = await self._transactions.ask(
            OFFSETS, request, lambda answer: [answer.topics[0].partitions[0].error_code], version=5
        )
        code: int = answer.topics[0].partitions[0].error_code
        return code

    async def end(self, *, committed: bool) -> int:
        """The code that it is answered in the end."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        answer = await self._transactions.ask(TRANSACTION_STATE, request, lambda answer: [answer.error_code], version=5)
        if answer.error_code == 0:
            self._is_now(answer.producer_id, answer.producer_epoch)
        code: int = answer.error_code
        return code

    async def state(self) -> str:
        """What the coordinator says of it."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        answer = await self._transactions.ask(
            TRANSACTION_STATE, request, lambda answer: [answer.transaction_states[0].error_code]
        )
        state: str = answer.transaction_states[0].transaction_state
        return state

    def _is_now(self, producer_id: int, producer_epoch: int) -> None:
        self.id, self.epoch = producer_id, producer_epoch
        self._sequences.clear()


async def settle(transactions: Transactions, producer: Producer, *, committed: bool) -> None:
    """The transaction ends, and is over in bounded time."""
    assert await producer.end(committed=committed) == 0
    await until_over(transactions, producer, committed=committed)


async def until_over(transactions: Transactions, producer: Producer, *, committed: bool) -> None:
    end = transactions.cluster.universe.time.now + SETTLED_SECONDS
    wanted = "CompleteCommit" if committed else "CompleteAbort"
    while (state := await producer.state()) != wanted:
        assert transactions.cluster.universe.time.now < end, f"{producer.transactional_id} hangs in {state}"
        await transactions.cluster.universe.sleep(0.05)


async def check_aftermath(
    transactions: Transactions, producer: Producer, zombie: Producer, places: Sequence[TopicPartition]
) -> None:
    """What holds after each transaction: no partition has one open on any replica, nothing is left to wait for, who
    was replaced writes nothing, and the producer's next transaction works."""
    await _until_stable(transactions, places)
    for place in places:
        end = transactions.log(place).log_end_offset
        assert await zombie.write(place, b"zombie") == ErrorCode.INVALID_PRODUCER_EPOCH, place
        assert transactions.log(place).log_end_offset == end
    before = {place: await transactions.committed(place) for place in places}
    for place in places:
        assert await producer.write(place, b"next") == 0, place
        assert transactions.log(place).last_stable_offset < transactions.log(place).high_watermark
    assert {place: await transactions.committed(place) for place in places} == before
    await settle(transactions, producer, committed=True)
    await _until_stable(transactions, places)
    assert {place: await transactions.committed(place) for place in places} == {
        place: [*values, b"next"] for place, values in before.items()
    }


async def _until_stable(transactions: Transactions, places: Iterable[TopicPartition]) -> None:
    for place in places:
        await transactions.until(partial(_is_stable, transactions, place), f"{place} is stable")


def _is_stable(transactions: Transactions, place: TopicPartition) -> bool:
    """Whether all replicas in sync have the same log, and no transaction in it that is open."""
    registration = transactions.registration(place)
    logs = [transactions.log(place, broker) for broker in registration.isr]
    ends = {(log.log_end_offset, log.last_stable_offset) for log in logs}
    return len(ends) == 1 and all(end == stable for end, stable in ends)


either_end = pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])


def play(story: Callable[..., Any], configs: Mapping[str, str] = MappingProxyType({}), **told: Any) -> None:
    """Run the story with a transaction open on the topic that will change, made with `configs`, and on another one,
    both led by broker 2."""

    async def start(cluster: Cluster) -> None:
        transactions = Transactions(cluster)
        await transactions.find_coordinators()
        for place, given in ((CHANGED, configs), (OTHER, {})):
            await transactions.create(place.topic, [2, 3, 4], min_insync_replicas="1", **given)
        producer = Producer(transactions)
        await producer.initialize()
        for place in (CHANGED, OTHER):
            assert await producer.write(place, b"1", b"2") == 0
        await story(transactions, producer, **told)

    simulate(start, more_keys=KEYS)


def visible(committed: bool, *values: bytes) -> list[bytes]:
    """What read_committed reads of a transaction's records."""
    return list(values) if committed else []
