"""The declaration of Kafka messages: the base classes of every generated class, and the parser of their `SCHEMA` text.

A declaration is a plain `__slots__` class whose `SCHEMA` holds one line per field, in wire order:

    name: type versions [nullable=versions] [tag=number@versions] [default=value] [flexible=none] [entity=name] [key]
    [ignorable] [zero_copy]

`versions` is `3+`, `2-5` or `7`. Types are Kafka's (`int32`, `string`, `uuid`, `records` ...), a struct's class name,
or `[]` before either. The words mean:

- nullable: the versions in which null is permitted; default: the value of an absent field (`null`, or a literal;
  otherwise 0, false, "", empty, the zero UUID);
- tag: in these versions the field is in the tag section (KIP-482), and only if it differs from its default; a tagged
  struct that is not nullable is None when absent;
- ignorable: a version without the field drops it silently; for other fields, encoding a value that is not the default
  raises ProtocolError;
- key: the field identifies an element of its array; entity: the kind of thing that the value names (a topic, a group, a
  broker id ...); flexible=none: never compact;
- zero_copy: bytes stay a view of the frame.

One class serves all versions. `kraft.protocol.codec` compiles encoders and decoders when a version is first used, so
importing a message module costs no more than a few plain classes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from kraft.common.errors import ProtocolError
from kraft.world.steps import Steps

Bytes = bytes | bytearray | memoryview
T = TypeVar("T")
WHOLE_BYTES_MAX = 8 << 10
"""A message of at most this size is decoded in one step. An element has at least one byte, and takes at most two
microseconds."""
UnknownTags = dict[int, bytes]
VersionRange = tuple[int, int]

ALL_ABOVE = 32767
NO_VERSIONS: VersionRange = (0, -1)


class Field(NamedTuple):
    """One parsed line of a `SCHEMA`."""

    name: str
    type: str
    versions: VersionRange
    nullable: VersionRange
    tag: int
    tagged: VersionRange
    default: Any
    flexible: bool
    entity: str
    key: bool
    ignorable: bool
    zero_copy: bool

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element_type(self) -> str:
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        """Whether the field, or each element of it, is a struct."""
        return self.element_type[0].isupper()

    def present(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def null_allowed(self, version: int) -> bool:
        return self.nullable[0] <= version <= self.nullable[1]

    def is_tagged(self, version: int) -> bool:
        return self.tagged[0] <= version <= self.tagged[1]


class Struct:
    """Base of every generated class. Two values are equal if all their fields are equal. Values are mutable, so they
    have no hash."""

    __slots__ = ()
    SCHEMA: ClassVar[str] = ""
    __hash__ = None  # type: ignore[assignment]  # Mutable values must not be keys; this is Python's own way to say so.

    unknown_tags: UnknownTags | None

    def __eq__(self, other: object) -> bool:
        if self.__class__ is not other.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _names(self))

    def __repr__(self) -> str:
        """Show all fields, except unknown tags if there are none. Of bytes only the length is shown: they may be
        secrets, and are rarely readable."""
        shown = [
            f"{name}={_shown(getattr(self, name))}"
            for name in _names(self)
            if name != "unknown_tags" or self.unknown_tags
        ]
        return f"{self.__class__.__name__}({', '.join(shown)})"


class Message(Struct):
    """Base of every class for a whole schema file. Its messages can be encoded and decoded by themselves."""

    __slots__ = ()
    API_KEY: ClassVar[int] = -1
    VALID_VERSIONS: ClassVar[VersionRange] = NO_VERSIONS
    FLEXIBLE_VERSIONS: ClassVar[VersionRange | None] = None
    _decoders: ClassVar[dict[int, Callable[[Any, int], tuple[Any, int]]]]
    _encoders: ClassVar[dict[int, Callable[[Any, bytearray], None]]]
    _turn_decoders: ClassVar[dict[int, Callable[[Any, int], Steps[tuple[Any, int]]]]]
    _turn_encoders: ClassVar[dict[int, Callable[[Any, bytearray], Steps[None]]]]

    def __init_subclass__(cls) -> None:
        cls._decoders = {}
        cls._encoders = {}
        cls._turn_decoders = {}
        cls._turn_encoders = {}

    @classmethod
    def decode(cls, buffer: Bytes, version: int) -> Self:
        """Decode a message from the whole of `buffer`. Records and zero-copy bytes are views of it. Raises
        ProtocolError for malformed bytes or bytes left over."""
        value, end = (cls._decoders.get(version) or _compile_decoder(cls, version))(buffer, 0)
        if end != len(buffer):
            raise ProtocolError(f"{cls.__name__} v{version}: {len(buffer) - end} bytes left over after the message")
        return value  # type: ignore[no-any-return]  # The compiled decoder of this class makes instances of this class.

    @classmethod
    def decode_from(cls, buffer: Bytes, position: int, version: int) -> tuple[Self, int]:
        """Decode the message that starts at `position`. Returns it and the position after it. Raises ProtocolError."""
        return (cls._decoders.get(version) or _compile_decoder(cls, version))(buffer, position)

    @classmethod
    def decode_in_turns(cls, buffer: Bytes, position: int, version: int) -> Steps[tuple[Self, int]]:
        """Decode a large message like `decode_from`, as a generator that pauses so that other tasks can run."""
        return (cls._turn_decoders.get(version) or _compile_turn_decoder(cls, version))(buffer, position)

    def encode_in_turns(self, out: bytearray, version: int) -> Steps[None]:
        """Encode a large message like `encode_into`, as a generator that pauses. `self` must not change until it
        ends."""
        return (self._turn_encoders.get(version) or _compile_turn_encoder(self.__class__, version))(self, out)

    def encode(self, version: int) -> bytes:
        """Return the message's bytes in `version`. Raises ProtocolError if this version cannot hold a field's value."""
        out = bytearray()
        (self._encoders.get(version) or _compile_encoder(self.__class__, version))(self, out)
        return bytes(out)

    def encode_into(self, out: bytearray, version: int) -> None:
        """Append the message's bytes to `out`. If ProtocolError is raised, `out` is unchanged."""
        (self._encoders.get(version) or _compile_encoder(self.__class__, version))(self, out)


def fields_of(cls: type[Struct]) -> tuple[Field, ...]:
    """Return the parsed fields of a declaration, in wire order."""
    return tuple(_parse_field(line) for line in cls.SCHEMA.strip().splitlines())


def struct_class(cls: type[Struct], name: str) -> type[Struct]:
    """Return the struct class called `name` in the module that declares `cls`."""
    found: type[Struct] = getattr(sys.modules[cls.__module__], name)
    return found


def flexible_in(cls: type[Message], version: int) -> bool:
    """Whether `version` of the message uses compact lengths and tag sections (KIP-482)."""
    return cls.FLEXIBLE_VERSIONS is not None and cls.FLEXIBLE_VERSIONS[0] <= version


def _parse_field(line: str) -> Field:
    name, kind, versions, *words = line.split()
    options = dict(word.partition("=")[::2] for word in words)
    tag, _, tagged = options.get("tag", "-1@").partition("@")
    return Field(
        name=name.rstrip(":"),
        type=kind,
        versions=_parse_versions(versions),
        nullable=_parse_versions(options.get("nullable", "")),
        tag=int(tag),
        tagged=_parse_versions(tagged),
        default=_parse_default(kind, options.get("default")),
        flexible="flexible" not in options,
        entity=options.get("entity", ""),
        key="key" in options,
        ignorable="ignorable" in options,
        zero_copy="zero_copy" in options,
    )


def _parse_versions(text: str) -> VersionRange:
    if not text:
        return NO_VERSIONS
    if text.endswith("+"):
        return int(text[:-1]), ALL_ABOVE
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def _parse_default(kind: str, text: str | None) -> Any:
    """Return the default as a Python value. For arrays and structs, None means null, and `()` means empty or a new
    struct."""
    if text == "null":
        return None
    if kind.startswith("[]") or kind[0].isupper():
        return ()
    if kind == "string":
        return text or ""
    if kind == "records":
        return None
    if kind == "bytes":
        return b""
    if kind == "uuid":
        return bytes(16)
    if kind == "bool":
        return text == "true"
    if kind == "float64":
        return float(text or 0)
    return int(text or "0", 0)


def _names(value: Struct) -> tuple[str, ...]:
    names: tuple[str, ...] = value.__class__.__slots__
    return names


def _shown(value: Any) -> str:
    return f"<{len(value)} bytes>" if isinstance(value, bytes | bytearray | memoryview) else repr(value)


def _compile_decoder(cls: type[Message], version: int) -> Callable[[Any, int], tuple[Any, int]]:
    from kraft.protocol.codec import compile_decoder

    cls._decoders[version] = compile_decoder(cls, version)
    return cls._decoders[version]


def _compile_turn_decoder(cls: type[Message], version: int) -> Callable[[Any, int], Steps[tuple[Any, int]]]:
    from kraft.protocol.codec import compile_turn_decoder

    cls._turn_decoders[version] = compile_turn_decoder(cls, version)
    return cls._turn_decoders[version]


def _compile_turn_encoder(cls: type[Message], version: int) -> Callable[[Any, bytearray], Steps[None]]:
    from kraft.protocol.codec import compile_turn_encoder

    cls._turn_encoders[version] = compile_turn_encoder(cls, version)
    return cls._turn_encoders[version]


def _compile_encoder(cls: type[Message], version: int) -> Callable[[Any, bytearray], None]:
    from kraft.protocol.codec import compile_encoder

    cls._encoders[version] = compile_encoder(cls, version)
    return cls._encoders[version]
