"""Node ids of tests that tables name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def missing_test(node_id: str) -> str | None:
    """Why there is no such test, or None. A case of a parametrized test may be a file beside it."""
    path, _, name = node_id.partition("::")
    function, case = re.fullmatch(r"(\w+)(?:\[(.+)\])?", name).groups()  # type: ignore[union-attr]  # Every name matches.
    file = ROOT / path
    if not file.is_file():
        return f"no file {path}"
    tests = [each.name for each in ast.parse(file.read_text()).body if isinstance(each, ast.FunctionDef)]
    if not function.startswith("test_") or function not in tests:
        return f"no test {function} in {path}"
    if case is not None and not (file.parent / f"{case}.txt").is_file():
        return f"no case {case} of {function}"
    return None
