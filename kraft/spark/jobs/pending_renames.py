"""Replace directories of an archive in a crash-safe way (compact.py describes the protocol)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from kraft.spark.jobs.running import JobFailed

JOURNAL = "_compaction.json"
MERGED = "_merged-"
REPLACED = "_replaced-"
WRITING = "_writing-"
"""The prefix for files of a run's tasks before they are moved."""


def note(place: Path, merged: Path, replaced: Sequence[Path]) -> None:
    """Record durably that `merged` replaces the directories `replaced`, and will be renamed to the first of them."""
    document = {"merged": merged.name, "replaced": [each.name for each in replaced]}
    beside = place / f"{JOURNAL}.new"
    with beside.open("w", encoding="utf-8") as file:
        file.write(json.dumps(document))
        file.flush()
        os.fsync(file.fileno())
    beside.rename(place / JOURNAL)
    sync(place)


def carry_out(place: Path) -> None:
    """Complete the recorded renames, if there are any; otherwise remove leftovers of an interrupted run. Raises
    JobFailed for a corrupt record."""
    journal = place / JOURNAL
    if journal.exists():
        try:
            document = json.loads(journal.read_text(encoding="utf-8"))
            merged, replaced = place / document["merged"], [place / name for name in document["replaced"]]
        except (ValueError, KeyError, TypeError) as problem:
            raise JobFailed(f"{journal} is damaged: {problem}") from problem
        if merged.exists():  # Its own name is taken until the first one is replaced.
            for each in replaced:
                if each.exists():
                    each.rename(place / f"{REPLACED}{each.name}")
            merged.rename(replaced[0])
        sync(place)
        journal.unlink()
        sync(place)
    (place / f"{JOURNAL}.new").unlink(missing_ok=True)
    for each in sorted(place.glob(f"{WRITING}*")):
        # Tasks of a run that was killed may still write, until the directory has another name.
        each.rename(place / f"{REPLACED}{each.name}")
    for pattern in (f"{MERGED}*", f"{REPLACED}*"):
        for each in sorted(place.glob(pattern)):
            shutil.rmtree(each)


def is_pending(place: Path) -> bool:
    return (place / JOURNAL).exists()


def sync(path: Path) -> None:
    """Flush a file or a directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
