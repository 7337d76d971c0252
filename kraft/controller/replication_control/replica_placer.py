"""The placement of new partitions' replicas: Kafka's striped, rack-aware placement.

Partitions rotate over the racks, and within a rack over its brokers. Each partition starts one position after the
previous one. The starting points are random.

Unfenced brokers come before fenced ones. The first replica (the preferred leader) is always on an unfenced broker. No
partition has two replicas on one broker. Brokers without a rack form one rack of their own.

After as many partitions as there are unfenced brokers, the order is shuffled, so that the same pairs do not always
follow each other.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode


class UsableBroker(NamedTuple):
    """A broker that may receive replicas: registered, not shutting down, with a directory that is not cordoned."""

    id: int
    rack: str | None
    fenced: bool


class ReplicaPlacer(Protocol):
    def place(self, partitions: int, replicas: int, brokers: Sequence[UsableBroker]) -> Iterator[tuple[int, ...]]:
        """Return the replica lists of `partitions` new partitions, each placed when it is requested. Raises
        ApiError(INVALID_REPLICATION_FACTOR) immediately."""


class StripedReplicaPlacer:
    """The placement described above. `source` is its only source of randomness."""

    __slots__ = ("_random",)

    def __init__(self, source: random.Random) -> None:
        self._random = source

    def place(self, partitions: int, replicas: int, brokers: Sequence[UsableBroker]) -> Iterator[tuple[int, ...]]:
        if replicas <= 0:
            raise _refused(f"Invalid replication factor {replicas}: the replication factor must be positive.")
        if all(broker.fenced for broker in brokers):
            raise _refused("All brokers are currently fenced, or have all their log directories cordoned.")
        if replicas > len(brokers):
            raise _refused(
                f"The target replication factor of {replicas} cannot be reached because only {len(brokers)} "
                "broker(s) are registered "
                "or some brokers have all their log directories cordoned."
            )
        racks = _Racks(self._random, brokers)
        return (racks.place(replicas) for _ in range(partitions))


def _refused(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


class _Ring:
    """Returns brokers one after another within a turn. The next turn starts one position later."""

    __slots__ = ("_brokers", "_index", "_start", "_turn")

    def __init__(self, brokers: Sequence[int], source: random.Random) -> None:
        self._brokers = sorted(brokers)
        self._start = source.randrange(len(brokers)) if brokers else 0
        self._index = 0
        self._turn = 0

    def next(self, turn: int) -> int | None:
        """Return the next broker of this turn, or None if all have been returned."""
        if not self._brokers:
            return None
        if turn != self._turn:
            self._turn = turn
            self._index = 0
            self._start = (self._start + 1) % len(self._brokers)
        if self._index >= len(self._brokers):
            return None
        broker = self._brokers[(self._index + self._start) % len(self._brokers)]
        self._index += 1
        return broker

    def shuffle(self, source: random.Random) -> None:
        source.shuffle(self._brokers)


class _Rack:
    __slots__ = ("fenced", "unfenced")

    def __init__(self, brokers: Sequence[UsableBroker], source: random.Random) -> None:
        self.fenced = _Ring([broker.id for broker in brokers if broker.fenced], source)
        self.unfenced = _Ring([broker.id for broker in brokers if not broker.fenced], source)

    def next(self, turn: int) -> int | None:
        broker = self.unfenced.next(turn)
        return self.fenced.next(turn) if broker is None else broker


class _Racks:
    """All racks, and the rack at which the next partition starts."""

    __slots__ = ("_offset", "_racks", "_random", "_turn", "_unfenced_count")

    def __init__(self, source: random.Random, brokers: Sequence[UsableBroker]) -> None:
        by_name: dict[str | None, list[UsableBroker]] = {}
        for broker in sorted(brokers):
            by_name.setdefault(broker.rack, []).append(broker)
        names = sorted(by_name, key=lambda name: (name is not None, name or ""))
        self._random = source
        self._racks = [_Rack(by_name[name], source) for name in names]
        self._unfenced_count = sum(not broker.fenced for broker in brokers)
        self._offset = source.randrange(len(self._racks))
        self._turn = 0

    def place(self, replicas: int) -> tuple[int, ...]:
        """Return the replicas of one partition, leader first."""
        if self._turn == self._unfenced_count and self._unfenced_count > 1:
            self._shuffle()
        self._offset %= len(self._racks)
        first, leader = self._leader()
        placed = [leader]
        position = self._offset
        while len(placed) < replicas:
            if position == first:
                first = -1  # The leader's rack has had its turn and is skipped once.
                broker = None
            else:
                broker = self._racks[position].next(self._turn)
            position = (position + 1) % len(self._racks)
            if broker is not None:
                placed.append(broker)
        self._turn += 1
        self._offset += 1
        return tuple(placed)

    def _leader(self) -> tuple[int, int]:
        position = self._offset
        while True:  # Terminates: at least one broker is unfenced, and each turn restarts its rings.
            broker = self._racks[position].unfenced.next(self._turn)
            if broker is not None:
                return position, broker
            position = (position + 1) % len(self._racks)

    def _shuffle(self) -> None:
        self._random.shuffle(self._racks)
        for rack in self._racks:
            rack.fenced.shuffle(self._random)
            rack.unfenced.shuffle(self._random)
        self._turn = 0
