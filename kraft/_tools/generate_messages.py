"""Writes one declaration module per Kafka message from Kafka's own JSON schemas.

    python -m kraft._tools.generate_messages SCHEMAS_DIR [--root DIR]

SCHEMAS_DIR holds one folder per Kafka jar (`kafka-clients/ProduceRequest.json` ...), as `python -m kraft._tools.fetch_schemas` lays them out. What comes out:

- `kraft/protocol/messages/`: requests, responses, headers, Raft control records and other data of the clients, raft and storage jars; `table.py` (the APIs);
- `kraft/metadata/records/`: metadata records, and `table.py` (record id to module);
- `kraft/coordinator/records/`: records of the group, transaction and share coordinators, and `table.py` (record type to modules).

Only facts are taken (names, types, version ranges, tags, defaults); Kafka's prose is not. Messages without a valid version (retired APIs) are left out.
The output is committed; a test writes it again and compares.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RELEASE = "4.3.1"
ORIGIN = f"Generated from Apache Kafka {RELEASE} by kraft/_tools/generate_messages.py: do not edit."
MESSAGES = "kraft/protocol/messages"
METADATA_RECORDS = "kraft/metadata/records"
COORDINATOR_RECORDS = "kraft/coordinator/records"
PACKAGE_OF_JAR = {
    "kafka-clients": MESSAGES,
    "kafka-raft": MESSAGES,
    "kafka-storage": MESSAGES,
    "kafka-metadata": METADATA_RECORDS,
    "kafka-group-coordinator": COORDINATOR_RECORDS,
    "kafka-transaction-coordinator": COORDINATOR_RECORDS,
    "kafka-share-coordinator": COORDINATOR_RECORDS,
}
RESERVED = {"encode", "encode_into", "decode", "decode_from", "unknown_tags", "self"}
PYTHON_TYPES = {"bool": "bool", "string": "str", "uuid": "bytes", "float64": "float", "bytes": "bytes", "records": "Bytes"}
PYTHON_TYPES |= dict.fromkeys(("int8", "int16", "int32", "int64", "uint16", "uint32"), "int")
ZERO_DEFAULTS = {"bool": "False", "string": '""', "uuid": "ZERO_UUID", "float64": "0.0", "bytes": 'b""', "records": "None"}


def snake_case(name: str) -> str:
    """Kafka's field or schema name as a Python name: `TimeoutMs` is `timeout_ms`, `KRaftVersion` is `kraft_version`."""
    name = name.replace("KRaft", "Kraft")
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    result = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()
    if keyword.iskeyword(result) or result in RESERVED:
        raise SystemExit(f"generate_messages: {name!r} makes no usable Python name ({result!r})")
    return result


def read_schema(path: Path) -> dict[str, Any]:
    """One schema file: JSON with `//` comments on lines of their own or at a line's end."""
    text = re.sub(r"(?m)^\s*//.*$", "", path.read_text(encoding="utf-8"))
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
        # Kafka's generator reads a JSON null as "no default given"; only the text "null" makes null the default. Checked against its compiled classes:
        # ConsumerGroupMemberMetadataValue.ClassicMemberMetadata is a new struct when its tag is absent, and null is written out.
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
        parts += [word for word, present in (("key", self.key), ("ignorable", self.ignorable), ("zero_copy", self.zero_copy)) if present]
        return " ".join(parts)

    def python_type(self) -> str:
        """The attribute's type. A tagged struct is None when absent: most are, and making each would cost more than all the rest of a Fetch response."""
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
    """Nested structs before those that use them, the message itself last."""
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


def render_struct(struct: StructDeclaration, message: MessageDeclaration) -> Iterator[str]:
    top = struct.name == message.name
    yield f"class {struct.name}({'Message' if top else 'Struct'}):"
    slots = [declared.name for declared in struct.fields] + ["unknown_tags"]
    yield "    __slots__ = (" + ", ".join(f'"{name}"' for name in slots) + ("," if len(slots) == 1 else "") + ")"
    if top:
        low, high = message.valid
        yield f"    API_KEY = {message.api_key}"
        yield f"    VALID_VERSIONS = ({low}, {high})"
        yield f"    FLEXIBLE_VERSIONS = {None if message.flexible_from is None else (message.flexible_from, high)}"
    if struct.fields:
        yield '    SCHEMA = """'
        yield from (f"    {declared.declaration()}" for declared in struct.fields)
        yield '    """'
        yield ""
        yield "    def __init__("
        yield "        self,"
        yield "        *,"
        yield from (f"        {declared.parameter()}," for declared in struct.fields)
        yield "        unknown_tags: UnknownTags | None = None,"
        yield "    ) -> None:"
    else:
        yield '    SCHEMA = ""'
        yield ""
        yield "    def __init__(self, *, unknown_tags: UnknownTags | None = None) -> None:"
    yield from (f"        {declared.assignment()}" for declared in struct.fields)
    yield "        self.unknown_tags = unknown_tags"


def render(message: MessageDeclaration) -> str:
    """The module's source."""
    bodies = ["\n".join(render_struct(struct, message)) for struct in message.structs]
    text = "\n\n\n".join(bodies)
    names = [name for name in ("Bytes", "Message", "Struct", "UnknownTags") if re.search(rf"\b{name}\b", text)]
    imports = ["from kraft.common.ids import ZERO_UUID"] if "ZERO_UUID" in text else []
    imports.append(f"from kraft.protocol.schema import {', '.join(names)}")
    head = f'"""{message.name}. {ORIGIN}"""\n\nfrom __future__ import annotations\n\n'
    return head + "\n".join(imports) + "\n\n\n" + text + "\n"


def render_api_table(messages: list[MessageDeclaration]) -> str:
    """`table.py` of the wire messages: what is known of each API without importing its module."""
    requests = {message.api_key: message for message in messages if message.source["type"] == "request"}
    for response in (message for message in messages if message.source["type"] == "response"):
        request = requests[response.api_key]
        if (request.valid, request.flexible_from) != (response.valid, response.flexible_from):
            raise SystemExit(f"generate_messages: {request.name} and {response.name} differ in their versions")
    lines = [
        f'"""The API table. {ORIGIN}"""',
        "",
        "# API key: (schema name without Request, lowest version, highest version, first flexible version or None, listeners, highest version is unstable)",
        "APIS: dict[int, tuple[str, int, int, int | None, tuple[str, ...], bool]] = {",
    ]
    for key, message in sorted(requests.items()):
        listeners = tuple(message.source.get("listeners", ()))
        row = (message.name.removesuffix("Request"), *message.valid, message.flexible_from, listeners, bool(message.source.get("latestVersionUnstable", False)))
        lines.append(f"    {key}: {row!r},".replace("'", '"'))
    return "\n".join([*lines, "}", ""])


def render_metadata_table(messages: list[MessageDeclaration]) -> str:
    """`table.py` of the metadata records: record id to module and class."""
    rows = sorted((message.api_key, message.module, message.name) for message in messages)
    return "\n".join(
        [
            f'"""Metadata records by id. {ORIGIN}"""',
            "",
            "# Record id: (module, class)",
            "RECORDS: dict[int, tuple[str, str]] = {",
            *(f'    {key}: ("{module}", "{name}"),' for key, module, name in rows),
            "}",
            "",
        ]
    )


def render_coordinator_table(messages: list[MessageDeclaration]) -> str:
    """`table.py` of the coordinator records: record type to the modules and classes of key and value, one table per coordinator."""
    lines = [f'"""Coordinator records by type. {ORIGIN}"""', ""]
    for coordinator in ("group", "transaction", "share"):
        mine = [message for message in messages if message.jar == f"kafka-{coordinator}-coordinator"]
        keys = {message.api_key: message for message in mine if message.source["type"] == "coordinator-key"}
        values = {message.api_key: message for message in mine if message.source["type"] == "coordinator-value"}
        lines.append("# Record type: (module of the key, its class, module of the value, its class)")
        lines += [f"{coordinator.upper()}: dict[int, tuple[str, str, str, str]] = {{"]
        lines += [f'    {key}: ("{k.module}", "{k.name}", "{values[key].module}", "{values[key].name}"),' for key, k in sorted(keys.items())]
        lines += ["}", ""]
    return "\n".join(lines)


def generate(schemas: Path) -> dict[str, str]:
    """Every file to write, by path relative to the project's root."""
    by_package: dict[str, list[MessageDeclaration]] = {MESSAGES: [], METADATA_RECORDS: [], COORDINATOR_RECORDS: []}
    for jar, package in PACKAGE_OF_JAR.items():
        for path in sorted((schemas / jar).glob("*.json")):
            source = read_schema(path)
            if source["validVersions"] != "none":
                message = MessageDeclaration(jar, source)
                collect_structs(message)
                by_package[package].append(message)
    files = {f"{package}/{message.module}.py": render(message) for package, messages in by_package.items() for message in messages}
    files[f"{MESSAGES}/table.py"] = render_api_table(by_package[MESSAGES])
    files[f"{METADATA_RECORDS}/table.py"] = render_metadata_table(by_package[METADATA_RECORDS])
    files[f"{COORDINATOR_RECORDS}/table.py"] = render_coordinator_table(by_package[COORDINATOR_RECORDS])
    return files


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write the message declarations from Kafka's JSON schemas.")
    parser.add_argument("schemas", type=Path, help="folder with one sub-folder of JSON schemas per Kafka jar")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2], help="root of the project (default: the one this file is in)")
    options = parser.parse_args(arguments)
    missing = [jar for jar in PACKAGE_OF_JAR if not (options.schemas / jar).is_dir()]
    if missing:
        raise SystemExit(f"generate_messages: {options.schemas} lacks {', '.join(missing)}")
    files = generate(options.schemas)
    for name, text in files.items():
        path = options.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{len(files)} files written")


if __name__ == "__main__":
    main()
