"""`kraft clients` over two brokers, of which one may not answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kraft.cli.admin.app import main
from kraft.common.status_keys import CLIENT, CLIENTS
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest
from kraft.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kraft.rpc_client.connection import Disconnected
from tests.unit.cli.admin.asked import asker

FIELDS = {
    **dict.fromkeys(("software_name", "software_version", "address", "port"), ""),
    **dict.fromkeys(("interval_ms", "idle_ms", "pushes", "error_code", "metrics_count", "left_out"), 0),
    **dict.fromkeys(("latency_ms", "throttle_ms", "record_rate", "errors", "lag"), None),
    "terminating": False,
    "subscriptions": ["all"],
    "nodes": [1],
    "labels": {},
    "metrics": [],
}


def client(name: str, broker: int, **fields: Any) -> dict[str, Any]:
    return FIELDS | {"instance_id": f"id-{name}", "client_id": name, "broker_id": broker} | fields


class Brokers:
    """The clients by broker; None: it does not answer."""

    def __init__(self, clients: dict[int, list[dict[str, Any]] | None]) -> None:
        self.clients = clients
        self.looks = 0

    async def answer(self, request: Any, node_id: int | None) -> Any:
        assert isinstance(request, DescribeConfigsRequest)
        [resource] = request.resources
        [key] = resource.configuration_keys or ()
        found = self.clients[node_id or 0]
        if found is None:
            raise Disconnected("connection refused")
        if key == CLIENT:
            found = [each for each in found if each["instance_id"] == resource.resource_name]
        else:
            assert key == CLIENTS
            self.looks += 1
        document = json.dumps({"clients": found, "clients_count": len(found)})
        entry = DescribeConfigsResourceResult(name=f"{key}.0", value=document)
        return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=[entry])])


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, brokers: Brokers, *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr("kraft.cli.admin.cluster.clients.ask", asker({}, brokers.answer))
    code = main(("clients", *words))
    written = capsys.readouterr()
    return code, written.out, written.err


@pytest.mark.parametrize("words", [("list",), ("top", "--looks", "1"), ("describe", "id-a")])
def test_brokers_that_do_not_answer_are_named(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers({1: [client("a", 1)], 2: None})
    code, out, err = run(capsys, monkeypatch, brokers, *words, "-o", "json")
    assert code == 0
    assert json.loads(out)["unanswered_brokers"] == [{"node_id": 2, "detail": "connection refused"}]
    code, _, err = run(capsys, monkeypatch, brokers, *words)
    assert (code, "broker 2 did not answer, so its data is missing here: connection refused" in err) == (0, True)
    code, out, err = run(capsys, monkeypatch, Brokers({1: [client("a", 1)], 2: []}), *words, "-o", "json")
    assert (code, json.loads(out)["unanswered_brokers"], err) == (0, [], "")


@pytest.mark.parametrize("words", [("list",), ("top",), ("describe", "id-a")])
def test_a_failure_names_the_brokers_that_did_not_answer(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = run(capsys, monkeypatch, Brokers({1: None, 2: None}), *words)
    assert code != 0
    assert "broker 1 did not answer: connection refused; broker 2 did not answer: connection refused" in err


def test_top_shows_the_slowest_clients_of_all_brokers_in_every_update(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers(
        {
            1: [client("quick", 1, latency_ms=1.5), client("mute", 1)],
            2: [client("slow", 2, latency_ms=90.0, lag=1.0), client("late", 2, latency_ms=2.0, lag=70.0)],
        }
    )
    code, out, _ = run(capsys, monkeypatch, brokers, "top", "--looks", "2", "-o", "json")
    first, second = (json.loads(line) for line in out.splitlines())
    assert (code, brokers.looks, first) == (0, 4, second)
    assert [each["client_id"] for each in first["clients"]] == ["slow", "late", "quick", "mute"]
    _, out, _ = run(capsys, monkeypatch, brokers, "top", "--looks", "1", "--by", "lag", "--rows", "2")
    head, *rows = out.splitlines()
    assert [row.split("\t")[0] for row in rows if "\t" in row][-2:] == ["late", "slow"]
    assert "THROTTLE MS" in head or "THROTTLE MS" in rows[0]
    _, out, _ = run(capsys, monkeypatch, brokers, "top", "--looks", "1", "--by", "throttle", "-o", "table")
    assert "THROTTLE MS" in out
