"""The result of decoding a binary column in a typed read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

Rows = list[dict[str, Any] | None]


class Decoded(NamedTuple):
    """A struct for each text, null if the text is null or bad. `bad` is the reason for each bad text by index."""

    rows: pa.Array
    bad: dict[int, str]


def decode_each(
    texts: pa.Array, record: Callable[[bytes], dict[str, Any]], unreadable: tuple[type[Exception], ...]
) -> tuple[Rows, dict[int, str]]:
    """Decode each text with `record`. Returns the rows, and the reason by index for each text on which `record` raised
    one of `unreadable`. Nulls stay null."""
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
