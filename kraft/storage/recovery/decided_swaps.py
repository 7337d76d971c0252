"""Finds the `.swap` segments of an interrupted cleaning that a start must swap in, from file names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kraft.storage.log_files import DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX


def decided_swaps(files: Sequence[tuple[str, int, str, str]], end_of: Callable[[int], int]) -> set[int]:
    """Offsets of the replacements that must be swapped in, because one of their original segments is already deleted.
    `files` are (name, offset, kind, suffix). `end_of(offset)` returns where a replacement ends (exclusive)."""
    logs = [(offset, suffix) for _, offset, kind, suffix in files if kind == LOG_SUFFIX]
    there = {offset for offset, suffix in logs if not suffix}
    gone = [offset for offset, suffix in logs if suffix == DELETED_SUFFIX and offset not in there]
    decided = set()
    for start in [offset for offset, suffix in logs if suffix == SWAP_SUFFIX]:
        end = end_of(start)
        if any(start <= offset < end for offset in gone):
            decided.add(start)
    return decided
