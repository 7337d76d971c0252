"""Generate the text of encoders. See `kraft.protocol.codec`.

Names in the text: `out` is the bytearray that grows, `m`, `o1`, `o2` ... the structs being written, `b1` ... bytes
about to be written, `n1` ... lengths as they are on the wire.
"""

from __future__ import annotations

import struct

from kraft.protocol.primitives import STRING_BYTES_MAX, write_tags, write_uvarint
from kraft.protocol.schema import Field, Message, Struct
from kraft.protocol.source import SMALL_ARRAY, Source, fixed_format, packer, small_array_packers


class EncoderSource(Source):
    """The text of `encode(message, out)`."""

    def __init__(self, cls: type[Message], version: int, *, in_turns: bool = False) -> None:
        super().__init__(cls, version, in_turns=in_turns)
        self.out = "out"

    def write(self) -> None:
        self.names |= {"varint": write_uvarint, "write_tags": write_tags, "pack": struct.pack}
        self.line("def encode(m, out):")
        self.indent += 1
        self.line("start = len(out)")
        self.begin_turn()
        with self.block("try:"):
            self.struct(self.cls, "m")
            self.flush()
        with self.block("except (struct_error, UnicodeEncodeError, ProtocolError) as problem:"):
            self.line("del out[start:]")
            with self.block("if isinstance(problem, ProtocolError):"):
                self.line("raise")
            self.line('raise bad("cannot be encoded", problem) from problem')

    def struct(self, cls: type[Struct], value: str) -> None:
        """Write code that encodes the struct in the variable `value`."""
        in_place, tagged, absent = self.fields(cls)
        for field in absent:
            if not field.ignorable:
                self.refuse_if_set(cls, field, f"{value}.{field.name}")
        for field in in_place:
            self.field(cls, field, f"{value}.{field.name}")
        if self.message_flexible:
            self.tag_section(cls, value, tagged)

    def refuse_if_set(self, owner: type[Struct], field: Field, value: str) -> None:
        self.flush()
        with self.block(f"if {self.differs(owner, field, value)}:"):
            self.line(f'raise bad({field.name!r}, "this version has no such field, and its value is not the default")')

    def differs(self, owner: type[Struct], field: Field, value: str) -> str:
        """Return the condition that `value` is not the field's default."""
        if field.default is None:
            return f"{value} is not None"
        if field.is_array:
            return f"({value} is None or {value})" if field.nullable[1] >= 0 else value
        if field.is_struct:
            struct_class = self.struct_of(owner, field)
            standard = self.constant("default", struct_class.__name__, struct_class())
            may_be_absent = field.tag >= 0 and field.nullable[1] < 0
            return f"({value} is not None and {value} != {standard})" if may_be_absent else f"{value} != {standard}"
        if field.type == "bool":
            return f"not {value}" if field.default else value
        return f"{value} != {field.default!r}"

    def pack(self, extra: str = "", *values: str) -> str:
        """Return the expression that packs the pending fields, and then `values` in the layout `extra`."""
        layout = "".join(format_ for _, format_ in self.pending) + extra
        arguments = ", ".join([expression for expression, format_ in self.pending if format_ != "x"] + list(values))
        return f"{self.constant('pack', layout, packer(layout).pack)}({arguments})"

    def take(self) -> list[tuple[str, str]]:
        """Return the pending fields, and clear them. Lines that may raise must precede the code that writes these
        fields."""
        waiting, self.pending = self.pending, []
        return waiting

    def flush(self) -> None:
        if self.pending:
            self.line(f"{self.out} += {self.pack()}")
            self.pending = []

    def field(self, owner: type[Struct], field: Field, value: str) -> None:
        layout = None if field.is_array else fixed_format(field.type)
        if layout is not None:
            if field.type == "uuid":
                self.check_uuid(field, value)
            self.pending.append((value, layout))
        elif field.is_array:
            self.array(owner, field, value)
        elif field.is_struct:
            self.nested(owner, field, value)
        else:
            self.text_or_bytes(field, field.type, value)

    def check_uuid(self, field: Field, value: str) -> None:
        """Write code that checks a UUID's length: `struct` would pad or truncate it silently."""
        waiting = self.take()
        with self.block(f"if len({value}) != 16:"):
            self.line(f'raise bad({field.name!r}, "a UUID has 16 bytes")')
        self.pending = waiting

    def refuse_null(self, field: Field, value: str) -> None:
        """Write code that rejects None for a field that is nullable only in other versions. For a field that is never
        nullable, the type checker rejects it."""
        if field.nullable[1] >= 0 or field.type == "records" or field.default is None:
            waiting = self.take()
            with self.block(f"if {value} is None:"):
                self.line(f'raise bad({field.name!r}, "null is not allowed in this version")')
            self.pending = waiting

    def nested(self, owner: type[Struct], field: Field, value: str) -> None:
        name = self.variable("o")
        self.line(f"{name} = {value}")
        nested_class = self.struct_of(owner, field)
        if not field.null_allowed(self.version):
            self.refuse_null(field, name)
            self.struct(nested_class, name)
            return
        self.flush()
        in_tag_section = field.is_tagged(self.version)
        with self.block(f"if {name} is None:"):
            self.line(f"{self.out}.append({0 if in_tag_section else 255})")
        with self.block("else:"):
            self.line(f"{self.out}.append(1)")
            self.struct(nested_class, name)
            self.flush()

    def length(self, name: str, layout: str, *, compact: bool) -> None:
        """Write code that encodes the pending fields and the length in the variable `name`."""
        if not compact:
            self.line(f"{self.out} += {self.pack(layout, name)}")
            self.pending = []
            return
        waiting = self.take()
        with self.block(f"if {name} < 128:"):
            self.pending = list(waiting)
            self.line(f"{self.out} += {self.pack('B', name)}" if waiting else f"{self.out}.append({name})")
            self.pending = []
        with self.block("else:"):
            self.pending = list(waiting)
            self.flush()
            self.line(f"varint({self.out}, {name})")

    def text_or_bytes(self, field: Field, kind: str, value: str, *, element: bool = False) -> None:
        compact = self.flexible(field)
        content, name = self.variable("b"), self.variable("n")
        nullable = field.null_allowed(self.version) and not element
        encoded = ".encode()" if kind == "string" else ""
        plus = " + 1" if compact else ""
        waiting = self.take()
        if nullable:
            self.line(f"{content} = {value}")
            with self.block(f"if {content} is None:"):
                self.line(f'{content} = b""')
                self.line(f"{name} = {0 if compact else -1}")
            with self.block("else:"):
                if encoded:
                    self.line(f"{content} = {content}{encoded}")
                self.line(f"{name} = len({content}){plus}")
        else:
            if not element:
                self.refuse_null(field, value)
            self.line(f"{content} = {value}{encoded}")
            self.line(f"{name} = len({content}){plus}")
        if kind == "string" and compact:
            with self.block(f"if {name} > {STRING_BYTES_MAX + 1}:"):
                self.line(f'raise bad({field.name!r}, "longer than 32767 bytes")')
        self.pending = waiting
        self.length(name, "h" if kind == "string" else "i", compact=compact)
        self.line(f"{self.out} += {content}")

    def array(self, owner: type[Struct], field: Field, value: str) -> None:
        compact = self.flexible(field)
        name, items = self.variable("n"), self.variable("a")
        waiting = self.take()
        self.line(f"{items} = {value}")
        if field.null_allowed(self.version):
            with self.block(f"if {items} is None:"):
                self.line(f"{items} = ()")
                self.line(f"{name} = {0 if compact else -1}")
            with self.block("else:"):
                self.line(f"{name} = len({items})" + (" + 1" if compact else ""))
        else:
            self.refuse_null(field, items)
            self.line(f"{name} = len({items})" + (" + 1" if compact else ""))
        self.pending = waiting
        layout = fixed_format(field.element_type)
        if layout is not None and field.element_type != "uuid":
            self.fixed_elements(layout, name, items, compact=compact)
        else:
            self.length(name, "i", compact=compact)
            self.elements(owner, field, items)

    def fixed_elements(self, layout: str, name: str, items: str, *, compact: bool) -> None:
        """Write code that encodes the length and the elements by one call if they are few."""
        self.flush()
        small = self.constant("array", f"{compact} {layout}", small_array_packers("B" if compact else "i", layout))
        with self.block(f"if len({items}) < {SMALL_ARRAY}:"):
            self.line(f"{self.out} += {small}[len({items})]({name}, *{items})")
        with self.block("else:"):
            self.length(name, "i", compact=compact)
            self.line(f'{self.out} += pack(f">{{len({items})}}{layout}", *{items})')

    def elements(self, owner: type[Struct], field: Field, items: str) -> None:
        element = self.variable("o")
        with self.block(f"for {element} in {items}:"):
            self.end_turn()
            if field.is_struct:
                self.struct(self.struct_of(owner, field), element)
            elif field.element_type == "uuid":
                self.check_uuid(field, element)
                self.line(f"{self.out} += {element}")
            else:
                self.text_or_bytes(field, field.element_type, element, element=True)
            self.flush()

    def tag_section(self, owner: type[Struct], value: str, tagged: list[Field]) -> None:
        waiting = self.take()
        conditions = [self.differs(owner, field, f"{value}.{field.name}") for field in tagged]
        with self.block("if " + " or ".join([f"{value}.unknown_tags", *conditions]) + ":"):
            self.pending = list(waiting)
            self.flush()
            tags = self.variable("tags")
            self.line(f"{tags} = {{}}")
            for field, condition in zip(tagged, conditions, strict=True):
                with self.block(f"if {condition}:"):
                    self.one_tag(owner, field, value, tags)
            self.line(f"write_tags({self.out}, {tags}, {value}.unknown_tags)")
        with self.block("else:"):
            self.pending = list(waiting)
            self.line(f"{self.out} += {self.pack('x')}" if waiting else f"{self.out}.append(0)")
            self.pending = []

    def one_tag(self, owner: type[Struct], field: Field, value: str, tags: str) -> None:
        outer, self.out = self.out, self.variable("tag")
        self.line(f"{self.out} = bytearray()")
        self.field(owner, field, f"{value}.{field.name}")
        self.flush()
        self.line(f"{tags}[{field.tag}] = {self.out}")
        self.out = outer
