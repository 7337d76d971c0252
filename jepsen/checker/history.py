"""A history: operations in the order in which they were recorded, and their form as JSON lines.

A line has the field `op` with the name of its kind (`Send.OP` and so on) and the fields of the class. Absent fields
have their defaults; unknown fields are refused.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from jepsen.checker.operations import KINDS, Operation

SomeOperation = TypeVar("SomeOperation", bound=Operation)


class History:
    """All operations of one run, in the order in which they were recorded."""

    __slots__ = ("_by_kind", "operations")

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        self.operations: list[Operation] = []
        self._by_kind: dict[type[Operation], list[Any]] = {}
        for operation in operations:
            self.add(operation)

    def add(self, operation: SomeOperation) -> SomeOperation:
        self.operations.append(operation)
        self._by_kind.setdefault(type(operation), []).append(operation)
        return operation

    def of(self, kind: type[SomeOperation]) -> list[SomeOperation]:
        return self._by_kind.get(kind, [])


def to_line(operation: Operation) -> str:
    return json.dumps({"op": operation.OP, **dataclasses.asdict(operation)}, separators=(",", ":"))


def from_line(line: str) -> Operation:
    """Parse a line. Raises ValueError if it is no operation."""
    fields = json.loads(line)
    kind = KINDS.get(fields.pop("op", ""))
    if kind is None:
        raise ValueError(f"no kind of operation: {line[:200]}")
    for name in ("records", "partitions"):
        if isinstance(fields.get(name), list):
            fields[name] = [tuple(each) for each in fields[name]]
    try:
        return kind(**fields)
    except TypeError as problem:
        raise ValueError(f"{problem}: {line[:200]}") from problem


def write_lines(history: History) -> Iterator[str]:
    return (to_line(operation) for operation in history.operations)


def read_lines(lines: Iterable[str]) -> History:
    """Parse all lines. Raises ValueError."""
    return History(from_line(line) for line in lines if line.strip())
