"""Faults of the object store of a tiered topic, alone or with faults of nodes. One had an effect if requests met it:
the proxy before the store counts them."""

from __future__ import annotations

import time
from collections.abc import Callable

from jepsen.nemesis.injection import STORE, Context, Injection, NotNow, grown
from jepsen.s3_server import Fault

Begin = Callable[[Context], Injection]

MET_SECONDS_MAX = 10.0
"""How much longer a fault lasts that no request has met yet: killed nodes have to start first."""


def fails(kind: str, fault: Fault) -> Begin:
    """Let all requests of nodes to the store meet the fault."""

    def begin(context: Context) -> Injection:
        store = context.store()
        met = grown(lambda: store.bites[fault])
        store.fault = fault

        def end() -> bool:
            deadline = time.monotonic() + MET_SECONDS_MAX
            while not met() and time.monotonic() < deadline:
                time.sleep(0.05)
            store.fault = Fault.NONE
            return met()

        return Injection(kind=kind, role=fault.value, busy=frozenset({STORE}), end=end)

    return begin


def both(store_fails: Begin, other: Begin) -> Begin:
    """Inject the other fault while the store has its own. The store's ends last, so that nodes return without the
    store. It had an effect if both had."""

    def begin(context: Context) -> Injection:
        first = store_fails(context)
        try:
            second = other(context)
        except NotNow:
            first.end()
            raise

        def end() -> bool:
            second_bit = second.end()
            return first.end() and second_bit

        return Injection(
            kind=f"{first.kind} and {second.kind}",
            role=f"{first.role}; {second.role}",
            busy=first.busy | second.busy,
            end=end,
        )

    return begin
