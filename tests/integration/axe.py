"""Axe-core, which judges how accessible a page is, run in the page that a browser shows.

It comes from PyPI inside a package of which nothing else is used (see `make setup`), since it is licensed otherwise
(MPL-2.0) than this tree.
"""

from __future__ import annotations

from importlib.resources import files

from tests.integration.browser import Browser

AUDIT = (
    "axe.run(document, {preload: false, resultTypes: ['violations']}).then(found => found.violations"
    ".filter(rule => ['serious', 'critical'].includes(rule.impact))"
    ".flatMap(rule => rule.nodes.map(node => `${rule.id}: ${node.target}: ${node.failureSummary}`)))"
)


def serious_faults(tab: Browser) -> list[str]:
    """What axe-core calls serious or critical in the page as it stands: rule, element, and what is wrong."""
    if not tab.run("Boolean(window.axe)"):
        tab.run((files("axe_playwright_python") / "axe.min.js").read_text() + "; 0")
    found: list[str] = tab.run(AUDIT)
    return found
