"""Clients that push their metrics, told by several brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from kraft.admin import clients as module
from kraft.admin.clients import describe_client, list_clients
from kraft.admin.configs import Resource
from kraft.common.status_keys import CLIENT, CLIENTS


class Port:
    async def broker_ids(self) -> list[int]:
        return [1, 2]

    async def ask_brokers(self, ask: Callable[[int], Awaitable[Any]], broker_ids: Iterable[int]) -> list[Any]:
        return [await ask(each) for each in broker_ids]


def told(instance_id: str, client_id: str, broker_id: int, idle_ms: int, pushes: int = 1) -> dict[str, Any]:
    return {
        "instance_id": instance_id,
        "client_id": client_id,
        "broker_id": broker_id,
        "idle_ms": idle_ms,
        "pushes": pushes,
        "subscriptions": ["s"],
        "labels": {"group_id": "g"},
        "metrics": [{"name": "m", "attributes": {"a": "b"}, "value": 1.5, "type": "gauge"}],
    }


def answers(monkeypatch: pytest.MonkeyPatch, key: str, by_broker: dict[int, list[dict[str, Any]] | None]) -> None:
    async def ask(_port: Any, asked: str, resources: list[Resource], broker: int | None) -> list[Any] | None:
        assert asked == key
        assert len(resources) == 1
        assert broker is not None
        found = by_broker[broker]
        return None if found is None else [{"clients": found, "clients_count": len(found)}]

    monkeypatch.setattr(module, "ask_status", ask)


def test_a_client_that_changed_its_broker_is_listed_once_with_the_new_brokers_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved = [told("i", "b", 1, 9_000)], [told("i", "b", 2, 5), told("j", "a", 2, 7)]
    answers(monkeypatch, CLIENTS, {1: moved[0], 2: moved[1]})
    found = asyncio.run(list_clients(Port()))  # type: ignore[arg-type]
    assert found is not None
    assert [(each.instance_id, each.broker_id) for each in found.clients] == [("j", 2), ("i", 2)]
    assert found.count == 2


def test_a_client_is_listed_with_the_report_of_the_broker_to_which_it_pushed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_broker = {1: [told("i", "b", 1, 5, pushes=0)], 2: [told("i", "b", 2, 9_000)]}
    answers(monkeypatch, CLIENTS, dict(by_broker))
    listed = asyncio.run(list_clients(Port()))  # type: ignore[arg-type]
    assert listed is not None
    assert [each.broker_id for each in listed.clients] == [2]
    answers(monkeypatch, CLIENT, dict(by_broker))
    described = asyncio.run(describe_client(Port(), "i"))  # type: ignore[arg-type]
    assert described is not None
    assert described.client.broker_id == 2


def test_brokers_without_client_reports_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, CLIENTS, {1: None, 2: []})
    found = asyncio.run(list_clients(Port()))  # type: ignore[arg-type]
    assert found is not None
    assert found.clients == ()
    answers(monkeypatch, CLIENTS, {1: None, 2: None})
    assert asyncio.run(list_clients(Port())) is None  # type: ignore[arg-type]


def test_a_client_is_described_by_the_broker_to_which_it_pushed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, CLIENT, {1: [told("i", "b", 1, 9_000)], 2: [told("i", "b", 2, 5)]})
    found = asyncio.run(describe_client(Port(), "i"))  # type: ignore[arg-type]
    assert found is not None
    assert (found.client.broker_id, found.labels) == (2, {"group_id": "g"})
    assert [(each.name, each.attributes, each.value) for each in found.metrics] == [("m", {"a": "b"}, 1.5)]
    answers(monkeypatch, CLIENT, {1: [], 2: None})
    assert asyncio.run(describe_client(Port(), "i")) is None  # type: ignore[arg-type]
