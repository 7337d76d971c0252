"""`kraft storage info`: the state of a node's log directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kraft.common.errors import CorruptData
from kraft.common.ids import uuid_to_text
from kraft.storage.directories.meta_properties import MetaProperties, read_meta_properties
from kraft.world.ports import FileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageInfo:
    """The findings of `storage info`. `exit_code` is 1 if there is any problem."""

    directories: tuple[str, ...]
    metadata: Mapping[str, str]
    problems: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        return 1 if self.problems else 0

    def lines(self) -> list[str]:
        output = []
        if self.directories:
            output += [
                "Found log directory:" if len(self.directories) == 1 else "Found log directories:",
                *map("  {}".format, self.directories),
                "",
            ]
        if self.metadata:
            output += [
                f"Found metadata: {{{', '.join(f'{key}={value}' for key, value in sorted(self.metadata.items()))}}}",
                "",
            ]
        if self.problems:
            output += [
                "Found problem:" if len(self.problems) == 1 else "Found problems:",
                *(f"  {problem}" for problem in self.problems),
                "",
            ]
        return output


def storage_info(files: FileSystem, directories: Sequence[str]) -> StorageInfo:
    """Read the state of a node's directories. Nothing is changed."""
    found, problems, first = [], [], dict[str, str]()
    for directory in sorted(directories):
        if not files.exists(directory):
            problems.append(f"{directory} does not exist")
            continue
        found.append(directory)
        try:
            properties = read_meta_properties(files, directory)
        except CorruptData as problem:
            problems.append(str(problem))
            continue
        if properties is None:
            problems.append(f"{directory} is not formatted.")
            continue
        facts = described(properties)
        different = [key for key in ("cluster.id", "node.id") if first and facts[key] != first[key]]
        problems.extend(
            f"{key} of {directory} is {facts[key]}, that of {found[0]} is {first[key]}" for key in different
        )
        first = first or facts
    return StorageInfo(directories=tuple(found), metadata=first, problems=tuple(problems))


def described(properties: MetaProperties) -> dict[str, str]:
    facts = {
        "cluster.id": properties.cluster_id,
        "node.id": str(properties.node_id),
        "version": "1",
        **properties.others,
    }
    if properties.directory_id is not None:
        facts["directory.id"] = uuid_to_text(properties.directory_id)
    return facts
