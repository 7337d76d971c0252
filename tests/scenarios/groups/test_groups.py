"""Every scenario in this folder holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.groups.scenario import Scenario

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    Scenario(path.read_text()).run()


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 15
