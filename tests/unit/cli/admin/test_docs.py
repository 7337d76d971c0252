"""`kraft docs`: pages are found by their names, and hints name pages that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.cli.admin.app import main
from kraft.cli.admin.help.docs import choose_page, directory, find_pages
from kraft.cli.admin.running import NotFound

ROOT = Path(__file__).parents[4]
COMMAND = re.compile(r"kraft docs ([\w/-]+)")
PATH = re.compile(r"\bdocs/[\w/-]+\.md")
TREE_ONLY = "kraft/_tools"  # These programs are run in a clone.
PAGES = {name: Path(f"{name}.md") for name in ("security", "operations", "operations/full-disk", "a/same", "b/same")}


@pytest.mark.parametrize(
    ("wanted", "page"),
    [
        ("security", "security"),
        ("full-disk", "operations/full-disk"),
        ("operations/full-disk", "operations/full-disk"),
        ("docs/operations/full-disk.md", "operations/full-disk"),
        ("operations/README.md", "operations"),
    ],
)
def test_a_page_is_found_by_name_path_or_last_path_component(wanted: str, page: str) -> None:
    assert choose_page(wanted, PAGES) == page


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("same", "one of a/same, b/same"),
        ("fulldisk", "did you mean full-disk"),
        ("xyz", "`kraft docs` lists the pages"),
    ],
)
def test_an_unknown_page_name_is_rejected_with_a_hint(wanted: str, hint: str) -> None:
    with pytest.raises(NotFound) as refused:
        choose_page(wanted, PAGES)
    assert hint in refused.value.hint


def test_an_unknown_page_exits_with_the_not_found_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "no-such-page-at-all"]) == 3
    assert "there is no page no-such-page-at-all" in capsys.readouterr().err


def test_a_page_is_printed_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "lost-quorum"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/operations/lost-quorum.md").read_text()


def hints() -> Iterator[tuple[str, str]]:
    """Every text that a user may see, with its place: strings, without docstrings but for those of commands."""
    for path in sorted([*(ROOT / "kraft").rglob("*.py"), *(ROOT / "api").rglob("*.py")]):
        place = path.relative_to(ROOT).as_posix()
        if place.startswith(TREE_ONLY):
            continue
        tree = ast.parse(path.read_text())
        shown_by_help = place.startswith("kraft/cli/")
        unseen = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                unseen.add(node.value)
            if isinstance(node, ast.FunctionDef) and shown_by_help and node.body:
                yield place, ast.get_docstring(node) or ""
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in unseen:
                yield place, node.value
    for path in sorted(each for each in (ROOT / "config/deployment").rglob("*") if each.is_file()):
        yield path.relative_to(ROOT).as_posix(), path.read_text()


def test_no_hint_names_a_page_by_a_repository_path() -> None:
    assert [(place, found) for place, text in hints() for found in PATH.findall(text)] == []


def test_every_page_named_in_a_hint_exists() -> None:
    pages = find_pages(directory())
    named = {name for _, text in hints() for name in COMMAND.findall(text)}
    assert {"lost-quorum", "full-disk", "configuration"} <= named
    for name in named:
        choose_page(name, pages)
