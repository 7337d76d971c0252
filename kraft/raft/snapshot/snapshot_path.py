"""Names of snapshot files (KIP-630): 20 digits of end offset, 10 of epoch. `.part` while being written, `.deleted`
while waiting to be removed."""

from __future__ import annotations

import re

from kraft.common.ids import OffsetAndEpoch

SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"
DELETED_SUFFIX = ".checkpoint.deleted"
BOOTSTRAP_ID = OffsetAndEpoch(0, 0)  # The voters at format. Never served, never counted as a snapshot of the log.
BOOTSTRAP_FILE = "bootstrap.checkpoint"

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_UNFINISHED = re.compile(r"\d{20}-\d{10}.*\.checkpoint\.(part|deleted)")


def snapshot_name(snapshot: OffsetAndEpoch) -> str:
    return f"{snapshot.offset:020d}-{snapshot.epoch:010d}{SUFFIX}"


def part_of(name: str) -> str:
    """Return the file in which a local snapshot is written until it is finished."""
    return f"{name.removesuffix(SUFFIX)}-local{PART_SUFFIX}"


def parse_name(name: str) -> OffsetAndEpoch | None:
    """Return the snapshot in a finished file of this name; None for any other file."""
    match = _NAME.fullmatch(name)
    return OffsetAndEpoch(int(match[1]), int(match[2])) if match else None


def is_unfinished(name: str) -> bool:
    """Whether the file is the leftover of an interrupted write or deletion, to be removed at start."""
    return _UNFINISHED.fullmatch(name) is not None
