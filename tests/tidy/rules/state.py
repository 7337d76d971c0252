"""Ten nodes live in one process: modules hold constants, never state, and nothing runs when the collector pleases."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.names import nodes, uses
from tests.tidy.source import Module, Violation

MUTABLE_MAKERS = {
    "list",
    "dict",
    "set",
    "bytearray",
    "defaultdict",
    "OrderedDict",
    "deque",
    "Counter",
    "count",
    "cycle",
    "iter",
    "ChainMap",
}
MUTATORS = {
    "append",
    "extend",
    "insert",
    "remove",
    "pop",
    "clear",
    "sort",
    "reverse",
    "add",
    "discard",
    "update",
    "setdefault",
    "popitem",
    "appendleft",
    "popleft",
    "extendleft",
    "rotate",
    "move_to_end",
    "difference_update",
    "intersection_update",
    "symmetric_difference_update",
}


def module_state(module: Module) -> Iterator[Violation]:
    """A mutable value at module level is named in UPPER_CASE and never changed; `global` does not occur."""
    held = dict(_mutable_globals(module.tree))
    for name, line in held.items():
        if not (name.isupper() or name.startswith("__")):
            yield Violation(
                module.path,
                line,
                "module state",
                name,
                "a constant is UPPER_CASE and never changed; state belongs to an object that a node owns",
            )
    for node in nodes(module.tree):
        if isinstance(node, ast.Global):
            yield Violation(
                module.path,
                node.lineno,
                "module state",
                ", ".join(node.names),
                "state belongs to an object that a node owns",
            )
        elif (name := _changed(node)) in held:
            yield Violation(
                module.path,
                node.lineno,
                "module state",
                str(name),
                "a module's value is changed: state belongs to an object that a node owns",
            )


def _mutable_globals(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if value is not None and _is_mutable(value):
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.lineno


def _is_mutable(value: ast.expr) -> bool:
    if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp | ast.GeneratorExp):
        return True
    if isinstance(value, ast.Call):
        name = (
            value.func.attr
            if isinstance(value.func, ast.Attribute)
            else value.func.id
            if isinstance(value.func, ast.Name)
            else ""
        )
        return name in MUTABLE_MAKERS
    return False


def _changed(node: ast.AST) -> str | None:
    """The plain name whose value `node` changes in place."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in MUTATORS
        and isinstance(node.func.value, ast.Name)
    ):
        return node.func.value.id
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.Delete):
        targets = node.targets
    elif isinstance(node, ast.AugAssign):
        targets = [node.target]
    for target in targets:
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            return target.value.id
        if isinstance(node, ast.AugAssign) and isinstance(target, ast.Name):
            return target.id
    return None


def async_generators(module: Module) -> Iterator[Violation]:
    """A bare async generator is finished by the collector, at a moment that no replay repeats; a context manager or
    a channel is finished by its user."""
    for node in nodes(module.tree):
        if isinstance(node, ast.AsyncFunctionDef) and _yields(node):
            decorators = [ast.unparse(each).partition("(")[0] for each in node.decorator_list]
            if not any(each.endswith(("asynccontextmanager", "as_safe_channel")) for each in decorators):
                yield Violation(
                    module.path,
                    node.lineno,
                    "async generator",
                    node.name,
                    "use @asynccontextmanager or a memory channel",
                )
        elif isinstance(node, ast.GeneratorExp) and any(each.is_async for each in node.generators):
            yield Violation(module.path, node.lineno, "async generator", ast.unparse(node), "collect into a list")


def _yields(function: ast.AsyncFunctionDef) -> bool:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def finalizers(module: Module) -> Iterator[Violation]:
    for node in nodes(module.tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__del__":
            yield Violation(
                module.path, node.lineno, "finalizer", "__del__", "close explicitly: the collector runs when it pleases"
            )


def real_world(module: Module) -> Iterator[Violation]:
    """Composition roots choose the world; everything else is handed one."""
    for use in uses(module):
        if use.dotted.startswith("kraft.world.real"):
            yield Violation(
                module.path, use.node.lineno, "real world", use.dotted, "take a kraft.world.ports.World as an argument"
            )


def kept_nurseries(module: Module) -> Iterator[Violation]:
    """A nursery that others start tasks in is let go of within it, by a `finally`: once the last task of a cancelled
    one has ended it takes no more, and what follows it runs a turn of the loop later."""
    for block in nodes(module.tree):
        if not isinstance(block, ast.AsyncWith):
            continue
        opened = {
            item.optional_vars.id
            for item in block.items
            if isinstance(item.optional_vars, ast.Name) and "open_nursery" in ast.unparse(item.context_expr)
        }
        inside = [each for statement in block.body for each in ast.walk(statement)]
        let_go = {
            ast.unparse(target)
            for each in inside
            if isinstance(each, ast.Try)
            for statement in each.finalbody
            if isinstance(statement, ast.Assign)
            for target in statement.targets
        }
        for each in inside:
            if isinstance(each, ast.Assign) and isinstance(each.value, ast.Name) and each.value.id in opened:
                name = ast.unparse(each.targets[0])
                if name.startswith("self._") and name not in let_go:
                    yield Violation(
                        module.path, each.lineno, "kept nursery", name, "set it to None in a finally within the nursery"
                    )
