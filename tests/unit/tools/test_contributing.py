"""CONTRIBUTING.md names files that exist, and make targets that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_every_named_file_exists() -> None:
    named = set(re.findall(r"`((?:kraft|api|tests|jepsen|docs)/[^`<>* ]+)`", TEXT))
    named |= {target for target in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in target}
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_named_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", TEXT))
    assert len(named) > 5
    assert named - targets == set()
