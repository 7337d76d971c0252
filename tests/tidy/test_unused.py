"""Nothing is defined that nobody uses, as far as vulture can tell by name. What only tests use counts as unused.

`unused.json` lists the exceptions by reason. An entry that is used, or gone, fails the test: the list only shrinks by
itself, and grows by hand with a reason.
"""

from __future__ import annotations

import json
from pathlib import Path

from vulture import Vulture

from tests.tidy.source import GENERATED, ROOT

FOLDERS = ("kraft", "api/kraft_http", "jepsen")
EXCLUDED = [*(f"{ROOT / folder}/*" for folder in GENERATED), str(ROOT / "kraft/_tools/*")]
CALLED_BY_DECORATOR = [
    "@router.*",
    "@app.*",
    "@*.command",
    "@*.callback",
    "@*.exception_handler",
    "@*.get",
    "@*.serve",
    "@*.serve_raw",
    "@*.error",
    "@pytest.*",
]
KINDS = ("function", "method", "class", "property")
EXCEPTIONS = Path(__file__).with_name("unused.json")


def unused(*folders: Path) -> set[str]:
    """`path::name` of everything that is defined in the folders and not used there."""
    found = Vulture(ignore_names=["__*"], ignore_decorators=CALLED_BY_DECORATOR)
    found.scavenge([str(folder) for folder in folders], exclude=EXCLUDED)
    return {
        f"{Path(item.filename).resolve().relative_to(ROOT).as_posix()}::{item.name}"
        for item in found.get_unused_code(min_confidence=60)
        if item.typ in KINDS and Path(item.filename).resolve().is_relative_to(ROOT)
    }


def test_everything_is_used_or_excepted_with_a_reason() -> None:
    reasons: dict[str, list[str]] = json.loads(EXCEPTIONS.read_text())
    excepted = {name for names in reasons.values() for name in names}
    found = unused(*(ROOT / folder for folder in FOLDERS))
    assert sorted(found - excepted) == [], "unused: delete it, or name it in tests/tidy/unused.json with the reason"
    assert sorted(excepted - found) == [], "used or gone: take it out of tests/tidy/unused.json"


def test_an_unused_function_is_caught() -> None:
    planted = Vulture()
    planted.scan("def used() -> None: ...\ndef idle() -> None: ...\nused()\n")
    assert [item.name for item in planted.get_unused_code()] == ["idle"]
