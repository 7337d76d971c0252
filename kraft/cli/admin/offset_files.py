"""The file of `kraft groups export` and `kraft groups import`: what groups have committed, as JSON.

{"version": 1, "groups": [{"group_id": "etl", "offsets": [{"topic": "t", "partition": 0, "offset": 7}]}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kraft.cli.admin.offset_reset import Move
from kraft.client.admin.groups import Committed
from kraft.client.admin.offsets import EARLIEST, LATEST, offsets_at
from kraft.client.cluster import Cluster
from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition

VERSION = 1
OFFSET_MAX = (1 << 63) - 1
PARTITION_MAX = (1 << 31) - 1

Offsets = Mapping[TopicPartition, int]


def exported(groups: Mapping[str, Mapping[TopicPartition, Committed]]) -> dict[str, Any]:
    """The file's document."""
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
    """What the file has committed for each group. Raises KraftError that names the file and what is wrong in it."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise KraftError(f"{path}: {problem.strerror}") from problem
    except ValueError as problem:
        raise KraftError(f"{path} is no JSON: {problem}") from problem
    try:
        if document["version"] != VERSION:
            raise KraftError(f"{path} has version {document['version']}; this command reads version {VERSION}")
        groups: dict[str, Offsets] = {}
        for group in document["groups"]:
            offsets = {_partition(path, each): each["offset"] for each in group["offsets"]}
            for partition, offset in offsets.items():
                if type(offset) is not int or not 0 <= offset <= OFFSET_MAX:
                    raise KraftError(f"{path}: {offset!r} is no offset, of {partition} in group {group['group_id']}")
            if type(group["group_id"]) is not str or group["group_id"] in groups:
                raise KraftError(f"{path}: {group['group_id']!r} is no group's name, or there twice")
            groups[group["group_id"]] = offsets
    except (KeyError, TypeError) as problem:
        raise KraftError(f"{path} is no file of `kraft groups export`: {problem!r}") from problem
    return groups


def _partition(path: Path, entry: Mapping[str, Any]) -> TopicPartition:
    topic, index = entry["topic"], entry["partition"]
    if type(topic) is not str or type(index) is not int or not 0 <= index <= PARTITION_MAX:
        raise KraftError(f"{path}: {topic!r}, {index!r} is no partition")
    return TopicPartition(topic, index)


async def plan_import(cluster: Cluster, offsets: Offsets, committed: Mapping[TopicPartition, Committed]) -> list[Move]:
    """What importing changes for one group, within what the partitions hold. Raises ApiError for a partition that is
    not there."""
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
