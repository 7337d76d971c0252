"""The common parts of the generators of decoders and encoders: lines with indentation, names for constants, and Kafka's
fixed-width types as `struct` formats."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from kraft.common.errors import ProtocolError
from kraft.protocol.primitives import TURN_ELEMENTS
from kraft.protocol.schema import Field, Message, Struct, fields_of, flexible_in, struct_class

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "uuid": "16s",
}
SMALL_ARRAY = 17


@cache
def packer(layout: str) -> struct.Struct:
    """Return the big-endian Struct of a layout. All codecs share one for each layout."""
    return struct.Struct(">" + layout)


@cache
def small_array_unpackers(kind: str) -> tuple[Any, ...]:
    """Return the `unpack_from` functions for 0 to SMALL_ARRAY - 1 elements."""
    return tuple(packer(f"{count}{kind}").unpack_from for count in range(SMALL_ARRAY))


@cache
def small_array_packers(prefix: str, kind: str) -> tuple[Any, ...]:
    """Return the `pack` functions for a length prefix and 0 to SMALL_ARRAY - 1 elements."""
    return tuple(packer(f"{prefix}{count}{kind}").pack for count in range(SMALL_ARRAY))


def fixed_format(kind: str) -> str | None:
    """Return the struct format of a fixed-width type; None for other types."""
    return FORMATS.get(kind)


class Source:
    """Python text under construction, for one message in one version. With `in_turns` the function is a generator that
    yields after every TURN_ELEMENTS elements, so that its caller can run other tasks."""

    def __init__(self, cls: type[Message], version: int, *, in_turns: bool = False) -> None:
        self.cls = cls
        self.version = version
        self.in_turns = in_turns
        self.label = f"{cls.__name__} v{version}"
        self.names: dict[str, Any] = {"ProtocolError": ProtocolError, "bad": self.bad, "struct_error": struct.error}
        self.lines: list[str] = []
        self.indent = 0
        self.pending: list[tuple[str, str]] = []
        self._variables = 0
        self._constants: dict[tuple[str, str], str] = {}
        self.message_flexible = flexible_in(cls, version)

    def bad(self, field: str, reason: object) -> ProtocolError:
        """Return the error for bytes or values that do not fit `field`."""
        return ProtocolError(f"{self.label}: {field}: {reason}")

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def begin_turn(self) -> None:
        """Write code that initializes `turn`, the number of elements until the next pause."""
        if self.in_turns:
            self.line(f"turn = {TURN_ELEMENTS}")
            with self.block("if not turn:"):
                self.line("yield")  # A message without arrays is a generator too.

    def end_turn(self) -> None:
        """Write code that counts one element, and pauses if the turn is over."""
        if self.in_turns:
            self.line("turn -= 1")
            with self.block("if not turn:"):
                self.line(f"turn = {TURN_ELEMENTS}")
                self.line("yield")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent the lines written in the context under `head`. No fields may be pending at the start and end of a
        block."""
        assert not self.pending, head
        self.line(head)
        self.indent += 1
        before = len(self.lines)
        yield
        assert not self.pending, head
        if len(self.lines) == before:
            self.line("pass")
        self.indent -= 1

    def variable(self, stem: str) -> str:
        self._variables += 1
        return f"{stem}{self._variables}"

    def constant(self, stem: str, identity: str, value: Any) -> str:
        """Return the name of a constant for `value` in the generated code. `stem` and `identity` together identify the
        value, so that equal values share a name."""
        name = self._constants.get((stem, identity))
        if name is None:
            name = self._constants[stem, identity] = f"{stem}_{len(self._constants)}"
            self.names[name] = value
        return name

    def class_name(self, cls: type[Struct]) -> str:
        """Return the name of the constant that holds the class in the generated code."""
        return self.constant("class", cls.__name__, cls)

    def text(self) -> str:
        if not self.lines:
            self.write()
        return "\n".join(self.lines) + "\n"

    def write(self) -> None:
        raise NotImplementedError

    def fields(self, cls: type[Struct]) -> tuple[list[Field], list[Field], list[Field]]:
        """Return three lists of the fields of `cls`: those in place in this version, those in the tag section, and
        those that this version lacks."""
        fields = fields_of(cls)
        present = [field for field in fields if field.present(self.version)]
        in_place = [field for field in present if not field.is_tagged(self.version)]
        tagged = [field for field in present if field.is_tagged(self.version)]
        return in_place, tagged, [field for field in fields if not field.present(self.version)]

    def flexible(self, field: Field) -> bool:
        return self.message_flexible and field.flexible

    def struct_of(self, owner: type[Struct], field: Field) -> type[Struct]:
        return struct_class(owner, field.element_type)

    def least_size(self, cls: type[Struct]) -> int:
        """Return the minimum size in bytes of one `cls` in this version. It is at least one, so that a count is bounded
        by the remaining bytes."""
        in_place, _, _ = self.fields(cls)
        return max(1, sum(self._least_field_size(cls, field) for field in in_place) + self.message_flexible)

    def _least_field_size(self, owner: type[Struct], field: Field) -> int:
        layout = None if field.is_array else fixed_format(field.type)
        if layout is not None:
            return packer(layout).size
        if field.is_struct and not field.is_array:
            return 1 if field.null_allowed(self.version) else self.least_size(self.struct_of(owner, field))
        if self.flexible(field):
            return 1
        return 2 if field.type == "string" else 4
