"""Print a random sample of the project's text, so that a person may judge how it reads.

`python -m tests.tidy.sample_text --seed N --docstrings 200 --notes 50 --subjects 100 --paragraphs 30 --tests 50`: the
same seed and the same commit print the same sample. Without `--seed` a seed is drawn; the first line prints it.
Subjects are those of the last commits; everything else is drawn at random.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.tidy.source import ROOT, is_generated, product_modules, python_files

PROSE = 12  # words: shorter paragraphs are captions
ENTRY = re.compile(r"\s*([-*]|\d+\.) ")


def docstrings() -> Iterator[str]:
    """`path:line: text` of every docstring of a hand-written product module."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for module in product_modules():
        if is_generated(module.path):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, documented) and (text := ast.get_docstring(node)):
                yield f"{module.path}:{node.body[0].lineno}: {text}"


def notes() -> Iterator[str]:
    """`path:line: text` of every string behind the assignment of a constant or field of a hand-written module."""
    for module in product_modules():
        if is_generated(module.path):
            continue
        for node in ast.walk(module.tree):
            body = getattr(node, "body", None)
            for assigned, note in pairwise(body if isinstance(body, list) else ()):
                match assigned, note:
                    case ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text))):
                        yield f"{module.path}:{note.lineno}: {inspect.cleandoc(text)}"


def subjects(count: int) -> Iterator[str]:
    """`hash: subject` of the newest `count` commits; fewer if the history is shorter."""
    command = ["git", "log", f"--max-count={count}", "--format=%h: %s"]
    yield from subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def page_paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each paragraph or list entry of a page, without code blocks, tables and headings."""
    start, lines, fenced = 0, list[str](), False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("```"):
            fenced = not fenced
        ends = fenced or not line.strip() or line.startswith(("```", "|", "#"))
        if lines and (ends or ENTRY.match(line)):
            yield start, " ".join(lines)
            lines = []
        if not ends:
            start = start if lines else number
            lines.append(line.strip())


def paragraphs() -> Iterator[str]:
    """`path:line: text` of every paragraph of docs/ with at least `PROSE` words."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for line, text in page_paragraphs(page.read_text()):
            if len(text.split()) >= PROSE:
                yield f"{page.relative_to(ROOT)}:{line}: {text}"


def names_of_tests() -> Iterator[str]:
    """`path:line: name` of every test function."""
    for file in python_files("tests"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield f"{file.relative_to(ROOT)}:{node.lineno}: {node.name}"


def show(title: str, found: Sequence[str], count: int, chance: random.Random) -> None:
    drawn = sorted(chance.sample(found, min(count, len(found))))
    print(f"\n## {title}: {len(drawn)} of {len(found)}\n")
    for entry in drawn:
        print(entry)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.tidy.sample_text", description="A sample of the text.")
    parser.add_argument("--seed", type=int, help="repeat the sample of this seed")
    parser.add_argument("--docstrings", type=int, default=200)
    parser.add_argument("--notes", type=int, default=50)
    parser.add_argument("--subjects", type=int, default=100)
    parser.add_argument("--paragraphs", type=int, default=30)
    parser.add_argument("--tests", type=int, default=50)
    asked = parser.parse_args()
    seed = random.randrange(2**32) if asked.seed is None else asked.seed
    print(f"seed {seed}")
    chance = random.Random(seed)
    show("Docstrings", list(docstrings()), asked.docstrings, chance)
    show("Notes of constants and fields", list(notes()), asked.notes, chance)
    show("Commit subjects", list(subjects(asked.subjects)), asked.subjects, chance)
    show("Paragraphs", list(paragraphs()), asked.paragraphs, chance)
    show("Tests", list(names_of_tests()), asked.tests, chance)


if __name__ == "__main__":
    main()
