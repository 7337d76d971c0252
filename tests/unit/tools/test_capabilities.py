"""A test that runs a program which not every machine has asks for it first, and is skipped by name without it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen.checkout import commit
from jepsen.simulate import standard_seeds
from tests.preflight import CAPABILITIES
from tests.soak import ROOT

NEEDS = {
    "jepsen.java.jars.jars": "mvn",
    "jepsen.java.kafka.ApacheKafka": "mvn",
    "jepsen.java.kafka.java": "mvn",
    "jepsen.java.kafka.tool": "mvn",
    "jepsen.mutants.bank.copy_with": "patch",
    "jepsen.mutants.bank": "patch",
    "tests.integration.test_kafka_tools.dump": "mvn",
    "tests.mutants.hunt.Hunter": "git",
    "tests.upgrade.earlier.check_out_earlier": "git",
}
"""What runs a program, and the capability that a test file which imports it asks for."""


def imported(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def unasked(text: str) -> list[str]:
    """Capabilities that a test file needs and never names."""
    needed = {NEEDS[name] for name in imported(text) if name in NEEDS}
    return sorted(name for name in needed if f'"{name}"' not in text)


def test_every_test_file_requires_the_capabilities_it_uses() -> None:
    missing = {
        str(file.relative_to(ROOT)): names
        for file in (ROOT / "tests").rglob("test_*.py")
        if (names := unasked(file.read_text(encoding="utf-8")))
    }
    assert not missing
    assert set(NEEDS.values()) <= set(CAPABILITIES)


def test_a_test_file_that_does_not_require_its_capability_is_caught() -> None:
    text = "from jepsen.java.kafka import tool\n"
    assert unasked(text) == ["mvn"]
    assert unasked(text + 'require_capability("mvn")\n') == []


def test_the_checked_out_commit_is_unknown_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() == commit(short=True) == ""
    assert len(set(standard_seeds(40))) == 40
