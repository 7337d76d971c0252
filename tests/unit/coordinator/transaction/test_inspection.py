"""ListTransactions by a pattern (KIP-1152): what it lists, and who is kept waiting by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from kraft.coordinator.regular_expression import RegularExpression
from tests.unit.coordinator.fakes import MemoryLog, MemoryWorld
from tests.unit.coordinator.service import run
from tests.unit.coordinator.transaction.coordinating import Markers, coordinating


class CountedThreads:
    """`world.ports.Threads` that tell when one is at work."""

    def __init__(self) -> None:
        self.at_work = 0

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        await trio.lowlevel.checkpoint()
        self.at_work += 1
        try:
            return function(*args)
        finally:
            self.at_work -= 1


def test_a_transactional_id_pattern_is_matched_in_a_worker_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        world, on_the_loop = MemoryWorld(), list[str]()
        threads = world.threads = CountedThreads()  # type: ignore[assignment]
        matches = RegularExpression.matches

        def watched(pattern: RegularExpression, text: str) -> bool:
            if not threads.at_work:
                on_the_loop.append(text)
            return matches(pattern, text)

        monkeypatch.setattr(RegularExpression, "matches", watched)
        async with coordinating(MemoryLog(), Markers(), 1, world) as coordinator:
            for transactional_id in ("orders-1", "orders-2", "other"):
                await coordinator.init_producer_id(transactional_id, 60_000, None)
            found = await coordinator.list_transactions([], [], -1, "orders-.*")
            assert [each.transactional_id for each in found.transaction_states] == ["orders-1", "orders-2"]
            assert on_the_loop == []

    run(scenario)
