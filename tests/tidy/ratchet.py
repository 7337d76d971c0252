"""How long files and functions are before somebody has to look, and which are longer today.

`sizes.json` lists the exceptions with the size they had when they were last looked at; each may shrink and none may
grow. `python -m tests.tidy.ratchet` lowers the entries to what is true now and drops those that are no longer
needed; it never raises one. A new exception is written by hand, in a commit that says why the thing is better long.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping

from tests.tidy.source import ROOT, Module, is_generated, product_modules

FILE_LINES = 500
FUNCTION_LINES = 60
TABLE = ROOT / "tests/tidy/sizes.json"


def sizes(modules: Iterable[Module]) -> Iterator[tuple[str, int, int]]:
    """(name, lines, limit) of every file and function; a function is `path::Class.function`, its docstring not
    counted."""
    for module in modules:
        if not is_generated(module.path):
            yield module.path, module.text.count("\n"), FILE_LINES
            for name, lines in _functions(module.tree, ""):
                yield f"{module.path}::{name}", lines, FUNCTION_LINES


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}", _length(child)
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, less the docstring's and those of blank space around it."""
    end = function.end_lineno or function.lineno
    lines = end - function.lineno + 1
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def exceptions() -> dict[str, int]:
    table: dict[str, int] = json.loads(TABLE.read_text())
    return table


def complaints(modules: Iterable[Module], table: Mapping[str, int]) -> Iterator[str]:
    """What has grown, what is too long and not listed, what is listed and needs it no longer."""
    found = {name: (lines, limit) for name, lines, limit in sizes(modules)}
    for name, (lines, limit) in found.items():
        allowed = table.get(name, limit)
        if lines > allowed:
            yield f"{name} has {lines} lines, at most {allowed} are allowed: split it (tests/tidy/ratchet.py)"
    for name, allowed in table.items():
        lines, limit = found.get(name, (0, 0))
        if lines <= limit:
            yield f"{name} is listed with {allowed} lines but has {lines}: run python -m tests.tidy.ratchet"


def lower(modules: Iterable[Module], table: Mapping[str, int]) -> dict[str, int]:
    found = {name: (lines, limit) for name, lines, limit in sizes(modules)}
    kept = {
        name: min(allowed, found[name][0])
        for name, allowed in table.items()
        if name in found and found[name][0] > found[name][1]
    }
    return dict(sorted(kept.items()))


if __name__ == "__main__":
    TABLE.write_text(json.dumps(lower(product_modules(), exceptions()), indent=1) + "\n")
