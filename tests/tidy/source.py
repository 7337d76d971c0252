"""The project's Python files, parsed once, and what a rule may say about them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("kraft", "api/kraft_http", "jepsen/simulation", "jepsen/checker")
GENERATED = ("kraft/protocol/messages/", "kraft/metadata/records/", "kraft/coordinator/records/")


@dataclass(frozen=True, slots=True)
class Module:
    """One file: its path from the root of the checkout, its text, its syntax tree."""

    path: str
    text: str
    tree: ast.Module

    @classmethod
    def of(cls, text: str, path: str = "kraft/storage/planted.py") -> Module:
        return cls(path, text, ast.parse(text))


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """`subject` is what an exception names: a module, an attribute, a variable."""

    path: str
    line: int
    rule: str
    subject: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.subject}: {self.advice}"


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


@cache
def product_modules() -> tuple[Module, ...]:
    """Every hand-written and generated module of the product, in path order."""
    return tuple(Module.of(file.read_text(), file.relative_to(ROOT).as_posix()) for file in python_files(*PRODUCT))


def is_generated(path: str) -> bool:
    return path.startswith(GENERATED) and not path.endswith("/__init__.py")
