"""The map type of images, always iterated in key order.

`immutables.Map` shares structure between versions, but its iteration order depends on the hash seed of the process.
That order must never be visible in an image. So images use an `OrderedMap`, which sorts its keys at the first iteration
and keeps them, since a map never changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from immutables import Map

from kraft.world.steps import Steps

if TYPE_CHECKING:
    from immutables import MapMutation

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

SORTED_AT_ONCE: Final = 5000
"""Keys sorted in one step. That takes two to four milliseconds."""


class OrderedMap(Generic[K, V]):
    """An immutable map, iterated in ascending key order. A changed copy costs O(log n). Keys must be hashable and
    mutually comparable."""

    __slots__ = ("_keys", "_map", "get")

    def __init__(self, source: Map[K, V] | Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._map: Map[K, V] = source if isinstance(source, Map) else Map(source)
        self._keys: tuple[K, ...] | None = None
        self.get = self._map.get  # type: ignore[method-assign]  # No call of Python for the commonest question.

    def __reduce__(self) -> tuple[type[OrderedMap[K, V]], tuple[Map[K, V]]]:
        return OrderedMap, (self._map,)

    def __getitem__(self, key: K) -> V:
        return self._map[key]

    if TYPE_CHECKING:

        @overload
        def get(self, key: K) -> V | None: ...
        @overload
        def get(self, key: K, default: D) -> V | D: ...
        def get(self, key: K, default: Any = None) -> Any: ...

    def __contains__(self, key: object) -> bool:
        return key in self._map

    def __len__(self) -> int:
        return len(self._map)

    def __bool__(self) -> bool:
        return len(self._map) > 0

    def keys(self) -> tuple[K, ...]:
        """All keys, ascending. Sorted at the first use, then kept."""
        if self._keys is None:
            self._keys = tuple(sorted(self._map.keys()))  # type: ignore[type-var]  # Keys are comparable by contract.
        return self._keys

    def sort(self) -> Steps[None]:
        """Sort the keys in steps before their first use, if there are more than SORTED_AT_ONCE. Yields twice for each
        key, so that a caller that counts yields has no long step."""
        if self._keys is not None or len(self._map) <= SORTED_AT_ONCE:
            return
        unsorted: Iterator[Any] = iter(self._map.keys())  # unordered: sorted in runs, which are merged
        runs: list[list[Any]] = []
        while run := list(islice(unsorted, SORTED_AT_ONCE)):
            run.sort()
            runs.append(run)
            for _ in run:
                yield None
        merged: list[K] = []
        for key in heapq.merge(*runs):
            merged.append(key)
            yield None
        self._keys = tuple(merged)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def items(self) -> Iterator[tuple[K, V]]:
        table = self._map
        return ((key, table[key]) for key in self.keys())

    def values(self) -> Iterator[V]:
        table = self._map
        return (table[key] for key in self.keys())

    def set(self, key: K, value: V) -> OrderedMap[K, V]:
        return OrderedMap(self._map.set(key, value))

    def without(self, key: K) -> OrderedMap[K, V]:
        """Return the map without `key`; the same map if the key is absent."""
        return OrderedMap(self._map.delete(key)) if key in self._map else self

    def mutate(self) -> MapMutation[K, V]:
        """Return a private mutable copy in O(1). `OrderedMap(mutation.finish())` makes it a value again."""
        return self._map.mutate()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, OrderedMap) and self._map == other._map)

    def __hash__(self) -> int:
        return hash(self._map)

    def __repr__(self) -> str:
        return "OrderedMap({" + ", ".join(f"{key!r}: {value!r}" for key, value in self.items()) + "})"
