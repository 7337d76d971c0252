"""Reading records over HTTP from a log that is a test's: where reading begins, what is left out and what is marked."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from kraft_http.app import create_app
from kraft_http.ports import Caller, NodeIdentity

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kraft.protocol.messages.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.control_record import ControlRecordType, TransactionMarker, build_marker_batch
from kraft.protocol.records.record import Record

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"


class Log:
    """One partition. Batches are added at its end."""

    def __init__(self, start: int = 0) -> None:
        self.start = self.end = start
        self.batches: list[tuple[int, bytes]] = []
        self.stable_end: int | None = None
        """The last stable offset, where a transaction is open."""
        self.aborted: list[AbortedTransaction] = []
        self.open_from: dict[int, int] = {}

    def append(self, *values: bytes, producer_id: int = -1) -> None:
        records = [Record(self.end + index, 0, None, value, ()) for index, value in enumerate(values)]
        known: dict[str, Any] = (
            {}
            if producer_id < 0
            else {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        )
        self.batches.append((self.end + len(values), bytes(build_batch(records, **known))))
        self.end += len(values)

    def mark(self, producer_id: int, control_type: int) -> None:
        batch = build_marker_batch(
            TransactionMarker(control_type, 0),
            offset=self.end,
            timestamp_ms=0,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
        )
        self.batches.append((self.end + 1, batch))
        self.end += 1

    def read(self, offset: int, max_bytes: int, *, committed: bool) -> PartitionData:
        if not self.start <= offset <= self.end:
            return PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        stable = self.end if self.stable_end is None else self.stable_end
        data = b""
        for next_offset, batch in self.batches:
            if next_offset <= offset or (committed and next_offset > stable) or (data and len(data) >= max_bytes):
                continue
            data += batch
        aborted = self.aborted if committed else None
        return PartitionData(last_stable_offset=stable, records=memoryview(data), aborted_transactions=aborted)


class Port:
    """A node that leads every partition of topic `t`, but those that are None."""

    identity = NodeIdentity(node_id=1, roles=("broker",), cluster_id=CLUSTER, version="test", admin_host="node")

    def __init__(self, *logs: Log | None) -> None:
        self.logs = logs
        self.topic_id = bytes(range(16))
        self.asked: list[int] = []

    async def on_behalf_of(self, caller: Caller) -> Port:
        """For all the same."""
        await asyncio.sleep(0)
        return self

    async def call(self, api_key: int, version: int, request: Any, *, node_id: int | None = None) -> Any:
        await asyncio.sleep(0)
        self.asked.append(api_key)
        return {
            ApiKey.METADATA: self.metadata,
            ApiKey.LIST_OFFSETS: self.offsets,
            ApiKey.FETCH: self.fetch,
            ApiKey.DESCRIBE_PRODUCERS: self.producers,
        }[api_key](request)

    def log(self, index: int) -> Log:
        log = self.logs[index]
        assert log is not None
        return log

    def metadata(self, request: Any) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=-1 if log is None else 1)
            for index, log in enumerate(self.logs)
        ]
        return MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=self.topic_id, partitions=partitions)])

    def offsets(self, request: Any) -> ListOffsetsResponse:
        told = []
        for each in request.topics[0].partitions:
            log = self.log(each.partition_index)
            end = log.stable_end if request.isolation_level and log.stable_end is not None else log.end
            offset = end if each.timestamp == -1 else log.start
            told.append(ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=offset))
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=told)])

    def fetch(self, request: Any) -> FetchResponse:
        asked = request.topics[0].partitions[0]
        found = self.log(asked.partition).read(
            asked.fetch_offset, asked.partition_max_bytes, committed=bool(request.isolation_level)
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[found])])

    def producers(self, request: Any) -> DescribeProducersResponse:
        [index] = request.topics[0].partition_indexes
        states = [
            ProducerState(producer_id=producer_id, current_txn_start_offset=first)
            for producer_id, first in self.log(index).open_from.items()
        ]
        partition = PartitionResponse(partition_index=index, active_producers=states)
        return DescribeProducersResponse(topics=[TopicResponse(name="t", partitions=[partition])])


def consumed(port: Port, query: str) -> Any:
    async def get() -> Any:
        transport = httpx.ASGITransport(app=create_app(port, print))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as http:
            answer = await http.get(f"/v3/clusters/{CLUSTER}/topics/t/records?{query}")
            return answer.json()

    return asyncio.run(get())


def offsets_of(answer: Any) -> list[tuple[int, int]]:
    return [(record["partition_id"], record["offset"]) for record in answer["data"]]


def filled(records: int, size: int, start: int = 0) -> Log:
    log = Log(start)
    for _ in range(records):
        log.append(bytes(size))
    return log


def test_the_newest_records_are_the_last_ones_however_large_they_are() -> None:
    port = Port(filled(201, 20_000))
    answer = consumed(port, "tail=100&limit=100&max_bytes=4194304&format=BINARY")
    assert offsets_of(answer) == [(0, offset) for offset in range(101, 201)]
    assert answer["next_offsets"] == {"0": 201}
    few = consumed(port, "tail=100&limit=100&max_bytes=262144&format=BINARY")
    assert offsets_of(few) == [(0, offset) for offset in range(188, 201)], "as many of the last as the bytes allow"
    one = consumed(port, "tail=100&limit=100&max_bytes=1000&format=BINARY")
    assert offsets_of(one) == [(0, 200)]


def test_the_newest_of_every_partition_are_shown() -> None:
    answer = consumed(Port(filled(30, 10), filled(3, 10, start=7), Log()), "tail=20&limit=60")
    assert offsets_of(answer) == [(0, offset) for offset in range(10, 30)] + [(1, 7), (1, 8), (1, 9)]
    assert answer["next_offsets"] == {"0": 30, "1": 10, "2": 0}


def test_the_newest_are_found_behind_markers() -> None:
    log = Log()
    log.append(b"a", b"b")
    for _ in range(40):
        log.mark(9, ControlRecordType.COMMIT)
    answer = consumed(Port(log), "tail=2")
    assert offsets_of(answer) == [(0, 0), (0, 1)]


def test_an_offset_is_looked_for_in_every_partition_and_those_without_it_are_named() -> None:
    answer = consumed(Port(filled(9, 10), filled(3, 10), filled(2, 10, start=8), None, filled(5, 10)), "offset=5")
    assert offsets_of(answer) == [(0, 5), (0, 6), (0, 7), (0, 8)]
    assert [each["partition_id"] for each in answer["unread_partitions"]] == [1, 2, 3, 4]
    assert answer["unread_partitions"][0]["detail"] == "No record has offset 5: the first is 0, the next will be 3."
    assert answer["unread_partitions"][2]["detail"] == "It has no leader."
    assert answer["next_offsets"] == {"0": 9, "1": 3, "2": 8, "4": 5}
    assert consumed(Port(filled(3, 10)), "offset=5&partition=0")["error_code"] == 40002


def test_partitions_go_on_where_they_were_left_in_the_order_that_is_asked_for() -> None:
    port = Port(filled(3, 10), filled(9, 10), filled(9, 10), filled(9, 10, start=4))
    answer = consumed(port, "positions=2:7,0:3,1:6,3:2&limit=3")
    assert offsets_of(answer) == [(2, 7), (2, 8), (1, 6)]
    assert answer["next_offsets"] == {"0": 3, "1": 7, "2": 9, "3": 4}
    assert [each["partition_id"] for each in answer["unread_partitions"]] == [3], "it lost the records meanwhile"
    assert consumed(port, "positions=2:7,0:3&partition=1")["error_code"] == 400
    assert consumed(port, "positions=7:0")["error_code"] == 40403


def test_positions_in_a_topic_that_was_made_anew_begin_at_its_beginning_and_it_is_told() -> None:
    port = Port(filled(9, 10), filled(9, 10), filled(9, 10))
    first = consumed(port, "limit=6")
    assert first["topic_recreated"] is False
    on = f"positions=2:7,0:8&topic_id={first['topic_id']}"
    assert offsets_of(consumed(port, on)) == [(2, 7), (2, 8), (0, 8)]
    port.topic_id, port.logs = bytes(16), (filled(99, 10, start=4), filled(99, 10))
    anew = consumed(port, on + "&limit=2")
    assert anew["topic_recreated"] is True
    assert offsets_of(anew) == [(0, 4), (0, 5)]
    assert anew["next_offsets"] == {"0": 6}
    assert anew["unread_partitions"] == [
        {"partition_id": 2, "detail": "The topic was deleted and made anew, and has no such partition now."}
    ]
    assert anew["topic_id"] != first["topic_id"]
    assert offsets_of(consumed(port, f"positions=0:8&limit=1&topic_id={anew['topic_id']}")) == [(0, 8)]
    assert consumed(port, f"offset=8&topic_id={anew['topic_id']}")["error_code"] == 400
    assert consumed(port, "positions=0:8&topic_id=none")["error_code"] == 400


def test_what_became_of_the_transaction_of_each_record_is_told() -> None:
    log = Log()
    log.append(b"plain")
    log.append(b"aborted", producer_id=1)
    log.mark(1, ControlRecordType.ABORT)
    log.append(b"committed", producer_id=1)
    log.mark(1, ControlRecordType.COMMIT)
    log.stable_end = log.end
    log.append(b"open", producer_id=2)
    log.append(b"behind", producer_id=3)
    log.aborted = [AbortedTransaction(producer_id=1, first_offset=1)]
    log.open_from = {2: 5}
    port = Port(log)

    def told(query: str) -> dict[int, str | None]:
        return {record["offset"]: record["transaction"] for record in consumed(port, query)["data"]}

    assert told("limit=50") == {0: None, 1: "aborted", 3: "committed", 5: "open", 6: "undecided"}
    assert told("limit=50&committed=true") == {0: None, 3: "committed"}
    assert told("limit=2&max_bytes=1") == {0: None}
    port.asked.clear()
    assert told("limit=1&offset=1&partition=0&max_bytes=1") == {1: "aborted"}, "its marker was not read"
    assert port.asked.count(ApiKey.DESCRIBE_PRODUCERS) == 1
    log.mark(3, ControlRecordType.ABORT)
    assert told("tail=9") == {0: None, 1: "aborted", 3: "committed", 5: "open", 6: "aborted"}


def test_records_without_a_transaction_cost_no_question_about_one() -> None:
    port = Port(filled(3, 10))
    consumed(port, "limit=10")
    assert ApiKey.DESCRIBE_PRODUCERS not in port.asked
    assert port.asked.count(ApiKey.FETCH) == 1
