"""Clients' own metrics at /metrics: bounded, and with names that Prometheus takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
import trio

from kraft.common.metrics import Family, render_prometheus
from kraft.server.metrics import client_families as module
from kraft.server.metrics.client_families import LEFT_OUT, OTHERS, client_families
from kraft.telemetry.instances import Client, Instance
from kraft.telemetry.otlp import Attributes

Values = Mapping[tuple[str, Attributes], float]


def instance(client_id: str, values: Values, rising: Iterable[str] = ()) -> Instance:
    made = Instance(client_id.encode(), Client({"client_id": client_id}), (), ("*",), 1000, 1, 1)
    made.values, made.monotonic = dict(values), frozenset(rising)
    return made


def series(*instances: Instance) -> dict[str, dict[tuple[str, ...], float]]:
    families: list[Family] = trio.run(client_families, instances)
    return {each.name: dict(each.read()) for each in families if each.read is not None}


def test_instances_with_one_client_id_share_a_series_sums_added_and_others_at_their_largest() -> None:
    found = series(
        *(instance("a", {("sent", ()): value, ("latency", ()): value}, ["sent"]) for value in (1.0, 5.0, 2.0))
    )
    assert found["kraft_client_sent"] == {("a",): 8.0}
    assert found["kraft_client_latency"] == {("a",): 5.0}


def test_clients_beyond_the_limit_share_one_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS_MAX", 1)
    busy = instance("busy", {("m", ()): 1.0, ("n", ()): 1.0})
    found = series(instance("a", {("m", ()): 3.0}), busy, instance("b", {("m", ()): 4.0}))
    assert found["kraft_client_m"] == {("busy",): 1.0, (OTHERS,): 4.0}


@pytest.mark.parametrize("limit", ["FAMILIES_MAX", "SERIES_MAX"])
def test_series_beyond_the_limits_are_counted(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(module, limit, 2)
    found = series(instance("a", {(name, ()): 1.0 for name in "abcd"}))
    assert len(found) == 3
    assert found[LEFT_OUT] == {(): 2}


def test_names_that_clients_choose_cannot_break_the_text() -> None:
    strange: Values = {
        ('x{a="b"}\n# y', (("client_id", "z"), ("__name__", "z"), ("1st", "z"), ("a b", 'q"\n'))): 1.0,
        ('x{a="b"}\n# y', ()): 2.0,
    }
    families: list[Family] = trio.run(client_families, [instance('c"\n', strange)])
    lines = "".join(render_prometheus(families, 10)).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        'kraft_client_x_a_b_y{a_b="q\\"\\n",client_id="c\\"\\n"} 1',
        'kraft_client_x_a_b_y{a_b="",client_id="c\\"\\n"} 2',
        f"{LEFT_OUT} 0",
    ]
