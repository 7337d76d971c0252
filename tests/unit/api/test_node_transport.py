"""One HTTP request that has to ask several brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kraft_http.node_transport import NodeTransport

from kraft.admin.errors import Refused
from kraft.admin.moves import replica_offsets
from kraft.admin.offsets import LATEST, offsets_at_leaders
from kraft.admin.transport import AT_ONCE_MAX
from kraft.common.ids import TopicPartition
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kraft.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from kraft.protocol.messages.describe_transactions_response import TransactionState as DescribedState
from kraft.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kraft.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse
from kraft.protocol.messages.list_transactions_response import TransactionState as ListedState
from kraft.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup
from tests.unit.api.edge_app import CLUSTER
from tests.unit.api.edge_app import Port as Edges
from tests.unit.api.failing_node import asked

PLACE = TopicPartition("t", 0)


class Port:
    """Brokers that answer once all three have been asked; broker 2 then says that it is not there."""

    def __init__(self) -> None:
        self.asked: list[int | None] = []
        self.all_asked = asyncio.Event()

    async def call(self, api_key: int, version: int, request: Any, *, node_id: int | None = None) -> Any:
        self.asked.append(node_id)
        if len(self.asked) == 3:
            self.all_asked.set()
        await self.all_asked.wait()
        if node_id == 2:
            raise ConnectionRefusedError("broker 2")
        partitions = [
            ListOffsetsPartitionResponse(partition_index=partition.partition_index, offset=10)
            for partition in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])


def test_replicas_are_queried_concurrently_and_a_silent_one_is_left_out() -> None:
    async def main() -> None:
        port: Any = Port()
        async with asyncio.timeout(30):
            found = await replica_offsets(NodeTransport(port), {3: [PLACE], 2: [PLACE], 1: [PLACE]})
        assert list(found.items()) == [((1, PLACE), 10), ((3, PLACE), 10)]

    asyncio.run(main())


class SilentPort(Edges):
    """Three brokers, one of which is fenced. Broker 2 does not answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int | None]] = []

    async def call(self, api_key: int, version: int, request: Any, *, node_id: int | None = None) -> Any:
        self.asked.append((api_key, node_id))
        if node_id == 2:
            raise ConnectionError("broker 2 did not answer within 2 s")
        return self.answer(api_key, node_id)

    def answer(self, api_key: int, node_id: int | None) -> Any:
        if api_key == ApiKey.DESCRIBE_CLUSTER:
            fenced = {1: False, 2: False, 3: True}
            return DescribeClusterResponse(
                brokers=[
                    DescribeClusterBroker(broker_id=number, host="h", port=9092, is_fenced=is_fenced)
                    for number, is_fenced in fenced.items()
                ]
            )
        if api_key == ApiKey.LIST_GROUPS:
            return ListGroupsResponse(groups=[ListedGroup(group_id=f"g{node_id}", protocol_type="consumer")])
        if api_key == ApiKey.DESCRIBE_GROUPS:
            return DescribeGroupsResponse(
                groups=[DescribedGroup(group_id=f"g{node_id}", group_state="Empty", protocol_type="consumer")]
            )
        if api_key == ApiKey.OFFSET_FETCH:
            return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=f"g{node_id}")])
        if api_key == ApiKey.LIST_TRANSACTIONS:
            return ListTransactionsResponse(transaction_states=[ListedState(transactional_id=f"t{node_id}")])
        if api_key == ApiKey.DESCRIBE_TRANSACTIONS:
            return DescribeTransactionsResponse(transaction_states=[DescribedState(transactional_id=f"t{node_id}")])
        if api_key == ApiKey.METADATA:
            partition = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1])
            return MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition])])
        assert api_key == ApiKey.LIST_OFFSETS
        partitions = [ListOffsetsPartitionResponse(partition_index=0, offset=10)]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])


@pytest.mark.parametrize(
    ("path", "key", "found"),
    [
        (f"/v3/clusters/{CLUSTER}/consumer-groups", "consumer_group_id", ["g1"]),
        (f"/v3/clusters/{CLUSTER}/consumer-groups/-/lag-summary", "consumer_group_id", ["g1"]),
        ("/v1/transactions", "transactional_id", ["t1"]),
        (f"/v3/clusters/{CLUSTER}/topics/t/partitions/-/replica-status", "log_end_offset", [10, None]),
    ],
)
def test_a_list_reports_its_missing_parts_and_queries_a_silent_broker_once(
    path: str, key: str, found: list[Any]
) -> None:
    port = SilentPort()
    answer, _ = asked(port, path)
    told = answer.json()
    assert (answer.status_code, [each[key] for each in told["data"]]) == (200, found), told
    [missing] = told["unanswered_brokers"]
    assert missing["broker_id"] == 2
    assert "did not answer within 2 s" in missing["detail"]
    asked_of = [node_id for _, node_id in port.asked]
    assert (asked_of.count(2), asked_of.count(3)) == (1, 0)


def test_a_broker_that_could_not_be_queried_may_be_queried_again() -> None:
    class OnBrokerTwo(SilentPort):
        def answer(self, api_key: int, node_id: int | None) -> Any:
            if api_key == ApiKey.FIND_COORDINATOR:
                return FindCoordinatorResponse(coordinators=[Coordinator(node_id=2)])
            return super().answer(api_key, node_id)

    answer, _ = asked(OnBrokerTwo(), f"/v3/clusters/{CLUSTER}/consumer-groups/g2")
    assert (answer.status_code, answer.json()["kafka_error"]["retriable"]) == (503, True)


def test_leaders_are_queried_concurrently_and_one_failure_fails_the_request() -> None:
    async def main() -> None:
        port: Any = Port()
        async with asyncio.timeout(30):
            with pytest.raises(Refused, match="broker 2 cannot be reached"):
                await offsets_at_leaders(
                    NodeTransport(port), {TopicPartition("t", each): each + 1 for each in range(3)}, LATEST
                )

    asyncio.run(main())


def test_concurrent_queries_are_limited_and_responses_keep_their_order() -> None:
    async def main() -> None:
        under_way, most = 0, 0

        async def ask(number: int) -> int:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            for _ in range(50 - number):
                await asyncio.sleep(0)
            under_way -= 1
            return number

        port: Any = Port()
        assert await NodeTransport(port).of_each(ask, range(50)) == list(range(50))
        assert most == AT_ONCE_MAX

    asyncio.run(main())
