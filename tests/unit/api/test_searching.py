"""Searching in a log that is a test's: what is read, why it ends, and what it may cost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from kraft_http.app import create_app
from kraft_http.records.searching import BYTES_PER_SECOND, RECORDS_PER_SECOND, SEARCHES_MAX, Searches
from kraft_http.requests.errors import ApiProblem

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.control_record import ControlRecordType
from kraft.protocol.records.record import Record
from kraft.rpc_client.partitioner import partition_for_key
from tests.unit.api.consuming_port import Log, Port


def lines(port: Port, query: str, status: int = 200) -> list[dict[str, Any]]:
    async def get() -> list[dict[str, Any]]:
        app = create_app(port, print)  # type: ignore[arg-type]
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as http:
            answer = await http.get(f"/v1/topics/t/records:search?{query}")
        assert answer.status_code == status, answer.text
        assert app.state.searches.running == 0
        return [json.loads(line) for line in answer.text.splitlines()]

    return asyncio.run(get())


def hits(told: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(line["record"]["partition_id"], line["record"]["offset"]) for line in told if line["kind"] == "hit"]


def log_of(*values: bytes) -> Log:
    log = Log()
    for value in values:
        log.append(value)
    return log


def keyed(*keys: bytes) -> Log:
    log = Log()
    for key in keys:
        log.batches.append((log.end + 1, bytes(build_batch([Record(log.end, 0, key, b"v", ())]))))
        log.end += 1
    return log


def test_hits_of_every_partition_lie_between_start_and_end() -> None:
    start, *_, end = told = lines(Port(log_of(b"tea", b"milk", b"TEA"), Log(), log_of(b"tea")), "text=tEa")
    assert hits(told) == [(0, 0), (0, 2), (2, 0)]
    assert start == {"kind": "start", "partitions": [0, 1, 2], "note": None, "offsets_total": 4}
    assert (end["kind"], end["reason"], end["offsets_read"], end["records_read"], end["hits"]) == (
        "end",
        "all_read",
        4,
        4,
        3,
    )
    assert end["next_offsets"] == {"0": 3, "1": 0, "2": 1}


def test_a_search_stops_at_its_hit_limit_and_returns_where_to_continue() -> None:
    told = lines(Port(log_of(*[b"a"] * 5), log_of(b"a")), "text=a&limit=3")
    assert hits(told) == [(0, 0), (0, 1), (0, 2)]
    assert (told[-1]["reason"], told[-1]["next_offsets"]) == ("hits", {"0": 3, "1": 0})
    assert hits(lines(Port(log_of(*[b"a"] * 5)), "text=a&from_offset=3")) == [(0, 3), (0, 4)]
    assert hits(lines(Port(log_of(*[b"a"] * 5)), "text=a&from_offset=1&to_offset=3")) == [(0, 1), (0, 2)]
    assert hits(lines(Port(log_of(*[b"a"] * 5)), "text=a&from_offset=9")) == []


def test_a_key_is_searched_only_in_its_partition_by_default() -> None:
    key = b"customer-7"
    owner = partition_for_key(key, 3)
    port = Port(keyed(key, b"x"), keyed(key, b"x"), keyed(key, b"x"))
    told = lines(port, "key=customer-7")
    assert hits(told) == [(owner, 0)]
    assert told[0]["partitions"] == [owner]
    assert told[0]["note"].startswith(f"Only partition {owner} is read")
    assert len(hits(lines(port, "key=customer-7&everywhere=true"))) == 3
    assert hits(lines(port, "key=customer-7&partitions=2,0")) == [(0, 0), (2, 0)]
    assert hits(lines(port, "key_base64=Y3VzdG9tZXItNw==&partitions=1")) == [(1, 0)]


def test_a_search_compares_fields_inside_the_value() -> None:
    told = lines(Port(log_of(b'{"o": {"id": 5}}', b'{"o": {"id": 6}}', b"no json")), "where=.o.id%20%3E%3D%206")
    assert hits(told) == [(0, 1)]
    assert told[1]["record"]["value"] == {"type": "JSON", "data": {"o": {"id": 6}}}


def test_records_of_aborted_and_open_transactions_are_marked_or_left_out() -> None:
    log = Log()
    log.append(b"plain")
    log.append(b"aborted", producer_id=1)
    log.mark(1, ControlRecordType.ABORT)
    log.append(b"committed", producer_id=1)
    log.mark(1, ControlRecordType.COMMIT)
    log.stable_end = log.end
    log.append(b"open", producer_id=2)
    log.aborted = [AbortedTransaction(producer_id=1, first_offset=1)]
    log.open_from = {2: 5}
    port = Port(log)
    told = lines(port, "text=e&part=value")
    marks = {line["record"]["offset"]: line["record"]["transaction"] for line in told[1:-1]}
    assert marks == {1: "aborted", 3: "committed", 5: "open"}
    assert port.asked.count(ApiKey.DESCRIBE_PRODUCERS) == 1, "once for all that one read found"
    assert hits(lines(port, "text=e&part=value&committed=true")) == [(0, 3)]


def test_an_unreadable_partition_is_named_and_the_others_are_searched() -> None:
    damaged = log_of(b"a", b"a")
    damaged.batches[1] = (2, damaged.batches[1][1][:-1] + b"\7")
    told = lines(Port(None, damaged, log_of(b"a")), "text=a")
    assert hits(told) == [(1, 0), (2, 0)]
    first, second = told[-1]["unread_partitions"]
    assert (first["partition_id"], first["detail"]) == (0, "It has no leader.")
    assert second["partition_id"] == 1
    assert second["detail"].startswith("From offset 1 on: ")


class Locked(Port):
    """Who asks may describe the topic and not read it."""

    def fetch(self, request: Any) -> FetchResponse:
        refused = PartitionData(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[refused])])


def test_a_search_without_read_permission_gets_an_error_status() -> None:
    [problem] = lines(Locked(log_of(b"a")), "text=a", status=403)
    assert problem["kafka_error"]["name"] == "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "limit=3",
        "text=",
        "text=a&limit=1001",
        "text=a&seconds=121",
        "key=a&key_base64=YQ==",
        "key_base64=a",
        "key=a&part=key",
        "key=a&header=h",
        "text=a&header=h&part=value",
        "text=a&partitions=x",
        "text=a&partitions=9999999999",
        "where=a",
        "text=a&tail=5",
    ],
)
def test_a_contradictory_search_is_refused(query: str) -> None:
    [problem] = lines(Port(log_of(b"a")), query, status=400)
    assert problem["status"] == 400
    assert problem["detail"]


def test_the_number_of_concurrent_searches_is_limited() -> None:
    searches = Searches()
    for _ in range(SEARCHES_MAX):
        searches.enter()
    with pytest.raises(ApiProblem, match="searches run on this node already") as refused:
        searches.enter()
    assert refused.value.status == 429
    searches.leave()
    searches.enter()


def test_all_searches_share_one_byte_quota() -> None:
    searches = Searches()
    assert searches.debt(RECORDS_PER_SECOND // 10, 0, since=50.0, now=50.04) == pytest.approx(0.06)
    assert searches.debt(0, BYTES_PER_SECOND // 10, since=50.0, now=50.04) == pytest.approx(0.16)
    assert searches.debt(0, BYTES_PER_SECOND // 10, since=60.0, now=60.0) == pytest.approx(0.1), "nothing is saved up"
    assert searches.debt(0, BYTES_PER_SECOND // 10, since=70.0, now=71.0) == 0
