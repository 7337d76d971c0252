"""Digests that must be equal on all replicas of a partition at the end of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from kraft.protocol.messages.fetch_response import AbortedTransaction
from kraft.rpc_client.fetched import visible_batches
from kraft.storage.unified_log import UnifiedLog

Digest = Callable[[UnifiedLog, bytes], str]
"""Digest of a log from the log start that all replicas have."""


def of_batches(log: UnifiedLog, data: bytes) -> str:
    """Digest of all batches, byte by byte."""
    return _digest(data)


def of_committed(log: UnifiedLog, data: bytes) -> str:
    """Digest of what readers of committed records see, for a topic in which no record supersedes another: each
    replica's cleaner removes aborted records at its own time."""
    found = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    aborted = [AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in found]
    records = [
        (record.offset, record.key, record.value)
        for batch, is_visible in visible_batches(data, aborted)
        if is_visible
        for record in batch.records()
    ]
    return _digest(repr(records).encode())


def of_nothing(log: UnifiedLog, data: bytes) -> str:
    """Empty digest for compacted topics: each replica compacts on its own, so only ends, producers and epochs are
    compared."""
    return ""


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()
