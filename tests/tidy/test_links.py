"""Links between the project's pages lead somewhere: to a file that there is, and to a heading of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

HOST = ROOT / ".github"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(HOST.rglob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#{1,6} +(.*?)\s*$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "]", heading)).lower().replace(" ", "-")
        for heading in HEADING.findall(FENCE.sub("", text))
    }


def broken(page: Path, text: str) -> Iterator[str]:
    for link in LINK.findall(CODE.sub("", FENCE.sub("", text))):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path
        if path and not target.exists():
            yield f"{link}: there is no such file"
        elif anchor and anchor not in anchors(target.read_text() if path else text):
            yield f"{link}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page: Path) -> None:
    assert list(broken(page, page.read_text())) == []


@pytest.mark.parametrize(
    "text", ["[a](nowhere.md)", "[a](safety.md#no-such-heading)", "# Here\n[a](#there)", "[a](../docs/x/)"]
)
def test_a_link_without_a_target_is_found(text: str) -> None:
    assert list(broken(ROOT / "docs" / "planted.md", text))


def test_links_with_a_target_pass() -> None:
    text = "# The `a.b`: it's one\n[a](#the-ab-its-one) [b](safety.md#the-promise) [c](https://x.y/#z) `[d](no.md)`"
    assert list(broken(ROOT / "docs" / "planted.md", text)) == []
