"""Consumers that outlive a task. Spark reuses its Python workers, and opening a client costs more than reading a
small range.

One worker runs one task at a time, so a pool holds one idle consumer per configuration in all but odd cases; more
than `IDLE_MAX` are closed, the oldest first.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer

IDLE_MAX = 4


class ConsumerPool:
    """Idle consumers by configuration. Owned by one Python worker; never crosses a fork, because clients are opened
    only in tasks."""

    def __init__(self) -> None:
        self.idle: list[tuple[tuple[tuple[str, str], ...], Consumer]] = []

    def take(self, config: Mapping[str, str]) -> Consumer:
        """An idle consumer with this configuration, or a new one. Give it back, or close it after an error."""
        key = tuple(sorted(config.items()))
        for index, (known, consumer) in enumerate(self.idle):
            if known == key:
                del self.idle[index]
                return consumer
        return Consumer(dict(config))

    def give_back(self, config: Mapping[str, str], consumer: Consumer) -> None:
        """Keep it for the next task; it reads nothing meanwhile."""
        consumer.unassign()
        self.idle.append((tuple(sorted(config.items())), consumer))
        while len(self.idle) > IDLE_MAX:
            self.idle.pop(0)[1].close()


# One per Python worker process, by intent: Spark offers no other place to keep a client between tasks.
POOL = ConsumerPool()
