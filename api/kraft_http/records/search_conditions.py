"""The condition of a search: a record's key, a text in one of its parts, a value inside its JSON.

A path is dotted, as in jq: `.order.id == 5`, `.items[0].name == "tea"`, `.["odd name"] != null`.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Final

from kraft.protocol.records.record import Record

STEPS_MAX: Final = 32
LOOKED_AT_BYTES_MAX: Final = 256 * 1024
"""Limit of a key, a value or a header's value that is searched. Larger ones would block other requests; they are only
compared with a whole key."""

_STEP: Final = re.compile(r'\.([A-Za-z_][\w-]*)|\.?\[(\d{1,9}|"(?:[^"\\]|\\.)*")\]', re.ASCII)
_COMPARISON: Final = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*")
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MISSING: Final = object()


class Part(StrEnum):
    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"


class BadCondition(ValueError):
    """Raised for an invalid comparison. The text says what a valid one looks like."""


class TooLarge(Exception):
    """Raised for a record that is too large to be checked."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A path in a JSON document, and the value with which it is compared."""

    steps: tuple[str | int, ...]
    sign: str
    wanted: Any

    @classmethod
    def parse(cls, text: str) -> Comparison:
        """Parse a comparison. Raises BadCondition."""
        steps: list[str | int] = []
        position = 0
        while (step := _STEP.match(text, position)) is not None and len(steps) <= STEPS_MAX:
            name, bracketed = step.groups()
            try:
                steps.append(name if name is not None else _loads(bracketed))
            except ValueError as problem:
                raise BadCondition(f"where has a step that is not JSON: [{bracketed}].") from problem
            position = step.end()
        comparison = _COMPARISON.match(text, position)
        if not steps or len(steps) > STEPS_MAX or comparison is None:
            raise BadCondition(
                f'where must look like .order.id == 5, .items[0].name == "tea" or .["odd name"] != null, of at most '
                f"{STEPS_MAX} steps, with ==, !=, <, <=, > or >=."
            )
        try:
            wanted = _loads(text[comparison.end() :])
        except (ValueError, RecursionError) as problem:
            raise BadCondition('where must end with a value of JSON: 5, "text", true or null.') from problem
        sign = comparison[1]
        if sign in _ORDERS and (isinstance(wanted, bool) or not isinstance(wanted, int | Decimal | str)):
            raise BadCondition(f"where compares by {sign} with numbers and texts only.")
        return cls(tuple(steps), sign, wanted)

    def fits(self, data: bytes) -> bool:
        """Whether `data` is JSON that has the path, with a value that satisfies the comparison. Values of different
        types are neither equal nor ordered."""
        try:
            found = _loads(data)
        except (ValueError, RecursionError):
            return False
        for step in self.steps:
            found = _step_into(found, step)
            if found is _MISSING:
                return False
        if self.sign == "==":
            return _equal(found, self.wanted)
        if self.sign == "!=":
            return not _equal(found, self.wanted)
        return _kind(found) == _kind(self.wanted) and _ORDERS[self.sign](found, self.wanted)


def _loads(text: str | bytes) -> Any:
    """Parse JSON with exact numbers."""
    return json.loads(text, parse_float=_exact, parse_constant=_refuse_constant)


def _exact(text: str) -> Decimal:
    """The exact number. Raises ValueError if its exponent is too large or too small."""
    try:
        return Decimal(text)
    except InvalidOperation as problem:
        raise ValueError(f"{text} has too large an exponent") from problem


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _step_into(found: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return found[step] if isinstance(found, list) and step < len(found) else _MISSING
    return found.get(step, _MISSING) if isinstance(found, dict) else _MISSING


def _kind(value: Any) -> str:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return "number"
    return type(value).__name__


def _equal(one: Any, other: Any) -> bool:
    return _kind(one) == _kind(other) and bool(one == other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition: every field that is not None must match."""

    key: bytes | None = None
    text: str | None = None
    """In lower case: the search ignores case."""
    parts: tuple[Part, ...] = tuple(Part)
    """Parts of the record to search for `text`."""
    header: str | None = None
    """The only header to search for it."""
    where: Comparison | None = None
    """Condition on the value."""
    from_time_ms: int | None = None
    to_time_ms: int | None = None
    """Exclusive."""

    def fits(self, record: Record) -> bool:
        """Whether the record matches. Raises TooLarge."""
        if self.key is not None and record.key != self.key:
            return False
        if self.from_time_ms is not None and record.timestamp < self.from_time_ms:
            return False
        if self.to_time_ms is not None and record.timestamp >= self.to_time_ms:
            return False
        if self.text is not None and not self._has_text(record, self.text):
            return False
        if self.where is None:
            return True
        return record.value is not None and self.where.fits(_looked_at(record.value))

    def _has_text(self, record: Record, text: str) -> bool:
        if Part.KEY in self.parts and record.key is not None and text in _lower(record.key):
            return True
        if Part.VALUE in self.parts and record.value is not None and text in _lower(record.value):
            return True
        return Part.HEADERS in self.parts and any(
            (self.header is None and text in name.lower())
            or (self.header in (None, name) and value is not None and text in _lower(value))
            for name, value in record.headers
        )


def _lower(data: bytes) -> str:
    return _looked_at(data).decode("utf-8", "replace").lower()


def _looked_at(data: bytes) -> bytes:
    if len(data) > LOOKED_AT_BYTES_MAX:
        raise TooLarge
    return data
