"""The console's page of a tiered topic, in a real browser: what lies where, and why nothing is copied while the store
is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.capabilities import require_capability
from tests.integration.axe import serious_faults
from tests.integration.browser import Browser, browser
from tests.integration.plain_clients import write_confluent
from tests.integration.rest_node import running_node
from tests.integration.tiered_cluster import (
    LOCAL,
    RECORDS,
    SEGMENT,
    create,
    log_bytes,
    options,
    records_of,
    size_of,
    until,
)

WRITTEN: Final = RECORDS // 4
TIERS: Final = "[...document.querySelectorAll('section')].find(s => s.firstChild.innerText === 'Tiered storage')"
CELLS: Final = f"Object.fromEntries([...{TIERS}.querySelectorAll('td')].map(d => [d.dataset.label, d.innerText]))"
OUTSIDE: Final = (
    f"[...{TIERS}.querySelectorAll('td, td *')].filter(e => e.getBoundingClientRect().right > innerWidth).length"
)


def mebibytes(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"


def opened(tab: Browser, page: str, *, width: int, dark: bool) -> None:
    tab.look(width=width, height=900, dark=dark)
    tab.open(page)
    tab.until("document.querySelector('#page[data-ready=topic]')")
    tab.until(TIERS)


def test_a_topic_page_shows_the_size_of_each_tier_and_why_no_segment_is_copied(tmp_path: Path) -> None:
    require_capability("chromium")
    store = tmp_path / "store"
    with running_node(tmp_path, *options(f"file://{store}")) as node, browser(tmp_path / "profile") as tab:
        page = f"{node.admin}/ui/topic?name=t"
        create(node.kafka, "t")
        directory = tmp_path / "data" / "t-0"
        write_confluent(node.kafka, "t", records_of(WRITTEN), "none")
        until(lambda: 0 < log_bytes(directory) <= LOCAL + SEGMENT)
        opened(tab, page, width=1280, dark=False)
        tab.until(f"{CELLS}['to be copied'] === '0 B'")
        stored = mebibytes(sum(size_of(path) for path in store.rglob("*.log")))
        on_disk = mebibytes(log_bytes(directory))
        tab.until(f"{CELLS}['in the store'] === '{stored}' && {CELLS}['on the disk'] === '{on_disk}'")
        assert tab.run(f"{CELLS}['last round']") == "done"
        tiles = tab.run("[...document.querySelectorAll('.tile')].map(tile => tile.innerText.replace(/\\s+/g, ' '))")
        assert f"{stored} in the store" in tiles

        (folder,) = store.iterdir()
        folder.rename(tmp_path / "away")
        folder.write_text("This is no folder.")
        write_confluent(node.kafka, "t", records_of(WRITTEN), "none")
        tab.until(f"{CELLS}['last round'] !== 'done'")
        told = tab.run(CELLS)
        assert told["last round"].startswith("put off\n")
        assert "Not a directory" in told["last round"]
        assert told["in the store"] == stored
        tab.until(f"{CELLS}['to be copied'].endsWith(' MiB')")
        for width, dark in ((1280, False), (390, True)):
            opened(tab, page, width=width, dark=dark)
            assert tab.run(OUTSIDE) == 0, "the reason is read without scrolling sideways"
            assert serious_faults(tab) == []
        assert tab.complaints == []
