"""Metrics of the transactions that a node coordinates, gathered for each scrape, and of their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from kraft.common.metrics import Family, LabelValues, MetricsRegistry
from kraft.coordinator.transaction.activity import TransactionActivity
from kraft.coordinator.transaction.shard import TransactionShardState
from kraft.coordinator.transaction.transaction import State

IDS_A_SLICE: Final = 500


def register_transaction_activity(registry: MetricsRegistry, activity: TransactionActivity) -> None:
    registry.counters(
        "kraft_transactions_ended_total",
        "Transactions whose markers this coordinator has written, by outcome.",
        ("outcome",),
        lambda: [((outcome,), count) for outcome, count in activity.ended.items()],
    )
    registry.counters(
        "kraft_transactions_timed_out_total",
        "Transactions that this coordinator aborted, because they took longer than their producers allowed.",
        (),
        lambda: [((), activity.timed_out)],
    )


async def transaction_families(shards: Sequence[TransactionShardState], now_ms: int) -> list[Family]:
    """Transactional ids by state, and the age of the oldest open transaction. Yields after every slice."""
    counts = dict.fromkeys(State, 0)
    oldest_ms, seen = now_ms, 0
    for shard in shards:
        for transaction in shard.transactions.values():  # unordered: they are counted
            counts[transaction.state] += 1
            if transaction.state is State.ONGOING:
                oldest_ms = min(oldest_ms, transaction.started_ms)
            if (seen := seen + 1) % IDS_A_SLICE == 0:
                await trio.lowlevel.checkpoint()
    states: list[tuple[LabelValues, float]] = [((state.name.lower(),), count) for state, count in counts.items()]
    by_state = Family(
        "kraft_transactions", "gauge", "Transactional ids that are coordinated here, by state.", ("state",)
    )
    by_state.read = states.__iter__
    age = Family(
        "kraft_transaction_oldest_seconds", "gauge", "Age of the oldest open transaction that is coordinated here.", ()
    )
    age.read = [((), (now_ms - oldest_ms) / 1000)].__iter__
    return [by_state, age]
