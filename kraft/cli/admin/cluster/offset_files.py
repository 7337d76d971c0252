"""The file of `kraft groups export` and `kraft groups import`: committed offsets of groups, as JSON.

{"version": 1, "groups": [{"group_id": "etl", "offsets": [{"topic": "t", "partition": 0, "offset": 7}]}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from kraft.admin.groups import Committed
from kraft.admin.offsets import EARLIEST, LATEST, offsets_at
from kraft.cli.admin.offset_reset import Move
from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.rpc_client.cluster import Cluster

VERSION = 1
OFFSET_MAX = (1 << 63) - 1
PARTITION_MAX = (1 << 31) - 1

QUOTED_MAX = 100
"""Characters of an entry that an error message quotes."""

T = TypeVar("T")
Offsets = Mapping[TopicPartition, int]


def exported(groups: Mapping[str, Mapping[TopicPartition, Committed]]) -> dict[str, Any]:
    """The document of the file."""
    return {
        "version": VERSION,
        "groups": [
            {
                "group_id": group_id,
                "offsets": [
                    {"topic": partition.topic, "partition": partition.partition, "offset": each.offset}
                    for partition, each in sorted(committed.items())
                ],
            }
            for group_id, committed in groups.items()
        ],
    }


def read_exported(path: Path) -> dict[str, Offsets]:
    """The committed offsets of each group in the file. Raises KraftError with the file and what is wrong in it."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise KraftError(f"{path}: {problem.strerror}") from problem
    except ValueError as problem:
        raise KraftError(f"{path} is not JSON: {problem}") from problem
    version = _field(path, document, "version", int)
    if version != VERSION:
        raise KraftError(f"{path} has version {version}; this command reads version {VERSION}")
    groups: dict[str, Offsets] = {}
    for group in _field(path, document, "groups", list):
        group_id = _field(path, group, "group_id", str)
        if group_id in groups:
            raise KraftError(f"{path}: group {group_id} appears twice")
        groups[group_id] = {
            _partition(path, each): _number(path, each, "offset", OFFSET_MAX)
            for each in _field(path, group, "offsets", list)
        }
    return groups


def _field(path: Path, entry: object, name: str, kind: type[T]) -> T:
    """Return a field of an entry. Raises KraftError."""
    if not isinstance(entry, dict) or name not in entry:
        raise KraftError(f'{path} is not a file of `kraft groups export`: {_quoted(entry)} has no "{name}"')
    found = entry[name]
    if type(found) is not kind:
        raise KraftError(f'{path}: "{name}" of {_quoted(entry)} is not of type {kind.__name__}')
    return found


def _number(path: Path, entry: object, name: str, greatest: int) -> int:
    found = _field(path, entry, name, int)
    if not 0 <= found <= greatest:
        raise KraftError(f'{path}: "{name}" of {_quoted(entry)} is not from 0 to {greatest}')
    return found


def _quoted(entry: object) -> str:
    text = json.dumps(entry, ensure_ascii=False)
    return text if len(text) <= QUOTED_MAX else f"{text[:QUOTED_MAX]}..."


def _partition(path: Path, entry: object) -> TopicPartition:
    return TopicPartition(_field(path, entry, "topic", str), _number(path, entry, "partition", PARTITION_MAX))


async def plan_import(cluster: Cluster, offsets: Offsets, committed: Mapping[TopicPartition, Committed]) -> list[Move]:
    """The changes of an import for one group, limited to the partitions' logs. Raises ApiError for a partition that
    does not exist."""
    begins = await offsets_at(cluster, offsets, EARLIEST)
    ends = await offsets_at(cluster, offsets, LATEST)
    return [
        Move(
            partition,
            committed[partition].offset if partition in committed else None,
            min(max(offset, begins[partition]), ends[partition]),
        )
        for partition, offset in sorted(offsets.items())
    ]
