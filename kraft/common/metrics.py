"""The metrics of one node: plain integers in slots, read at a scrape.

A hot path keeps the `Counter` it needs and adds to `.value`; nothing is looked up, locked or timed there. Gauges are
functions called at a scrape. Histograms count into fixed buckets. A `MetricsRegistry` belongs to a node, never to a
module. `render_prometheus` writes the text format in pieces, so that the caller can yield between them (a scrape of
many series must not block the loop).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

LabelValues = tuple[str, ...]
WHOLE_MAX: Final = 10**15
"""The largest number that is written as an integer. Larger ones are written as floats."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9._/-]*", re.ASCII)


class Counter:
    """A counter that only rises. `counter.value += n` is the whole interface of the hot path."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> None:
        self.value += amount


class Histogram:
    """The number of values up to each bound, and their sum. A family's histograms share the bounds."""

    __slots__ = ("_bounds", "buckets", "count", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.count = 0
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.buckets[bisect_left(self._bounds, value)] += 1
        self.count += 1
        self.sum += value

    def add(self, other: Histogram) -> None:
        """Add the counts of another histogram with the same bounds."""
        for index, count in enumerate(other.buckets):
            self.buckets[index] += count
        self.count += other.count
        self.sum += other.sum

    def quantile(self, share: float) -> float:
        """The smallest bound that at least `share` of the values do not exceed; the largest bound if there is none."""
        wanted, seen = share * self.count, 0
        for bound, bucket in zip(self._bounds, self.buckets, strict=False):
            seen += bucket
            if seen >= wanted:
                return bound if self.count else 0.0
        return self._bounds[-1]


SECONDS_BOUNDS: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)


class Family:
    """One metric name with its labelled children."""

    __slots__ = ("bounds", "children", "help", "kind", "labels", "name", "read")

    def __init__(self, name: str, kind: str, help_text: str, labels: tuple[str, ...]) -> None:
        self.name = name
        self.kind = kind
        self.help = help_text
        self.labels = labels
        self.children: dict[LabelValues, Counter | Histogram] = {}
        self.bounds: tuple[float, ...] = SECONDS_BOUNDS
        self.read: Callable[[], Iterable[tuple[LabelValues, float]]] | None = None


class MetricsRegistry:
    """All metrics of one node, by name. Requests for the same name return the same family; a different kind or labels
    are a programming error."""

    __slots__ = ("_families",)

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def _family(self, name: str, kind: str, help_text: str, labels: tuple[str, ...]) -> Family:
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = Family(name, kind, help_text, labels)
        assert (family.kind, family.labels) == (kind, labels), name
        return family

    def counter(self, name: str, help_text: str, labels: tuple[str, ...] = (), values: LabelValues = ()) -> Counter:
        """The counter of these label values, created on first use; keep it."""
        family = self._family(name, "counter", help_text, labels)
        child = family.children.get(values)
        if child is None:
            child = family.children[values] = Counter()
        assert isinstance(child, Counter)
        return child

    def histogram(self, name: str, help_text: str, labels: tuple[str, ...] = (), values: LabelValues = ()) -> Histogram:
        family = self._family(name, "histogram", help_text, labels)
        child = family.children.get(values)
        if child is None:
            child = family.children[values] = Histogram(family.bounds)
        assert isinstance(child, Histogram)
        return child

    def register_histogram(self, name: str, help_text: str, histogram: Histogram, bounds: tuple[float, ...]) -> None:
        """Register a histogram that is kept elsewhere. `bounds` are those of the histogram."""
        family = self._family(name, "histogram", help_text, ())
        family.bounds = bounds
        family.children[()] = histogram

    def gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Register a number that is read at each scrape."""
        self.gauges(name, help_text, (), lambda: [((), read())])

    def gauges(
        self,
        name: str,
        help_text: str,
        labels: tuple[str, ...],
        read: Callable[[], Iterable[tuple[LabelValues, float]]],
    ) -> None:
        """Register numbers with labels that are read at each scrape."""
        self._family(name, "gauge", help_text, labels).read = read

    def counters(
        self,
        name: str,
        help_text: str,
        labels: tuple[str, ...],
        read: Callable[[], Iterable[tuple[LabelValues, float]]],
    ) -> None:
        """Register counters with labels that are kept elsewhere and read at each scrape."""
        self._family(name, "counter", help_text, labels).read = read

    def drop(self, name: str, values: LabelValues) -> None:
        """Remove the series of these label values, as of a deleted topic."""
        family = self._families.get(name)
        if family is not None:
            family.children.pop(values, None)

    def families(self) -> list[Family]:
        return [self._families[name] for name in sorted(self._families)]

    def value(self, name: str, values: LabelValues = ()) -> float:
        """The value of one series, for tests and the status page. Raises KeyError."""
        family = self._families[name]
        if family.read is not None:
            return dict(family.read())[values]
        child = family.children[values]
        return child.value if isinstance(child, Counter) else child.count


def render_prometheus(families: Iterable[Family], series_per_piece: int = 50) -> Iterator[str]:
    """The text exposition format, in pieces of about that many series."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escape_help(family.help)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for line in _series(family):
            lines.append(line)
            if len(lines) >= series_per_piece:
                yield "\n".join(lines) + "\n"
                lines = []
    if lines:
        yield "\n".join(lines) + "\n"


def _series(family: Family) -> Iterator[str]:
    if family.read is not None:
        for values, number in family.read():
            yield f"{family.name}{_labels(family.labels, values)} {_number(number)}"
    for values in sorted(family.children):
        child = family.children[values]
        if isinstance(child, Counter):
            yield f"{family.name}{_labels(family.labels, values)} {child.value}"
        else:
            yield from _histogram_series(family, values, child)


def _histogram_series(family: Family, values: LabelValues, histogram: Histogram) -> Iterator[str]:
    running = 0
    for bound, bucket in zip((*family.bounds, float("inf")), histogram.buckets, strict=True):
        running += bucket
        yield f"{family.name}_bucket{_labels((*family.labels, 'le'), (*values, _number(bound)))} {running}"
    yield f"{family.name}_sum{_labels(family.labels, values)} {_number(histogram.sum)}"
    yield f"{family.name}_count{_labels(family.labels, values)} {histogram.count}"


def _labels(names: tuple[str, ...], values: LabelValues) -> str:
    if not names:
        return ""
    if len(names) == 1:
        return f'{{{names[0]}="{_escape(values[0])}"}}'
    return "{" + ",".join([f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True)]) + "}"


def _escape(text: str) -> str:
    if _PLAIN.fullmatch(text):  # Nearly always, and three times as fast.
        return text
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if type(value) is int and -WHOLE_MAX < value < WHOLE_MAX:
        return str(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < WHOLE_MAX else repr(float(value))
