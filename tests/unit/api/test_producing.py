"""Records over HTTP, sent to a leader that is a test's."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from kraft_http.app import create_app
from kraft_http.records.producing import UNHEARD_PAUSES

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.api.consuming_port import CLUSTER, Log, Port


class Leader(Port):
    """Answers with these error codes, one after the other, and then takes what comes."""

    def __init__(self, *codes: int) -> None:
        super().__init__(Log())
        self.codes = list(codes)

    def now_ms(self) -> int:
        return 0

    async def call(self, api_key: int, version: int, request: Any, *, node_id: int | None = None) -> Any:
        if api_key != ApiKey.PRODUCE:
            return await super().call(api_key, version, request, node_id=node_id)
        self.asked.append(api_key)
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        answer = PartitionProduceResponse(index=0, error_code=code, base_offset=7)
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[answer])])


def posted(port: Leader) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        transport = httpx.ASGITransport(app=create_app(port, lambda event: None))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
            answer = await client.post(f"/v3/clusters/{CLUSTER}/topics/t/records", json={})
        found: dict[str, Any] = json.loads(answer.text)
        return found

    return asyncio.run(main())


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft_http.records.producing.UNHEARD_PAUSES", (0.0,) * len(UNHEARD_PAUSES))


def test_a_produce_to_a_leader_without_the_topics_metadata_is_retried() -> None:
    port = Leader(*[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * len(UNHEARD_PAUSES))
    assert posted(port)["offset"] == 7
    assert port.asked.count(ApiKey.PRODUCE) == len(UNHEARD_PAUSES) + 1
    port = Leader(*[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 99)
    assert posted(port)["error_code"] == 40403
    assert port.asked.count(ApiKey.PRODUCE) == len(UNHEARD_PAUSES) + 1


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT])
def test_a_produce_with_an_unknown_outcome_is_not_repeated(code: int) -> None:
    port = Leader(code)
    assert posted(port)["error_code"] != 200
    assert port.asked.count(ApiKey.PRODUCE) == 1
