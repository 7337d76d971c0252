"""What happens to the object store bites when requests meet it, and is over when it ends."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from jepsen.nemesis.injection import STORE, Context, Injection, NotHere, NotNow
from jepsen.nemesis.store import both, fails
from jepsen.s3_server import Fault, S3Server

OUT = fails("store-out", Fault.OUTAGE)


def context(store: S3Server | None) -> Context:
    cluster: Any = SimpleNamespace(nodes={}, store=store)
    nobody: Any = None
    return Context(cluster=cluster, observer=nobody, recorder=nobody, chance=random.Random(1))


def server() -> S3Server:
    return S3Server("http://proxy", "http://server")


@pytest.mark.parametrize("is_met", [True, False])
def test_a_store_fault_took_effect_if_a_request_met_it(is_met: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jepsen.nemesis.store.MET_SECONDS_MAX", 0.0)
    store = server()
    store.bites[Fault.OUTAGE] = 3
    injection = OUT(context(store))
    assert store.fault == Fault.OUTAGE
    store.bites[Fault.OUTAGE] += is_met
    assert injection.end() == is_met
    assert store.fault == Fault.NONE


def test_a_store_fault_lasts_until_a_request_meets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    store = server()
    pauses = []

    def pause(seconds: float) -> None:
        assert store.fault == Fault.OUTAGE
        pauses.append(seconds)
        store.bites[Fault.OUTAGE] += len(pauses) == 3

    injection = OUT(context(store))
    monkeypatch.setattr("jepsen.nemesis.store.time.sleep", pause)
    assert injection.end()
    assert len(pauses) == 3


def test_store_faults_run_one_at_a_time_and_need_a_store() -> None:
    with pytest.raises(NotHere):
        OUT(context(None))
    busy = context(server())
    busy.busy.add(STORE)
    with pytest.raises(NotNow) as refused:
        OUT(busy)
    assert not isinstance(refused.value, NotHere)


def other(told: list[Fault], store: S3Server, bit: bool) -> Any:
    def begin(_: Context) -> Injection:
        told.append(store.fault)

        def end() -> bool:
            told.append(store.fault)
            return bit

        return Injection(kind="kill", role="n1", busy=frozenset({1}), end=end)

    return begin


@pytest.mark.parametrize("bit", [True, False])
def test_another_fault_runs_within_a_store_fault(bit: bool) -> None:
    store, told = server(), list[Fault]()
    injection = both(OUT, other(told, store, bit))(context(store))
    assert (injection.kind, injection.busy) == ("store-out and kill", {STORE, 1})
    store.bites[Fault.OUTAGE] += 1
    assert injection.end() == bit
    assert told == [Fault.OUTAGE, Fault.OUTAGE]
    assert store.fault == Fault.NONE


def test_a_store_fault_is_not_started_without_a_target_for_the_other_fault() -> None:
    def nobody(_: Context) -> Injection:
        raise NotNow("no leader is free")

    store = server()
    with pytest.raises(NotNow):
        both(OUT, nobody)(context(store))
    assert store.fault == Fault.NONE
