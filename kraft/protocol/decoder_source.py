"""Generate the text of decoders. See `kraft.protocol.codec`.

Names in the text: `buffer` and `limit` (its length), `p` the position, `m`, `o1`, `o2` ... the structs being filled,
`n1` ... lengths as they are on the wire (compact ones count from 1, 0 is null), `left` the number of elements still
permitted.

The number of elements in a request is limited (ELEMENTS_MAX). An element takes at least one byte, so a buffer of at
most so many bytes cannot exceed the limit. Only a larger buffer is decoded by the decoder that counts; a small request
costs one comparison.
"""

from __future__ import annotations

import struct

from kraft.protocol.primitives import ELEMENTS_MAX, STRING_BYTES_MAX, read_unknown_tags, read_varint_rest
from kraft.protocol.schema import Field, Message, Struct
from kraft.protocol.source import SMALL_ARRAY, Source, fixed_format, packer, small_array_unpackers


def has_bound(cls: type[Message]) -> bool:
    """Whether the number of elements of `cls` is limited, because brokers decode it from any client: requests, and the
    subscription inside one. Responses and records are not limited."""
    return cls.__name__.endswith("Request") or cls.__name__ == "ConsumerProtocolSubscription"


class DecoderSource(Source):
    """The text of `decode(buffer, position) -> (message, end)`. With `counting` it decodes large buffers and limits
    their number of elements; without it, it passes large buffers to `decode_counting`. With `in_turns` it limits them
    too, and is a generator that yields after every TURN_ELEMENTS elements."""

    def __init__(self, cls: type[Message], version: int, *, counting: bool = False, in_turns: bool = False) -> None:
        super().__init__(cls, version, in_turns=in_turns)
        self._counting = counting or (in_turns and has_bound(cls))

    def write(self) -> None:
        self.names |= {
            "new": object.__new__,
            "varint_rest": read_varint_rest,
            "unknown_tags": read_unknown_tags,
            "unpack_from": struct.unpack_from,
        }
        self.line("def decode(buffer, position):")
        self.indent += 1
        self.line("p = position")
        self.line("limit = len(buffer)")
        self.begin_turn()
        if self._counting:
            self.line(f"left = {ELEMENTS_MAX}")
        elif has_bound(self.cls):
            with self.block(f"if limit > {ELEMENTS_MAX}:"):
                self.line("return decode_counting(buffer, position)")
        self.line("view = memoryview(buffer)")
        view_line = len(self.lines) - 1
        with self.block("try:"):
            self.struct(self.cls, "m")
            self.line("return m, p")
        with self.block("except (struct_error, IndexError, UnicodeDecodeError) as problem:"):
            self.line('raise bad("malformed", problem) from None')
        if not any("view[" in line for line in self.lines):
            del self.lines[view_line]

    def struct(self, cls: type[Struct], target: str) -> None:
        """Write code that fills a new `cls` in the variable `target`."""
        self.line(f"{target} = new({self.class_name(cls)})")
        in_place, tagged, absent = self.fields(cls)
        for field in [*absent, *tagged]:
            self.line(f"{target}.{field.name} = {self.default(cls, field)}")
        for field in in_place:
            self.field(cls, field, f"{target}.{field.name}")
        if self.message_flexible:
            self.tag_section(cls, target, tagged)
        else:
            self.flush()
            self.line(f"{target}.unknown_tags = None")

    def default(self, owner: type[Struct], field: Field) -> str:
        if field.default is None:
            return "None"
        if field.is_array:
            return "[]"
        if field.is_struct:
            absent_is_none = field.tag >= 0 and not field.null_allowed(self.version)
            return "None" if absent_is_none else self.class_name(self.struct_of(owner, field)) + "()"
        return repr(field.default)

    def flush(self) -> None:
        """Write code that unpacks the pending fields."""
        if not self.pending:
            return
        targets, formats = zip(*self.pending, strict=True)
        self.pending = []
        layout = "".join(formats)
        if layout == "B":
            self.line(f"{targets[0]} = buffer[p]")
            self.line("p += 1")
            return
        unpack = self.constant("unpack", layout, packer(layout).unpack_from)
        self.line(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {unpack}(buffer, p)")
        self.line(f"p += {packer(layout).size}")

    def length(self, field: Field, layout: str, *, compact: bool, kind: str) -> str:
        """Write code that reads a length or count. Returns the variable that holds it, as it is on the wire."""
        name = self.variable("n")
        self.pending.append((name, "B" if compact else layout))
        self.flush()
        if not compact:
            return name
        with self.block(f"if {name} > 127:"):
            if kind in ("records", "bytes"):
                self.line("x = buffer[p]")
                with self.block("if x < 128:"):
                    self.line(f"{name} = {name} & 127 | x << 7")
                    self.line("p += 1")
                with self.block("else:"):
                    self.line(f"{name}, p = varint_rest(buffer, p, {name})")
            else:
                self.line(f"{name}, p = varint_rest(buffer, p, {name})")
            if kind == "string":
                with self.block(f"if {name} > {STRING_BYTES_MAX + 1}:"):
                    self.line(f'raise bad({field.name!r}, "longer than 32767 bytes")')
        return name

    def field(self, owner: type[Struct], field: Field, target: str) -> None:
        """Write code that reads `field` into the expression `target`."""
        layout = None if field.is_array else fixed_format(field.type)
        if layout is not None:
            self.pending.append((target, layout))
        elif field.is_array:
            self.array(owner, field, target)
        elif field.is_struct:
            self.nested(owner, field, target)
        else:
            self.text_or_bytes(field, field.type, target, nullable=field.null_allowed(self.version))

    def nested(self, owner: type[Struct], field: Field, target: str, marker: str = "B") -> None:
        made = self.variable("o")
        nested_class = self.struct_of(owner, field)
        if not field.null_allowed(self.version):
            self.struct(nested_class, made)
            self.line(f"{target} = {made}")
            return
        name = self.variable("n")
        self.pending.append((name, marker))
        self.flush()
        # In place a null struct is a negative byte; in the tag section it is the varint 0.
        with self.block(f"if {name} > 127:" if not field.is_tagged(self.version) else f"if not {name}:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            self.struct(nested_class, made)
            self.line(f"{target} = {made}")

    def text_or_bytes(self, field: Field, kind: str, target: str, *, nullable: bool) -> None:
        compact = self.flexible(field)
        records = kind == "records"
        name = self.length(field, "h" if kind == "string" else "i", compact=compact, kind=kind)
        end = self.variable("e")
        where = repr(field.name)
        present = f"if {name}:" if compact else f"if {name} >= 0:"
        with self.block(present):
            self.line(f"{end} = p + {name}" + (" - 1" if compact else ""))
            with self.block(f"if {end} > limit:"):
                self.line(f'raise bad({where}, "longer than the message")')
            if kind == "string":
                self.line(f'{target} = str(buffer[p:{end}], "utf-8") if {end} > p else ""')
            elif records or field.zero_copy:
                self.line(f"{target} = view[p:{end}]")
            else:
                self.line(f"{target} = bytes(buffer[p:{end}])")
            self.line(f"p = {end}")
        with self.block("else:"):
            self.line(f"{target} = None" if nullable else f'raise bad({where}, "null is not allowed")')

    def array(self, owner: type[Struct], field: Field, target: str) -> None:
        compact = self.flexible(field)
        name = self.length(field, "i", compact=compact, kind="array")
        with self.block(f"if {name}:" if compact else f"if {name} >= 0:"):
            if compact:
                self.line(f"{name} -= 1")
            self.elements(owner, field, target, name)
        with self.block("else:"):
            nullable = field.null_allowed(self.version)
            self.line(f"{target} = None" if nullable else f'raise bad({field.name!r}, "null is not allowed")')

    def count(self, name: str, count: str) -> None:
        """Write code that subtracts `count` from the remaining elements."""
        if self._counting:
            self.line(f"left -= {count}")
            with self.block("if left < 0:"):
                self.line(f'raise bad({name!r}, "more than {ELEMENTS_MAX} elements, with those before")')

    def elements(self, owner: type[Struct], field: Field, target: str, count: str) -> None:
        self.count(field.name, count)
        kind = field.element_type
        layout = fixed_format(kind)
        if layout is not None and kind != "uuid":
            small = self.constant("array", layout, small_array_unpackers(layout))
            size = packer(layout).size
            self.line(
                f"{target} = list({small}[{count}](buffer, p) if {count} < {SMALL_ARRAY} else "
                f'unpack_from(f">{{{count}}}{layout}", buffer, p))'
            )
            self.line(f"p += {count}" + (f" * {size}" if size > 1 else ""))
            return
        least = (
            16
            if kind == "uuid"
            else self.least_size(self.struct_of(owner, field))
            if field.is_struct
            else 1
            if self.flexible(field)
            else 2
        )
        with self.block(f"if {count}{f' * {least}' if least > 1 else ''} > limit - p:"):
            self.line(f'raise bad({field.name!r}, "more elements than the message can hold")')
        if kind == "uuid" and not self.in_turns:
            self.line(f"{target} = [bytes(buffer[q : q + 16]) for q in range(p, p + {count} * 16, 16)]")
            self.line(f"p += {count} * 16")
            return
        made, element = self.variable("a"), self.variable("o")
        self.line(f"{made} = []")
        with self.block(f"for _ in range({count}):"):
            self.end_turn()
            if field.is_struct:
                self.struct(self.struct_of(owner, field), element)
            elif kind == "uuid":
                self.line(f"{element} = bytes(buffer[p : p + 16])")
                self.line("p += 16")
            else:
                self.text_or_bytes(field, kind, element, nullable=False)
            self.line(f"{made}.append({element})")
        self.line(f"{target} = {made}")

    def tag_section(self, owner: type[Struct], target: str, tagged: list[Field]) -> None:
        count = self.variable("t")
        self.pending.append((count, "B"))
        self.flush()
        if not tagged:
            with self.block(f"if {count}:"):
                self.tag_count(count)
                self.line(f"{target}.unknown_tags, p = unknown_tags(buffer, p, {count})")
            with self.block("else:"):
                self.line(f"{target}.unknown_tags = None")
            return
        self.line(f"{target}.unknown_tags = None")
        with self.block(f"if {count}:"):
            self.tag_count(count)
            with self.block(f"for _ in range({count}):"):
                self.end_turn()
                self.one_tag(owner, target, tagged)

    def tag_count(self, count: str) -> None:
        """Write code that reads the other bytes of the number of tags, after its first byte, and counts the tags."""
        with self.block(f"if {count} > 127:"):
            self.line(f"{count}, p = varint_rest(buffer, p, {count})")
        self.count("tagged fields", count)

    def one_tag(self, owner: type[Struct], target: str, tagged: list[Field]) -> None:
        tag, end = self.variable("g"), self.variable("e")
        for name in (tag, end):
            self.line(f"{name} = buffer[p]")
            self.line("p += 1")
            with self.block(f"if {name} > 127:"):
                self.line(f"{name}, p = varint_rest(buffer, p, {name})")
        self.line(f"{end} += p")
        with self.block(f"if {end} > limit:"):
            self.line('raise bad("tagged field", "longer than the message")')
        for position, field in enumerate(tagged):
            with self.block(f"{'elif' if position else 'if'} {tag} == {field.tag}:"):
                self.field(owner, field, f"{target}.{field.name}")
                self.flush()
        with self.block("else:"):
            with self.block(f"if {target}.unknown_tags is None:"):
                self.line(f"{target}.unknown_tags = {{}}")
            self.line(f"{target}.unknown_tags[{tag}] = bytes(buffer[p:{end}])")
            self.line(f"p = {end}")
        with self.block(f"if p != {end}:"):
            self.line('raise bad("tagged field", "its size is not that of its content")')
