"""The settings of the transaction coordinator, under Kafka's names with dots as underscores."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    abort_timed_out_interval_ms: int = 10_000
    """transaction.abort.timed.out.transaction.cleanup.interval.ms."""
    remove_expired_interval_ms: int = 3_600_000
    """transaction.remove.expired.transaction.cleanup.interval.ms."""
    request_timeout_ms: int = 30_000
    two_phase_commit: bool = False
    """transaction.two.phase.commit.enable (KIP-939)."""
