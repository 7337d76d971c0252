"""The pictures in docs/images: they are of the present console, and making them works."""

from __future__ import annotations

from pathlib import Path

from tests.capabilities import require_capability
from tests.integration import console_pictures
from tests.integration.rest_cluster import ROOT


def test_the_pictures_were_made_of_the_present_console() -> None:
    assert console_pictures.SOURCES.read_text() == console_pictures.digest(), "`make pictures`, and look at them"


def test_every_page_is_photographed(tmp_path: Path) -> None:
    require_capability("chromium")
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    with console_pictures.cluster(tmp_path, seconds=12) as cluster:
        console_pictures.photograph(pictures, cluster)
    made = {path.name: path.read_bytes()[8:12] for path in pictures.iterdir()}
    kept = {path.name for path in (ROOT / "docs/images").glob("*.webp")}
    assert made == dict.fromkeys(kept, b"WEBP")
