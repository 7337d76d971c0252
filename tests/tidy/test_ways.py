"""What docs/architecture.md says of places is true: in the ways of requests each function is there and names the next
one, and what "Where is ...?" names is there, too."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

DOCUMENT = ROOT / "docs/architecture.md"
STEP = re.compile(r"^\d+\. `(?P<file>[\w/]+\.py):(?P<name>[\w.]+)`(?: \(as `(?P<alias>\w+)`\))?", re.MULTILINE)

PLACE = re.compile(r"`(?P<file>[\w/]+\.(?:py|js))(?::(?P<name>[\w.]+))?`")


def ways(text: str) -> dict[str, list[re.Match[str]]]:
    """The numbered lists of steps, by the heading above each."""
    sections = re.split(r"^### The way of ", text, flags=re.MULTILINE)[1:]
    return {section.partition("\n")[0]: list(STEP.finditer(section.split("\n## ")[0])) for section in sections}


def places(text: str) -> list[re.Match[str]]:
    """What the table "Where is ...?" names, row by row."""
    table = text.partition("\n## Where is ...?\n")[2].partition("\n## ")[0]
    return list(PLACE.finditer(table))


def file_of(path: str) -> Path:
    """`api/` stands beside `kraft/`, in which all other paths are."""
    return ROOT / path if path.startswith("api/") else ROOT / "kraft" / path


def source_of(path: str, name: str) -> str:
    """The source of a function. Raises LookupError."""
    text = file_of(path).read_text(encoding="utf-8")
    body: list[ast.stmt] = ast.parse(text).body
    node: ast.AST | None = None
    for part in name.split("."):
        node = next((each for each in body if getattr(each, "name", None) == part), None)
        if node is None:
            raise LookupError(f"kraft/{path} has no {name}")
        body = getattr(node, "body", [])
    assert node is not None
    return ast.get_source_segment(text, node) or ""


def problems(steps: list[re.Match[str]]) -> list[str]:
    found = []
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        source = source_of(step["file"], step["name"])
        if following is not None:
            called = following["alias"] or following["name"].rpartition(".")[2]
            if not re.search(rf"\b{called}\b", source):
                found.append(f"{step['file']}:{step['name']} does not call {called}")
    return found


WAYS = ways(DOCUMENT.read_text(encoding="utf-8"))


def test_the_page_describes_three_paths_through_the_code() -> None:
    assert set(WAYS) == {"a produce", "a fetch", "a partition change"}
    assert all(len(steps) >= 5 for steps in WAYS.values())


@pytest.mark.parametrize("way", WAYS)
def test_each_function_exists_and_calls_the_next(way: str) -> None:
    assert not problems(WAYS[way])


def test_the_documented_places_of_things_are_right() -> None:
    found = places(DOCUMENT.read_text(encoding="utf-8"))
    assert len(found) >= 20
    for place in found:
        assert file_of(place["file"]).is_file(), place["file"]
        if place["name"]:
            source_of(place["file"], place["name"])


def test_a_call_that_is_not_made_and_a_removed_function_are_caught() -> None:
    text = "### The way of nothing\n1. `handlers/produce.py:produce`\n2. `handlers/fetch/fetch.py:fetch`\n"
    assert problems(ways(text)["nothing"]) == ["handlers/produce.py:produce does not call fetch"]
    with pytest.raises(LookupError):
        source_of("handlers/produce.py", "PendingProduce.gone")
