"""Reading records over HTTP from a log that is a test's: where reading begins, what is left out and what is marked."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from kraft_http.app import create_app

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.fetch_response import (
    AbortedTransaction,
)
from kraft.protocol.records.control_record import ControlRecordType
from tests.unit.api.consuming_port import CLUSTER, Log, Port


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


def test_the_newest_records_are_returned_whatever_their_size() -> None:
    port = Port(filled(201, 20_000))
    answer = consumed(port, "tail=100&limit=100&max_bytes=4194304&format=BINARY")
    assert offsets_of(answer) == [(0, offset) for offset in range(101, 201)]
    assert answer["next_offsets"] == {"0": 201}
    few = consumed(port, "tail=100&limit=100&max_bytes=262144&format=BINARY")
    assert offsets_of(few) == [(0, offset) for offset in range(188, 201)], "as many of the last as the bytes allow"
    one = consumed(port, "tail=100&limit=100&max_bytes=1000&format=BINARY")
    assert offsets_of(one) == [(0, 200)]


def test_the_newest_records_of_every_partition_are_returned() -> None:
    answer = consumed(Port(filled(30, 10), filled(3, 10, start=7), Log()), "tail=20&limit=60")
    assert offsets_of(answer) == [(0, offset) for offset in range(10, 30)] + [(1, 7), (1, 8), (1, 9)]
    assert answer["next_offsets"] == {"0": 30, "1": 10, "2": 0}


def test_the_newest_records_are_found_behind_markers() -> None:
    log = Log()
    log.append(b"a", b"b")
    for _ in range(40):
        log.mark(9, ControlRecordType.COMMIT)
    answer = consumed(Port(log), "tail=2")
    assert offsets_of(answer) == [(0, 0), (0, 1)]


def test_an_offset_is_looked_up_in_every_partition_and_partitions_without_it_are_named() -> None:
    answer = consumed(Port(filled(9, 10), filled(3, 10), filled(2, 10, start=8), None, filled(5, 10)), "offset=5")
    assert offsets_of(answer) == [(0, 5), (0, 6), (0, 7), (0, 8)]
    assert [each["partition_id"] for each in answer["unread_partitions"]] == [1, 2, 3, 4]
    assert answer["unread_partitions"][0]["detail"] == "No record has offset 5: the first is 0, the next will be 3."
    assert answer["unread_partitions"][2]["detail"] == "It has no leader."
    assert answer["next_offsets"] == {"0": 9, "1": 3, "2": 8, "4": 5}
    assert consumed(Port(filled(3, 10)), "offset=5&partition=0")["error_code"] == 40002


def test_partitions_continue_at_their_last_positions_in_the_requested_order() -> None:
    port = Port(filled(3, 10), filled(9, 10), filled(9, 10), filled(9, 10, start=4))
    answer = consumed(port, "positions=2:7,0:3,1:6,3:2&limit=3")
    assert offsets_of(answer) == [(2, 7), (2, 8), (1, 6)]
    assert answer["next_offsets"] == {"0": 3, "1": 7, "2": 9, "3": 4}
    assert [each["partition_id"] for each in answer["unread_partitions"]] == [3], "it lost the records meanwhile"
    assert consumed(port, "positions=2:7,0:3&partition=1")["error_code"] == 400
    assert consumed(port, "positions=7:0")["error_code"] == 40403


def test_positions_in_a_recreated_topic_restart_at_its_beginning_with_a_notice() -> None:
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
        {"partition_id": 2, "detail": "The topic was deleted and recreated, and has no such partition now."}
    ]
    assert anew["topic_id"] != first["topic_id"]
    assert offsets_of(consumed(port, f"positions=0:8&limit=1&topic_id={anew['topic_id']}")) == [(0, 8)]
    assert consumed(port, f"offset=8&topic_id={anew['topic_id']}")["error_code"] == 400
    assert consumed(port, "positions=0:8&topic_id=none")["error_code"] == 400


def test_the_transaction_outcome_of_each_record_is_returned() -> None:
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


def test_records_without_a_transaction_trigger_no_transaction_lookup() -> None:
    port = Port(filled(3, 10))
    consumed(port, "limit=10")
    assert ApiKey.DESCRIBE_PRODUCERS not in port.asked
    assert port.asked.count(ApiKey.FETCH) == 1
