"""An ordinary client that writes all the time, for tests that break a cluster meanwhile. It records what was
acknowledged, and the longest time without an acknowledgement."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from kraft.testing.foreign.librdkafka import Producer
from kraft.testing.foreign.process import ForeignProcess, Hung

WAIT_SECONDS_MAX: Final = 60.0
PAUSE_SECONDS: Final = 0.05
BETWEEN_RECORDS_SECONDS: Final = 0.002
"""Longest pause between records. The client's callbacks run in it."""


class Acknowledged(NamedTuple):
    """An acknowledged record. `offset` is None if librdkafka reports none: a retry was answered as a duplicate. `when`
    is a time of the monotonic clock."""

    value: bytes
    offset: int | None
    when: float


class SteadyWriter:
    """An idempotent producer that writes numbered records to one partition, one after another, for the length of a
    `with` block.

    It runs in a process of its own. If librdkafka hangs, another producer replaces it. The records that the first one
    had under way were never acknowledged, and their numbers are not written again.
    """

    def __init__(self, bootstrap: str, topic: str, partition: int = 0, **options: str | int | bool) -> None:
        """`options` are the client's properties, with underscores for dots."""
        fixed = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "enable.idempotence": True,
            "linger.ms": 0,
            "reconnect.backoff.max.ms": 500,
        }
        self._settings = {**fixed, **{name.replace("_", "."): value for name, value in options.items()}}
        self._producer = self._make()
        self._topic = topic
        self._partition = partition
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write, name="steady-writer")
        self.acknowledged: list[Acknowledged] = []
        self.failed: list[str] = []
        """The reasons for which records were permanently rejected."""

    def _make(self) -> Producer:
        return Producer(self._settings, process=ForeignProcess())

    def _write(self) -> None:
        number = 0
        while not self._stopped.is_set():
            try:
                self._write_one(number)
                number += 1
            except BufferError:
                pass  # The queue of the client is full: it waits for the cluster.
            except Hung:
                number += 1
                self._producer = self._make()

    def _write_one(self, number: int) -> None:
        try:
            self._producer.produce(self._topic, b"%d" % number, partition=self._partition, on_delivery=self._told)
        finally:
            self._producer.poll(BETWEEN_RECORDS_SECONDS)

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(Acknowledged(message.value(), message.offset(), time.monotonic()))
        else:
            self.failed.append(str(error))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        try:
            self._producer.flush(WAIT_SECONDS_MAX)
        except Hung:
            pass  # What it had under way is not acknowledged.
        finally:
            self._producer.process.close()

    def more(self, count: int) -> None:
        """Wait until `count` more records are acknowledged. Raises TimeoutError."""
        wanted, deadline = len(self.acknowledged) + count, time.monotonic() + WAIT_SECONDS_MAX
        while len(self.acknowledged) < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"no {count} more records acknowledged in {WAIT_SECONDS_MAX:g} s, failed: {self.failed[:3]}"
                )
            time.sleep(PAUSE_SECONDS)

    def longest_gap(self) -> float:
        """The longest time between two acknowledgements, in seconds."""
        times = sorted(each.when for each in self.acknowledged)
        return max((after - before for before, after in pairwise(times)), default=0.0)
