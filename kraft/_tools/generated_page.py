"""A page of docs that a generator writes, and a test checks."""

from __future__ import annotations

from pathlib import Path


def write_or_check(text: str, target: Path, arguments: list[str]) -> int:
    """Write the page, or compare it with `--check`. Returns the exit code: 1 if the page differs."""
    if "--check" in arguments:
        return 0 if target.exists() and target.read_text(encoding="utf-8") == text else 1
    target.write_text(text, encoding="utf-8")
    return 0
