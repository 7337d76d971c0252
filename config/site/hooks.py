"""Hooks of MkDocs: what it cannot do with pages that are written for the repository.

- README is the first page.
- Links that leave docs/ lead to the repository.
- The words after a code block's language, which tests read, are left out.
- Headings have the anchors that the repository's host gives them.
- Each page is also written as Markdown, and llms.txt lists them (https://llmstxt.org/).
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

from kraft._tools.package_metadata import FENCE, LINK, SOURCE

ROOT = Path(__file__).resolve().parents[2]
HOME = "index.md"
MAP = "README.md"
"""The list of pages in docs/: the site has its navigation instead."""
LANGUAGE = re.compile(r"^(\s*```\w+)[^\n`]*$", re.MULTILINE)
SENTENCE = re.compile(r"^(?![#|>`\-*<\[! ]).+?(?:\.(?=\s|$)|(?=\n\n|\Z))", re.MULTILINE | re.DOTALL)

written: dict[str, str] = {}
"""The Markdown of each page of the site, by path."""


def anchor(heading: str, _: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def repository() -> str:
    """The address of the repository at the release's tag."""
    found = project()
    return f"{found['tool']['hatch']['metadata']['hooks']['custom']['repository']}/blob/v{found['project']['version']}"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.mdx_configs.setdefault("toc", {})["slugify"] = anchor
    config.copyright = f"kraft {project()['project']['version']}"
    config.nav = list(expanded(config.nav or [], set(named(config.nav or []))))
    return config


def named(items: list[Any]) -> Iterator[str]:
    for item in items:
        if isinstance(item, str):
            yield item
        else:
            for inner in item.values():
                yield from named(inner)


def expanded(items: list[Any], names: set[str]) -> Iterator[Any]:
    """The navigation with the pages of each `FOLDER/*`."""
    for item in items:
        if isinstance(item, dict):
            yield {title: list(expanded(inner, names)) for title, inner in item.items()}
        elif item.endswith("/*"):
            folder = item.removesuffix("/*")
            pages = sorted(f"{folder}/{each.name}" for each in (ROOT / "docs" / folder).glob("*.md"))
            yield from (page for page in pages if page not in names)
        else:
            yield item


def on_files(files: Files, config: MkDocsConfig) -> Files:
    listed = files.get_file_from_path(MAP)
    assert listed is not None, "docs/README.md"
    files.remove(listed)
    files.append(File.generated(config, HOME, content=(ROOT / "README.md").read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    path = page.file.src_uri
    folder = "" if path == HOME else posixpath.dirname(f"docs/{path}")

    def target(link: str) -> str:
        if "://" in link or link.startswith(("#", "mailto:")):
            return link
        name, hash_, heading = link.partition("#")
        place = posixpath.normpath(posixpath.join(folder, name))
        if place in ("README.md", "docs/README.md"):
            place = f"docs/{HOME}"
        if not place.startswith("docs/"):
            return f"{repository()}/{place}{hash_}{heading}"
        return posixpath.relpath(place, posixpath.dirname(f"docs/{path}")) + hash_ + heading

    def link(found: re.Match[str]) -> str:
        return f"{found['image']}[{LINK.sub(link, found['text'])}]({target(found['target'])})"

    def source(found: re.Match[str]) -> str:
        return f'{found["name"]}="{target(found["target"])}"'

    text = "".join(
        part if FENCE.fullmatch(part) else SOURCE.sub(source, LINK.sub(link, part)) for part in FENCE.split(markdown)
    )
    written[path] = LANGUAGE.sub(r"\1", text)
    return written[path]


def on_nav(nav: Navigation, **_: Any) -> None:
    sections.clear()
    for section in nav.items:
        sections[section.title or ""] = [page.file.src_uri for page in pages_of(section)]


sections: dict[str, list[str]] = {}


def pages_of(item: Any) -> Iterator[Page]:
    if isinstance(item, Page):
        yield item
    for inner in getattr(item, "children", None) or ():
        yield from pages_of(inner)


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for title, paths in sections.items():
        lines += ["", f"## {title}", ""]
        for path in paths:
            (site / path).write_text(written[path])
            heading, _, rest = written[path].partition("\n")
            sentence = SENTENCE.search(FENCE.sub("", rest))
            about = "" if sentence is None else ": " + LINK.sub(r"\g<text>", " ".join(sentence[0].split()))
            lines.append(f"- [{heading.removeprefix('# ')}]({path}){about}")
    (site / "llms.txt").write_text("\n".join(lines) + "\n")
