"""Who writes a micro-batch, as the brokers see it: a producer id and an epoch that every attempt of the same task of
the same batch arrives at by itself.

Kafka's idempotence is per (producer id, epoch, sequence) and partition: a leader appends a sequence only right after
the one before it, and once. So if every attempt - a retried task, a speculative copy, a replay after kill -9, a
zombie of the driver before - numbers the same rows alike under the same id, the log takes each row once, whoever
sends it. The id is a hash, because nothing but the log is shared by all attempts: 62 bits of SHA-256 of the query's
id (it lives in the checkpoint), the task's index, the number of partitions that rows were spread over, and the
batch's era; the bit above them is set, where no controller ever gives out ids (they count up from 0). The epoch is
the batch's place in its era, so a later batch fences an earlier one. docs/adr has the reasons.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from typing import NamedTuple

EPOCHS = 32767
"""Batches in an era: epochs run from 0 to 32766."""
ID_FLAG = 1 << 62
COUNTS_MIN = 1000
"""So many numbers of partitions are thought of at least."""


class BatchIdentity(NamedTuple):
    """One task of one micro-batch. `sink` tells several writes of one batch apart (foreachBatch); empty for a
    streaming sink."""

    query: str
    batch: int
    task: int
    sink: str = ""

    @property
    def epoch(self) -> int:
        return self.batch % EPOCHS

    def producer_id(self, partitions: int) -> int:
        """The id under which rows are spread over `partitions` partitions."""
        text = "\0".join((self.query, self.sink, str(self.task), str(self.batch // EPOCHS), str(partitions)))
        return ID_FLAG | int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 2

    def __str__(self) -> str:
        return f"batch {self.batch} of query {self.query}, task {self.task}"


def counts_by_id(identity: BatchIdentity, now: int) -> Mapping[int, int]:
    """The numbers of partitions that rows may have been spread over, by the ids that attempts take for them. The
    topic has `now`, and may have more than the broker knows that said so. The same for all batches of an era."""
    return _counts_by_id(identity._replace(batch=identity.batch // EPOCHS * EPOCHS), max(COUNTS_MIN, 2 * now))


@functools.lru_cache(maxsize=32)
def _counts_by_id(identity: BatchIdentity, most: int) -> Mapping[int, int]:
    return {identity.producer_id(count): count for count in range(1, most + 1)}
