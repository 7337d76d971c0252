"""Writes one declaration module per Kafka message from Kafka's own JSON schemas.

    python -m kraft._tools.generate_messages SCHEMAS [--root DIR]

SCHEMAS is a folder with Kafka's jars, which contain their schemas (`python -m jepsen.java.jars` fetches them and
prints the folder; docs/testing.md), or with one sub-folder of schemas per jar. What comes out:

- `kraft/protocol/messages/`: requests, responses, headers, Raft control records and other data of the clients, raft
  and storage jars; `table.py` (the APIs);
- `kraft/metadata/records/`: metadata records, and `table.py` (record id to module);
- `kraft/coordinator/records/`: records of the group, transaction and share coordinators, and `table.py` (record type
  to modules).

Only facts are taken (names, types, version ranges, tags, defaults); Kafka's prose is not. Messages without a valid
version (retired APIs) are left out. The output is committed; a test writes it again and compares.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from kraft._tools.message_declarations import (
    MessageDeclaration,
    StructDeclaration,
    collect_structs,
    parse_schema,
    schema_texts,
)

RELEASE = "4.4.0"
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
    """`table.py` of the wire messages: the facts about each API that are needed without importing its module."""
    requests = {message.api_key: message for message in messages if message.source["type"] == "request"}
    for response in (message for message in messages if message.source["type"] == "response"):
        request = requests[response.api_key]
        if (request.valid, request.flexible_from) != (response.valid, response.flexible_from):
            raise SystemExit(f"generate_messages: {request.name} and {response.name} differ in their versions")
    lines = [
        f'"""The API table. {ORIGIN}"""',
        "",
        (
            "# API key: (schema name without Request, lowest version, highest version, first flexible version or "
            "None, listeners, highest version is unstable)"
        ),
        "APIS: dict[int, tuple[str, int, int, int | None, tuple[str, ...], bool]] = {",
    ]
    for key, message in sorted(requests.items()):
        listeners = tuple(message.source.get("listeners", ()))
        row = (
            message.name.removesuffix("Request"),
            *message.valid,
            message.flexible_from,
            listeners,
            bool(message.source.get("latestVersionUnstable", False)),
        )
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
    """`table.py` of the coordinator records: record type to the modules and classes of key and value, one table per
    coordinator."""
    lines = [f'"""Coordinator records by type. {ORIGIN}"""', ""]
    for coordinator in ("group", "transaction", "share"):
        mine = [message for message in messages if message.jar == f"kafka-{coordinator}-coordinator"]
        keys = {message.api_key: message for message in mine if message.source["type"] == "coordinator-key"}
        values = {message.api_key: message for message in mine if message.source["type"] == "coordinator-value"}
        lines.append("# Record type: (module of the key, its class, module of the value, its class)")
        lines += [f"{coordinator.upper()}: dict[int, tuple[str, str, str, str]] = {{"]
        lines += [
            f'    {key}: ("{k.module}", "{k.name}", "{values[key].module}", "{values[key].name}"),'
            for key, k in sorted(keys.items())
        ]
        lines += ["}", ""]
    return "\n".join(lines)


def generate(schemas: Path) -> dict[str, str]:
    """Every file to write, by path relative to the project's root."""
    by_package: dict[str, list[MessageDeclaration]] = {MESSAGES: [], METADATA_RECORDS: [], COORDINATOR_RECORDS: []}
    for jar, package in PACKAGE_OF_JAR.items():
        for text in schema_texts(schemas, jar):
            source = parse_schema(text)
            if source["validVersions"] != "none":
                message = MessageDeclaration(jar, source)
                collect_structs(message)
                by_package[package].append(message)
    files = {
        f"{package}/{message.module}.py": render(message)
        for package, messages in by_package.items()
        for message in messages
    }
    files[f"{MESSAGES}/table.py"] = render_api_table(by_package[MESSAGES])
    files[f"{METADATA_RECORDS}/table.py"] = render_metadata_table(by_package[METADATA_RECORDS])
    files[f"{COORDINATOR_RECORDS}/table.py"] = render_coordinator_table(by_package[COORDINATOR_RECORDS])
    return files


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write the message declarations from Kafka's JSON schemas.")
    parser.add_argument(
        "schemas", type=Path, help="folder with Kafka's jars, or with one sub-folder of JSON schemas per jar"
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(__file__).resolve().parents[2],
        help="root of the project (default: the one this file is in)",
    )
    options = parser.parse_args(arguments)
    try:
        files = generate(options.schemas)
    except FileNotFoundError as problem:
        raise SystemExit(f"generate_messages: {problem}") from None
    for name, text in files.items():
        path = options.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{len(files)} files written")


if __name__ == "__main__":
    main()
