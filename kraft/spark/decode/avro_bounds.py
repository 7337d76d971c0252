"""Check an Avro record before fastavro reads it, if its schema lets a few bytes declare much data.

fastavro trusts an array's count. It iterates over every item, even if items have no bytes or are skipped unread: 2**60
of them keep a task busy for years. It also reads recursive records by recursion without a limit: a million levels take
one byte each, and overflow the stack. Other items are bounded by the bytes of the record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kraft.protocol.records.varint import read_varint

LEVELS_MAX = 256
"""The nesting limit of a record."""
EMPTY_ITEMS_MAX = 10_000
"""The limit of items without bytes in a record."""
WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}
VARINTS = ("int", "long", "enum")
TEXTS = ("bytes", "string")
RECORDS = ("record", "error")


class AvroBounds:
    """The limits of one schema, as parsed by fastavro. `skips`: whether a part of the record is skipped, not read."""

    def __init__(self, schema: dict[str, Any], *, skips: bool) -> None:
        self.schema = schema
        self.named: dict[str, Any] = {}
        self.is_recursive = False
        kinds = list(self.kinds(schema, ()))
        widths = [self.width(kind["items"]) for kind in kinds if kind_of(kind) == "array"]
        self.is_needed = self.is_recursive or any(each == 0 or (skips and each is not None) for each in widths)
        """Whether a record of this schema can declare more than it holds."""
        self.empty_items = 0

    def kinds(self, kind: Any, within: tuple[str, ...]) -> Iterator[Any]:
        """Yield all types of the schema. Records named types, and whether a type is recursive."""
        if isinstance(kind, str):
            self.is_recursive |= kind in within
        elif isinstance(kind, list):
            for branch in kind:
                yield from self.kinds(branch, within)
        elif isinstance(kind["type"], (dict, list)):
            yield from self.kinds(kind["type"], within)
        else:
            yield kind
            if "name" in kind:
                self.named[kind["name"]] = kind
                within = (*within, kind["name"])
            for part in parts_of(kind):
                yield from self.kinds(part, within)

    def width(self, kind: Any, within: tuple[str, ...] = ()) -> int | None:
        """Return the size of the type's values in bytes if it is constant and without varints; otherwise None. A
        recursive record has no constant size."""
        kind = self.resolved(kind)
        name = kind_of(kind)
        if name in WIDTHS:
            return WIDTHS[name]
        if name == "fixed":
            return int(kind["size"])
        if name not in RECORDS or kind["name"] in within:
            return None
        found = 0
        for field in kind["fields"]:
            width = self.width(field["type"], (*within, kind["name"]))
            if width is None:
                return None
            found += width
        return found

    def resolved(self, kind: Any) -> Any:
        """Return the type itself for a type name or a nested `type`."""
        while isinstance(kind, dict) and isinstance(kind["type"], (dict, list)):
            kind = kind["type"]
        return self.named.get(kind, kind) if isinstance(kind, str) else kind

    def check(self, record: bytes, position: int) -> None:
        """Raise ValueError or IndexError for a record that declares more than it holds, or more than the limits."""
        self.empty_items = 0
        self.skip(self.schema, record, position, 0)

    def skip(self, kind: Any, record: bytes, position: int, level: int) -> int:
        """Return the position after a value."""
        if level > LEVELS_MAX:
            raise ValueError(f"types are nested more than {LEVELS_MAX} levels deep")
        kind = self.resolved(kind)
        name = kind_of(kind)
        if name in VARINTS:
            return read_varint(record, position)[1]
        if name in TEXTS:
            size, position = read_varint(record, position)
            return behind(record, position, size)
        if name == "union":
            branch, position = read_varint(record, position)
            if not 0 <= branch < len(kind):
                raise ValueError(f"branch {branch} of a union that has {len(kind)}")
            return self.skip(kind[branch], record, position, level + 1)
        if name in RECORDS:
            for field in kind["fields"]:
                position = self.skip(field["type"], record, position, level + 1)
            return position
        if name in ("array", "map"):
            return self.skip_blocks(kind, record, position, level)
        return behind(record, position, self.width(kind) or 0)

    def skip_blocks(self, kind: Any, record: bytes, position: int, level: int) -> int:
        """Return the position after the blocks of an array or map. A block starts with its item count, or with the
        negated count and the block's size."""
        key, items = ("string", kind["values"]) if kind_of(kind) == "map" else (None, kind["items"])
        width = self.width(items) if key is None else None
        while True:
            count, position = read_varint(record, position)
            if count == 0:
                return position
            if count < 0:
                count, (_, position) = -count, read_varint(record, position)
            if width is not None:
                self.empty_items += count if width == 0 else 0
                if self.empty_items > EMPTY_ITEMS_MAX:
                    raise ValueError(f"more than {EMPTY_ITEMS_MAX} items that take no bytes")
                position = behind(record, position, count * width)
                continue
            for _ in range(count):  # Each takes a byte: they end with the record.
                if key is not None:
                    position = self.skip(key, record, position, level + 1)
                position = self.skip(items, record, position, level + 1)


def kind_of(kind: Any) -> str:
    if isinstance(kind, list):
        return "union"
    return str(kind if isinstance(kind, str) else kind["type"])


def parts_of(kind: dict[str, Any]) -> list[Any]:
    """Return the types directly within a record, an array or a map."""
    fields = [field["type"] for field in kind.get("fields", ())]
    return fields + [kind[name] for name in ("items", "values") if name in kind]


def behind(record: bytes, position: int, size: int) -> int:
    if not 0 <= size <= len(record) - position:
        raise ValueError(f"a length of {size} bytes, but only {len(record) - position} are left")
    return position + size
