"""How long the command line goes on with a record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from kraft.cli.admin.app import main as kraft
from kraft.cli.admin.records import perf, produce


class Opened(Exception):
    """In place of a producer."""


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (("produce", "flights"), (30, 120)),
        (("produce", "flights", "--timeout", "7"), (7, 7)),
        (("perf", "produce", "flights", "-n", "1"), (30, 120)),
        (("perf", "produce", "flights", "-n", "1", "--timeout", "7"), (7, 7)),
    ],
)
def test_a_record_is_retried_longer_than_a_frozen_leader_keeps_its_lead(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], seconds: tuple[float, float]
) -> None:
    """`seconds` bound other requests, and a record."""
    seen: list[float] = []

    def ask(_: str, timeout: float, question: Callable[[Any], Awaitable[Any]], **__: Any) -> None:
        seen.append(timeout)
        trio.run(question, None)

    def open_producer(*_: Any, delivery_seconds: float, **__: Any) -> Any:
        seen.append(delivery_seconds)
        raise Opened

    for module in (produce, perf):
        monkeypatch.setattr(module, "ask", ask)
        monkeypatch.setattr(module, "open_producer", open_producer)
    monkeypatch.setattr(perf, "_payloads", lambda *_: [b""])
    with pytest.raises(Opened):
        kraft([*words])
    assert tuple(seen) == seconds
