"""Nothing decides an order but values: sets and hash maps iterate differently under each hash seed, id() and hash()
differ in each process.

A set or an `immutables.Map` may be built, asked and counted; whoever walks one says in which order (`sorted`), or
shows that the order cannot be seen (`any`, `sum`, another set). What the rule can tell is a set: displays,
comprehensions, `set()` and `frozenset()`, operators over them and over `.keys()`, names and attributes that are
annotated so. Where the order truly does not matter, the line ends with `# unordered: <why>`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

from tests.tidy.names import nodes, parents
from tests.tidy.source import Module, Violation

SET_TYPES = re.compile(
    r"^(?:typing\.|collections\.abc\.|t\.)?"
    r"(?:set|frozenset|Set|FrozenSet|AbstractSet|MutableSet)(?:\[.*\])?(?: \| None)?$",
    re.DOTALL,
)
MAP_TYPES = re.compile(r"^(?:immutables\.)?Map(?:\[.*\])?(?: \| None)?$", re.DOTALL)
SET_MAKERS = {"set", "frozenset"}
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference", "copy"}
WALKERS = {
    "list",
    "tuple",
    "iter",
    "enumerate",
    "map",
    "filter",
    "zip",
    "dict",
    "reversed",
    "bytes",
    "bytearray",
    "deque",
}
ORDER_BLIND = {"sorted", "min", "max", "sum", "any", "all", "len", "set", "frozenset"}
ESCAPE = re.compile(r"# unordered: \S+")


@dataclass
class Kinds:
    """What is known to be a set or a map: names of one scope, attributes of the module, attributes that the whole
    project declares as nothing else."""

    names: dict[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)

    def of(self, node: ast.expr) -> str | None:
        """ "set", "map" or None (some other thing, or not known)."""
        if isinstance(node, ast.Set | ast.SetComp):
            return "set"
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            return self.attributes.get(node.attr)
        if isinstance(node, ast.Call):
            return self._of_call(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
            return "set" if any(self.of(side) == "set" or _is_keys(side) for side in (node.left, node.right)) else None
        if isinstance(node, ast.IfExp):
            return self.of(node.body) or self.of(node.orelse)
        if isinstance(node, ast.BoolOp):
            return next((kind for value in node.values if (kind := self.of(value))), None)
        return None

    def _of_call(self, node: ast.Call) -> str | None:
        if isinstance(node.func, ast.Name):
            return "set" if node.func.id in SET_MAKERS else "map" if node.func.id == "Map" else None
        if isinstance(node.func, ast.Attribute):
            owner = self.of(node.func.value)
            if owner == "set" and node.func.attr in SET_METHODS:
                return "set"
            if owner == "map" and node.func.attr in ("keys", "values", "items", "set", "delete", "update"):
                return "map"
            if ast.unparse(node.func) == "immutables.Map":
                return "map"
        return None


def _is_keys(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "keys"
        and not node.args
    )


def kind_of_annotation(annotation: ast.expr | None) -> str | None:
    if annotation is None:
        return None
    text = (
        annotation.value
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)
        else ast.unparse(annotation)
    )
    return "set" if SET_TYPES.match(text) else "map" if MAP_TYPES.match(text) else None


def attribute_kinds(modules: Iterable[Module]) -> dict[str, str]:
    """Attributes that every annotation of that name in `modules` calls a set (or every one a map)."""
    found: dict[str, set[str]] = {}
    for module in modules:
        for node in nodes(module.tree):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
                found.setdefault(node.target.attr, set()).add(kind_of_annotation(node.annotation) or "other")
            elif isinstance(node, ast.ClassDef):
                for each in node.body:
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                        found.setdefault(each.target.id, set()).add(kind_of_annotation(each.annotation) or "other")
            elif isinstance(node, ast.FunctionDef) and any(
                ast.unparse(each).endswith("property") for each in node.decorator_list
            ):
                found.setdefault(node.name, set()).add(kind_of_annotation(node.returns) or "other")
    return {name: kinds.pop() for name, kinds in sorted(found.items()) if len(kinds) == 1 and kinds != {"other"}}


Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


def scope_names(scope: Scope, attributes: Mapping[str, str], outer: Mapping[str, str]) -> dict[str, str]:
    """Names of the scope that are sets or maps by annotation, or because every assignment makes them one."""
    names = dict(outer)
    assigned: dict[str, set[str]] = {}
    if not isinstance(scope, ast.Module):
        every = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
        for argument in every:
            names.pop(argument.arg, None)
            if kind := kind_of_annotation(argument.annotation):
                names[argument.arg] = kind
    kinds = Kinds(names, attributes)
    for node in _own_nodes(scope):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            assigned.setdefault(node.target.id, set()).add(kind_of_annotation(node.annotation) or "other")
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, set()).add(kinds.of(node.value) or "other")
        elif isinstance(node, ast.NamedExpr):
            assigned.setdefault(node.target.id, set()).add(kinds.of(node.value) or "other")
        elif isinstance(node, ast.For | ast.comprehension):
            for target in ast.walk(node.target):
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, set()).add("other")
    for name, found in assigned.items():
        names.pop(name, None)
        if len(found) == 1 and found != {"other"}:
            names[name] = found.pop()
    return names


def _own_nodes(scope: Scope) -> Iterator[ast.AST]:
    """Nodes of the scope in source order, without those of functions inside it."""
    waiting: list[ast.AST] = list(reversed(scope.body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def unordered_iteration(module: Module, project: Mapping[str, str] | None = None) -> Iterator[Violation]:
    """`project`: attribute kinds of the whole product; the module's own annotations come first."""
    own = attribute_kinds([module])
    attributes = {**(project or {}), **own}
    above = parents(module.tree)
    lines = module.text.splitlines()
    for scope, kinds in _scopes(module.tree, attributes):
        for node in _own_nodes(scope):
            for walked in _walks(node, above):
                if (kind := kinds.of(walked)) and not ESCAPE.search(lines[walked.lineno - 1]):
                    advice = f"a {kind} has no order: sort it, or end the line with '# unordered: why'"
                    yield Violation(module.path, walked.lineno, "unordered iteration", ast.unparse(walked), advice)
            if _is_pop(node, kinds) and not ESCAPE.search(lines[node.lineno - 1]):
                yield Violation(
                    module.path,
                    node.lineno,
                    "unordered iteration",
                    ast.unparse(node),
                    "which element leaves is chance: choose it",
                )


def _is_pop(node: ast.AST, kinds: Kinds) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "pop" and kinds.of(node.func.value) == "set"


def _scopes(tree: ast.Module, attributes: Mapping[str, str]) -> Iterator[tuple[Scope, Kinds]]:
    waiting: list[tuple[Scope, Mapping[str, str]]] = [(tree, {})]
    while waiting:
        scope, outer = waiting.pop()
        names = scope_names(scope, attributes, outer)
        yield scope, Kinds(names, attributes)
        waiting.extend(
            (node, names) for node in _own_nodes(scope) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )


def _walks(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> Iterator[ast.expr]:
    """The expressions that `node` iterates in a way that lets their order be seen."""
    if isinstance(node, ast.For | ast.AsyncFor):
        yield node.iter
    elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
        caller = above.get(node)
        if isinstance(caller, ast.Call) and isinstance(caller.func, ast.Name) and caller.func.id in ORDER_BLIND:
            return
        yield from (generator.iter for generator in node.generators)
    elif isinstance(node, ast.Starred | ast.YieldFrom):
        caller = above.get(node)
        if not (
            isinstance(caller, ast.Set)
            or (isinstance(caller, ast.Call) and isinstance(caller.func, ast.Name) and caller.func.id in ORDER_BLIND)
        ):
            yield node.value
    elif isinstance(node, ast.Call):
        yield from _walked_arguments(node)
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple | ast.List):
        yield node.value


def _walked_arguments(node: ast.Call) -> Iterator[ast.expr]:
    if isinstance(node.func, ast.Name) and node.func.id in WALKERS:
        yield from node.args
    if isinstance(node.func, ast.Attribute) and node.func.attr in (
        "join",
        "extend",
        "writelines",
        "fromkeys",
        "chain",
        "from_iterable",
        "islice",
    ):
        yield from node.args


def identity_order(module: Module) -> Iterator[Violation]:
    """`id()` and `hash()` differ from process to process; only a `__hash__` method may call `hash`.

    Where the number is only compared for equality, the line ends with `# unordered: <why>`.
    """
    above = parents(module.tree)
    lines = module.text.splitlines()
    for node in nodes(module.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("id", "hash")):
            continue
        owner: ast.AST | None = node
        while owner is not None and not isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
            owner = above.get(owner)
        if not (isinstance(owner, ast.FunctionDef) and owner.name == "__hash__") and not ESCAPE.search(
            lines[node.lineno - 1]
        ):
            yield Violation(module.path, node.lineno, "identity", node.func.id, "differs in every process: use a value")
