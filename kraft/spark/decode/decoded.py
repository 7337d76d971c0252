"""What the decoders of typed reads make of binary columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

Rows = list[dict[str, Any] | None]


class Decoded(NamedTuple):
    """A struct for each text, null where the text is null or bad, and why by the index of each bad one."""

    rows: pa.Array
    bad: dict[int, str]


def decode_each(
    texts: pa.Array, record: Callable[[bytes], dict[str, Any]], unreadable: tuple[type[Exception], ...]
) -> tuple[Rows, dict[int, str]]:
    """What `record` makes of each text, and why not by the index of each that it raises one of `unreadable` for. What
    is null stays null."""
    rows: Rows = []
    bad: dict[int, str] = {}
    for index, text in enumerate(texts.to_pylist()):
        row = None
        if text is not None:
            try:
                row = record(text)
            except unreadable as problem:
                bad[index] = str(problem) or type(problem).__name__
        rows.append(row)
    return rows, bad
