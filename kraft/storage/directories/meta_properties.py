"""`meta.properties`: the identity of a log directory (KIP-631, KIP-858). Version 1: cluster.id, node.id, directory.id.

It is written once by formatting, in Java's properties format. Unknown keys are kept. A directory of another cluster or
node is refused and not touched.

At its start a node reads the file of the metadata directory (`kraft.server.node`), then those of the log directories
(`kraft.storage.log_manager`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kraft.common.errors import ConfigurationError, CorruptData
from kraft.common.ids import Uuid, uuid_from_text, uuid_to_text
from kraft.storage.checkpoints import read_text, replace_file
from kraft.storage.log_files import META_PROPERTIES
from kraft.world.ports import FileSystem

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The identity of one log directory. `directory_id` may be missing in directories formatted before KIP-858."""

    cluster_id: str
    node_id: int
    directory_id: Uuid | None = None
    others: Mapping[str, str] = field(default_factory=dict)

    def to_text(self) -> str:
        values = {"cluster.id": self.cluster_id, "node.id": str(self.node_id), "version": str(VERSION), **self.others}
        if self.directory_id is not None:
            values["directory.id"] = uuid_to_text(self.directory_id)
        return "#\n" + "".join(f"{key}={_escape(value)}\n" for key, value in sorted(values.items()))


def meta_properties_path(directory: str) -> str:
    return f"{directory}/{META_PROPERTIES}"


def read_meta_properties(files: FileSystem, directory: str) -> MetaProperties | None:
    """Return the directory's identity, or None if it is not formatted. Raises CorruptData."""
    path = meta_properties_path(directory)
    text = read_text(files, path)
    if text is None:
        return None
    values = parse_properties(text)
    try:
        if values.pop("version") != str(VERSION):
            raise CorruptData(f"{path}: only version {VERSION} is supported")
        directory_id = values.pop("directory.id", None)
        return MetaProperties(
            cluster_id=values.pop("cluster.id"),
            node_id=int(values.pop("node.id")),
            directory_id=None if directory_id is None else uuid_from_text(directory_id),
            others=values,
        )
    except (KeyError, ValueError) as problem:
        raise CorruptData(f"{path}: {problem} is missing or malformed") from problem


def write_meta_properties(files: FileSystem, directory: str, properties: MetaProperties) -> None:
    """Write meta.properties atomically and durably. Raises OSError."""
    replace_file(files, meta_properties_path(directory), properties.to_text().encode())


def check_same_node(found: Sequence[tuple[str, MetaProperties]], cluster_id: str | None, node_id: int) -> None:
    """Raises ConfigurationError naming every directory that belongs to another cluster or node, or shares its id
    with another."""
    problems, seen = [], dict[bytes, str]()
    expected = cluster_id if cluster_id is not None else (found[0][1].cluster_id if found else None)
    for directory, properties in found:
        path = meta_properties_path(directory)
        if properties.cluster_id != expected:
            problems.append(f"{path}: belongs to cluster {properties.cluster_id}, not {expected}")
        if properties.node_id != node_id:
            problems.append(f"{path}: belongs to node {properties.node_id}, not {node_id}")
        if properties.directory_id is not None:
            other = seen.setdefault(properties.directory_id, path)
            if other != path:
                problems.append(f"{path}: has the same directory.id as {other}")
    if problems:
        raise ConfigurationError(problems)


def parse_properties(text: str) -> dict[str, str]:
    """Java's properties format, as far as Kafka's own files use it: comments, `=` or `:`, backslash escapes."""
    values = {}
    for line in text.splitlines():
        line = line.lstrip()
        if not line or line[0] in "#!":
            continue
        at = next(
            (index for index, character in enumerate(line) if character in "=:" and line[index - 1 : index] != "\\"),
            len(line),
        )
        values[_unescape(line[:at].strip())] = _unescape(line[at + 1 :].strip())
    return values


def _escape(value: str) -> str:
    return "".join("\\" + character if character in "\\=:#!" else character for character in value)


def _unescape(value: str) -> str:
    out, escaped = [], False
    for character in value:
        if character == "\\" and not escaped:
            escaped = True
        else:
            out.append(character)
            escaped = False
    return "".join(out)
