"""The documentation as a web site: every page is in it, no link is broken, and nothing comes from another host."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))
LOADED = re.compile(r'<(?:script|img|link rel="(?:stylesheet|preload)")[^>]*(?:src|href)="(https?:[^"]+)"')


def build(tree: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site strictly: a warning fails."""
    command = [sys.executable, "-m", "mkdocs", "build", "-f", "config/site/mkdocs.yml", "-d", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    built = build(ROOT, target)
    assert built.returncode == 0, built.stderr
    return target


def test_every_page_is_in_the_site_its_search_and_llms_txt(site: Path) -> None:
    searched = json.loads((site / "search/search_index.json").read_text())["docs"]
    found = {entry["location"].partition("#")[0] for entry in searched}
    listed = (site / "llms.txt").read_text()
    for page in PAGES:
        if page == Path("README.md"):
            continue  # Its lists are the navigation.
        html = page.with_name("index.html") if page.name == "README.md" else page.with_suffix(".html")
        assert (site / html).is_file(), page
        assert str(html) in found, page
        assert f"]({page})" in listed, page
        assert (site / page).is_file(), page
    assert "The first five minutes" in (site / "index.html").read_text()


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert LOADED.findall(page.read_text()) == [], page


def test_code_blocks_show_their_language_alone(site: Path) -> None:
    for page in site.rglob("*.md"):
        assert not re.search(r"^```\w+ +\w+=", page.read_text(), re.MULTILINE), page


@pytest.mark.parametrize("link", ["nowhere.md", "cli.md#no-such-heading"])
def test_a_broken_link_fails_the_build(tmp_path: Path, link: str) -> None:
    for folder in ("docs", "config"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for file in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path)
    (tmp_path / "kraft").symlink_to(ROOT / "kraft")
    page = tmp_path / "docs/quotas.md"
    page.write_text(f"{page.read_text()}\n[broken]({link})\n")
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode != 0
    assert link.partition("#")[0] in built.stderr
