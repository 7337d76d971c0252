"""Kafka's JSON schemas, read and reduced to what the declaration modules need. `generate_messages` writes them out."""

from __future__ import annotations

import json
import keyword
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESERVED = {"encode", "encode_into", "decode", "decode_from", "unknown_tags", "self"}
PYTHON_TYPES = {
    "bool": "bool",
    "string": "str",
    "uuid": "bytes",
    "float64": "float",
    "bytes": "bytes",
    "records": "Bytes",
}
PYTHON_TYPES |= dict.fromkeys(("int8", "int16", "int32", "int64", "uint16", "uint32"), "int")
ZERO_DEFAULTS = {
    "bool": "False",
    "string": '""',
    "uuid": "ZERO_UUID",
    "float64": "0.0",
    "bytes": 'b""',
    "records": "None",
}


def snake_case(name: str) -> str:
    """Kafka's field or schema name as a Python name: `TimeoutMs` is `timeout_ms`, `KRaftVersion` is `kraft_version`."""
    name = name.replace("KRaft", "Kraft")
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    result = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()
    if keyword.iskeyword(result) or result in RESERVED:
        raise SystemExit(f"generate_messages: {name!r} makes no usable Python name ({result!r})")
    return result


def schema_texts(source: Path, jar: str) -> list[str]:
    """The schemas of a jar, in order of name: from `jar` in the folder `source`, or, unpacked, from `source/jar`.
    Raises FileNotFoundError."""
    if (source / jar).is_dir():
        return [path.read_text(encoding="utf-8") for path in sorted((source / jar).glob("*.json"))]
    jars = sorted(source.glob(f"{jar}-[0-9]*.jar"))
    if not jars:
        raise FileNotFoundError(f"{source} has neither a folder {jar} nor {jar}-<version>.jar")
    with zipfile.ZipFile(jars[-1]) as archive:
        names = sorted(
            (name for name in archive.namelist() if name.endswith(".json")), key=lambda name: name.rsplit("/", 1)[-1]
        )
        return [archive.read(name).decode("utf-8") for name in names]


def parse_schema(text: str) -> dict[str, Any]:
    """One schema file: JSON with `//` comments on lines of their own or at a line's end."""
    text = re.sub(r"(?m)^\s*//.*$", "", text)
    schema: dict[str, Any] = json.loads(re.sub(r'(?m)//[^"\n]*$', "", text))
    return schema


@dataclass(slots=True)
class FieldDeclaration:
    """One field of a schema, reduced to what the codec and the class need."""

    name: str
    type: str
    versions: str
    nullable: str | None
    tag: int | None
    tagged: str | None
    default: str | None
    ignorable: bool
    key: bool
    entity: str | None
    zero_copy: bool
    flexible: str | None

    @classmethod
    def of(cls, source: dict[str, Any]) -> FieldDeclaration:
        # Kafka's generator reads a JSON null as "no default given"; only the text "null" makes null the default.
        # Checked against its compiled classes: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata is a new struct
        # when its tag is absent, and null is written out.
        default = source.get("default")
        if default is not None:
            default = str(default).lower() if isinstance(default, bool) else str(default)
        tagged = source.get("taggedVersions")
        versions = str(source.get("versions") or tagged)
        return cls(
            name=snake_case(source["name"]),
            type=source["type"],
            versions=versions,
            nullable=source.get("nullableVersions"),
            tag=source.get("tag"),
            tagged=tagged,
            default=default,
            ignorable=bool(source.get("ignorable", False)),
            key=bool(source.get("mapKey", False)),
            entity=source.get("entityType"),
            zero_copy=bool(source.get("zeroCopy", False)),
            flexible=source.get("flexibleVersions"),
        )

    @property
    def element(self) -> str:
        return self.type.removeprefix("[]")

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def is_struct(self) -> bool:
        return not self.is_array and self.type[0].isupper()

    def declaration(self) -> str:
        """The line of `SCHEMA` that `kraft.protocol.schema` parses."""
        parts = [f"{self.name}: {self.type} {self.versions}"]
        if self.nullable:
            parts.append(f"nullable={self.nullable}")
        if self.tag is not None:
            parts.append(f"tag={self.tag}@{self.tagged}")
        if self.default not in (None, ""):
            parts.append(f"default={self.default}")
        if self.flexible:
            parts.append(f"flexible={self.flexible}")
        if self.entity:
            parts.append(f"entity={self.entity}")
        parts += [
            word
            for word, present in (("key", self.key), ("ignorable", self.ignorable), ("zero_copy", self.zero_copy))
            if present
        ]
        return " ".join(parts)

    def python_type(self) -> str:
        """The attribute's type. A tagged struct is None when absent: most are, and making each would cost more than
        all the rest of a Fetch response."""
        base = "Bytes" if self.zero_copy else PYTHON_TYPES.get(self.element, self.element)
        text = f"list[{base}]" if self.is_array else base
        null = self.nullable is not None or self.type == "records" or (self.is_struct and self.tagged is not None)
        return f"{text} | None" if null else text

    def parameter(self) -> str:
        """The field as a keyword parameter of `__init__`."""
        kind = self.python_type()
        if self.is_array:
            element = kind.removesuffix(" | None").removeprefix("list[").removesuffix("]")
            if self.default == "null":
                return f"{self.name}: {kind} = None"
            accepted = kind.replace(" | None", "") + f" | tuple[{element}, ...]" + (" | None" if self.nullable else "")
            return f"{self.name}: {accepted} = ()"
        if self.is_struct:
            if self.nullable and self.default != "null":
                return f"{self.name}: {kind} | tuple[()] = ()"
            return f"{self.name}: {kind.removesuffix(' | None')} | None = None"
        return f"{self.name}: {kind} = {self.python_default()}"

    def python_default(self) -> str:
        if self.default == "null":
            return "None"
        if self.default in (None, ""):
            return ZERO_DEFAULTS.get(self.type, "0")
        if self.type == "bool":
            return "True" if self.default == "true" else "False"
        if self.type == "string":
            return json.dumps(self.default)
        return repr(float(self.default)) if self.type == "float64" else str(int(self.default, 0))

    def assignment(self) -> str:
        name = self.name
        if self.is_array and self.default != "null":
            return f"self.{name}: {self.python_type()} = list({name}) if isinstance({name}, tuple) else {name}"
        if self.is_struct and self.nullable and self.default != "null":
            return f"self.{name} = {self.type}() if isinstance({name}, tuple) else {name}"
        if self.is_struct and not self.nullable and self.tagged is None:
            return f"self.{name} = {self.type}() if {name} is None else {name}"
        return f"self.{name} = {name}"


@dataclass(slots=True)
class StructDeclaration:
    name: str
    fields: list[FieldDeclaration]


@dataclass(slots=True)
class MessageDeclaration:
    """One schema file."""

    jar: str
    source: dict[str, Any]
    structs: list[StructDeclaration] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.source["name"])

    @property
    def module(self) -> str:
        return snake_case(self.name)

    @property
    def api_key(self) -> int:
        return int(self.source.get("apiKey", -1))

    @property
    def valid(self) -> tuple[int, int]:
        low, _, high = self.source["validVersions"].partition("-")
        return int(low), int(high or low)

    @property
    def flexible_from(self) -> int | None:
        """The first flexible version among the valid ones, or None."""
        text = self.source["flexibleVersions"]
        return None if text == "none" else max(int(text.removesuffix("+")), self.valid[0])


def collect_structs(message: MessageDeclaration) -> None:
    """Collect the nested structs of a message, each before those that use it, the message itself last."""
    common = {struct["name"]: struct for struct in message.source.get("commonStructs", [])}
    done: set[str] = set()

    def visit(name: str, fields: list[dict[str, Any]]) -> None:
        for source in fields:
            element = source["type"].removeprefix("[]")
            if element[0].isupper() and element not in done:
                visit(element, source["fields"] if "fields" in source else common[element]["fields"])
        if name not in done:
            done.add(name)
            message.structs.append(StructDeclaration(name, [FieldDeclaration.of(source) for source in fields]))

    visit(message.name, message.source["fields"])
