"""A docstring begins with a verb in the imperative ("Append ...") or with a noun phrase ("The offset of ..."): somebody
who jumps to the definition reads it without the name above it.

What the rule can tell is a fragment: a first word that only continues a sentence that is not there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.names import nodes
from tests.tidy.source import Module, Violation, is_generated

FRAGMENTS = frozenset(
    ("as", "ditto", "in", "likewise", "of", "than", "to", "which", "who", "whoever", "whom", "whomever", "whose")
)


def docstring_fragments(module: Module) -> Iterator[Violation]:
    if is_generated(module.path):
        return
    for node in nodes(module.tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = next(iter((ast.get_docstring(node, clean=False) or "").split()), "").strip(".,:;")
        if first.lower() in FRAGMENTS:
            line = 1 if isinstance(node, ast.Module) else node.lineno
            advice = "begin with a verb (Append ...) or a noun phrase (The offset of ...)"
            yield Violation(module.path, line, "docstring fragment", first, advice)
