"""What a module's names mean: imports resolved to dotted paths, so that a rule sees `trio.sleep` however it was
imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache

from tests.tidy.source import Module


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: `dotted` is where it comes from (`trio.sleep`), `bound` the name it has in the module."""

    dotted: str
    bound: str
    line: int
    leads: str
    """The dotted path that `bound` stands for in code: after `import a.b` the name `a` stands for `a`."""


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All of a tree, in the order of ast.walk, which takes most of the time of all rules together."""
    return tuple(ast.walk(tree))


@cache
def imports(tree: ast.Module) -> tuple[Import, ...]:
    """Every run-time import, at any depth. What is imported for annotations only (`if TYPE_CHECKING:`) touches
    nothing."""
    hidden = {
        id(inner)
        for node in nodes(tree)
        if _is_type_checking(node)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found: list[Import] = []
    for node in nodes(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            for name in node.names:
                root = name.name.partition(".")[0]
                found.append(Import(name.name, name.asname or root, node.lineno, name.name if name.asname else root))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for name in node.names:
                dotted = f"{node.module}.{name.name}"
                found.append(Import(dotted, name.asname or name.name, node.lineno, dotted))
    return tuple(found)


def _is_type_checking(node: ast.AST) -> bool:
    if not isinstance(node, ast.If):
        return False
    return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


@dataclass(frozen=True, slots=True)
class Use:
    """A dotted path that the module's code reaches, with the node that reaches it."""

    dotted: str
    node: ast.expr


def uses(module: Module) -> tuple[Use, ...]:
    """Attribute chains and names that lead to something imported, in full (`trio.lowlevel.wait_readable`), longest
    chain only."""
    return _uses(module.tree)


@cache
def _uses(tree: ast.Module) -> tuple[Use, ...]:
    bound = {found.bound: found.leads for found in imports(tree)}
    inner = {id(node.value) for node in nodes(tree) if isinstance(node, ast.Attribute)}
    used: list[Use] = []
    for node in nodes(tree):
        if id(node) in inner or not isinstance(node, ast.Attribute | ast.Name):
            continue
        chain = _chain(node)
        if chain and chain[0] in bound:
            used.append(Use(".".join([bound[chain[0]], *chain[1:]]), node))
    return tuple(used)


def _chain(node: ast.expr) -> list[str]:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


def is_at_or_under(dotted: str, prefix: str) -> bool:
    return dotted == prefix or dotted.startswith(f"{prefix}.")


def parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    return {child: node for node in nodes(tree) for child in ast.iter_child_nodes(node)}
