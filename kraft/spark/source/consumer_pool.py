"""Consumers that are reused across tasks. Spark reuses its Python workers, and opening a client costs more than reading
a small range.

A worker runs one task at a time, so a pool normally holds one idle consumer per configuration. If more than `IDLE_MAX`
are idle, the oldest are closed.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer

IDLE_MAX = 4


class ConsumerPool:
    """Idle consumers by configuration. Owned by one Python worker. Clients are opened only in tasks, so none crosses a
    fork."""

    def __init__(self) -> None:
        self.idle: list[tuple[tuple[tuple[str, str], ...], Consumer]] = []

    def take(self, config: Mapping[str, str]) -> Consumer:
        """Return an idle consumer with this configuration, or a new one. Return it with `give_back`; close it after an
        error."""
        key = tuple(sorted(config.items()))
        for index, (known, consumer) in enumerate(self.idle):
            if known == key:
                del self.idle[index]
                return consumer
        return Consumer(dict(config))

    def give_back(self, config: Mapping[str, str], consumer: Consumer) -> None:
        """Keep the consumer for the next task. Its partitions are unassigned, so it fetches nothing meanwhile."""
        consumer.unassign()
        self.idle.append((tuple(sorted(config.items())), consumer))
        while len(self.idle) > IDLE_MAX:
            self.idle.pop(0)[1].close()


# One per Python worker process, by intent: Spark offers no other place to keep a client between tasks.
POOL = ConsumerPool()
