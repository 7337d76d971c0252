"""`kraft docs`: the pages of kraft's documentation, which are installed with it."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from kraft.cli.admin.options import Output
from kraft.cli.admin.output import Table, say, show
from kraft.cli.admin.running import NotFound, complain

EPILOG = "Example: kraft docs lost-quorum"

app = typer.Typer(add_completion=False)


@app.command(epilog=EPILOG)
def docs(
    page: Annotated[
        str | None,
        typer.Argument(
            metavar="PAGE", help="Page, such as operations/full-disk or full-disk. (default: list all pages)"
        ),
    ] = None,
    output: Output = None,
) -> None:
    """Print a page of the documentation (Markdown), or list the pages."""
    pages = find_pages(directory())
    if page is None:
        rows = [(name, title_of(path)) for name, path in pages.items()]
        document = {"pages": [{"name": name, "title": title, "path": str(pages[name])} for name, title in rows]}
        show(document, [Table(("PAGE", "TITLE"), rows)], output)
        return
    try:
        name = choose_page(page, pages)
    except NotFound as problem:
        raise typer.Exit(complain(problem)) from problem
    text = pages[name].read_text(encoding="utf-8")
    say({"name": name, "path": str(pages[name]), "text": text}, text.rstrip("\n"), output)


def directory() -> Path:
    """The directory of the pages: in the package if installed from a wheel, else beside it."""
    package = Path(str(files("kraft")))
    inside = package / "docs"
    return inside if inside.is_dir() else package.parent / "docs"


def find_pages(root: Path) -> dict[str, Path]:
    """The pages below `root` by name, sorted. The name is the path without its suffix; a folder's README has the name
    of the folder."""
    found = {path.relative_to(root).with_suffix("").as_posix(): path for path in root.rglob("*.md")}
    named = {name.removesuffix("/README"): path for name, path in found.items()}
    return dict(sorted(named.items()))


def choose_page(wanted: str, pages: Mapping[str, Path]) -> str:
    """The name of the page that `wanted` selects: by name, by path in the tree, or by the last part of either. Raises
    NotFound."""
    name = wanted.removeprefix("docs/").removesuffix(".md").removesuffix("/README")
    if name in pages:
        return name
    ends = [each for each in pages if each.rpartition("/")[2] == name]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise NotFound(f"several pages are called {name}", f"one of {', '.join(ends)}")
    close = get_close_matches(name, [*pages, *(each.rpartition("/")[2] for each in pages)], n=2)
    raise NotFound(
        f"there is no page {wanted}",
        f"did you mean {' or '.join(close)}?" if close else "`kraft docs` lists the pages",
    )


def title_of(path: Path) -> str:
    """The first heading of a page."""
    with path.open(encoding="utf-8") as lines:
        return next((line.lstrip("#").strip() for line in lines if line.startswith("#")), "")
