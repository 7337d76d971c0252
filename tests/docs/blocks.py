"""The code blocks of README.md, CONTRIBUTING.md and docs/, and what each says about how it is run.

The info string of a fenced block has the language first and then its marks, which no reader sees:

    ```bash session=NAME                 runs in this session (sessions.py), after the blocks before it
    ```bash session=NAME background=WORD stays running; the session goes on when it has printed WORD
    ```python session=NAME               runs as a file of its own, by the session's `python3`
    ```python session=NAME continues     runs at the end of the last program of the session, in the same process
    ```python session=NAME pytest        runs as a file of tests
    ```bash tested-by=PATH               is run by that test, which takes it out of the document
    ```bash shown="WHY"                  is not run, and why
    ```text output                       what the block before it prints, in this order; `...` stands for anything.
                                         Of blocks that continue a program, one after the other

Other languages (text, json, properties, mermaid) hold no commands and need no mark.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("bash", "python")
DATA = ("text", "json", "properties", "mermaid")
MARKS = ("session", "background", "continues", "pytest", "tested-by", "shown", "output")


@dataclass(frozen=True)
class Block:
    """One code block. `line` counts from 1; `language` is empty for an indented block, whose `marks` are empty."""

    document: str
    line: int
    language: str
    marks: dict[str, str]
    text: str

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


def documents() -> list[str]:
    """The pages that are read by people, relative to the root, in the order in which sessions take them."""
    pages = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    return ["README.md", "CONTRIBUTING.md", *pages]


def blocks_of(document: str) -> Iterator[Block]:
    yield from parse_blocks(document, (ROOT / document).read_text(encoding="utf-8"))


def parse_blocks(document: str, text: str) -> Iterator[Block]:
    for token in MarkdownIt().parse(text):
        if token.type not in ("fence", "code_block") or token.map is None:
            continue
        language, *words = shlex.split(token.info) if token.type == "fence" and token.info.strip() else [""]
        marks = {name: value for name, _, value in (word.partition("=") for word in words)}
        yield Block(document, token.map[0] + 1, language, marks, token.content)


def find_block(document: str, first: str) -> Block:
    """The block of `document` whose text begins with `first`. Raises LookupError."""
    for block in blocks_of(document):
        if block.text.startswith(first):
            return block
    raise LookupError(f"{document} has no block that begins with {first!r}")


def problems_of(block: Block) -> Iterator[str]:
    """What is wrong with the marks of a block."""
    if block.language not in (*COMMANDS, *DATA):
        yield f"{block.place}: begin the block with three backticks and one of {', '.join((*COMMANDS, *DATA))}"
        return
    for mark in block.marks:
        if mark not in MARKS:
            yield f"{block.place}: the mark {mark} is none of {', '.join(MARKS)}"
    ways = [mark for mark in ("session", "tested-by", "shown") if mark in block.marks]
    if block.language in COMMANDS and len(ways) != 1:
        yield f"{block.place}: say how the block is run: one of session=, tested-by= and shown="
    if block.language in DATA and ways:
        yield f"{block.place}: only {' and '.join(COMMANDS)} are run"
    for way in ways:
        if not block.marks[way]:
            yield f"{block.place}: {way} has no value"
    test = block.marks.get("tested-by")
    if test and not ((ROOT / test).is_file() and block.document in (ROOT / test).read_text(encoding="utf-8")):
        yield f"{block.place}: {test} does not name {block.document}"
