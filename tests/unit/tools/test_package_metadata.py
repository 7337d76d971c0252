"""Metadata of the published package: its URLs, and links of README that work outside the tree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from kraft._tools.package_metadata import LINK, SOURCE, project_urls, with_absolute_links
from tests.release.artifacts import repository_address

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REPOSITORY = "https://code.example/kraft"
README_LINES_MAX = 150


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](docs/a.md#x)", f"[a]({REPOSITORY}/blob/v1.2.3/docs/a.md#x)"),
        ("![a](docs/a.svg)", f"![a]({REPOSITORY}/raw/v1.2.3/docs/a.svg)"),
        ("[the `[a]` b](c.md)", f"[the `[a]` b]({REPOSITORY}/blob/v1.2.3/c.md)"),
        (
            "[![a](docs/a.svg)](docs/a.md)",
            f"[![a]({REPOSITORY}/raw/v1.2.3/docs/a.svg)]({REPOSITORY}/blob/v1.2.3/docs/a.md)",
        ),
        ('<img src="docs/a.png">', f'<img src="{REPOSITORY}/raw/v1.2.3/docs/a.png">'),
        ('<source srcset="docs/a.png">', f'<source srcset="{REPOSITORY}/raw/v1.2.3/docs/a.png">'),
        ("[a](#here) [b](https://b.example/c) <https://d.example/>", None),
        ("```python\nf[a](b)\n```", None),
    ],
)
def test_relative_links_of_the_readme_lead_to_the_tag_of_the_release(text: str, expected: str | None) -> None:
    assert with_absolute_links(text, REPOSITORY, "1.2.3") == (text if expected is None else expected)


def test_no_link_of_the_published_readme_is_relative() -> None:
    text = with_absolute_links((ROOT / "README.md").read_text(encoding="utf-8"), REPOSITORY, "1.2.3")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    targets = [found["target"] for pattern in (LINK, SOURCE) for found in pattern.finditer(prose)]
    assert len(targets) > 10
    assert [each for each in targets if "://" not in each and not each.startswith("#")] == []


def test_every_url_begins_with_the_address_of_the_repository() -> None:
    urls = project_urls(REPOSITORY, "1.2.3")
    assert {"Homepage", "Documentation", "Changelog", "Source", "Issues", "Security"} == set(urls)
    assert all(url == REPOSITORY or url.startswith(f"{REPOSITORY}/") for url in urls.values())


def test_the_address_of_the_repository_stands_in_one_place() -> None:
    address = repository_address()
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    pages += [path for path in (ROOT / ".github").rglob("*") if path.is_file()]
    assert [str(page) for page in pages if address in page.read_text(encoding="utf-8")] == []


def test_each_extra_is_named_by_a_page_or_a_message() -> None:
    extras = set(PROJECT["project"]["optional-dependencies"]) - {"dev"}
    texts = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "kraft").rglob("*.py")]
    named = {
        extra
        for text in texts
        for found in re.findall(r"kraft-node\[([\w,-]+)\]", text.read_text(encoding="utf-8"))
        for extra in found.split(",")
    }
    assert named == extras


def test_the_readme_is_read_in_one_go() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= README_LINES_MAX, "move what is not needed in the first minutes to docs/ (docs/README.md)"
