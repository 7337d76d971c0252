"""`--part I/N`: only every Nth of the tests that were collected, beginning with the Ith. All parts together are all tests, each once (kraft/_tools/soak.py)."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", metavar="I/N", type=part_of, default=(1, 1), help="run only the Ith of N parts of the tests")


def part_of(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not 1 <= int(part) <= int(parts):
        raise ValueError(f"{text} is no part: I/N with 1 <= I <= N")
    return int(part), int(parts)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part, parts = config.getoption("--part")
    chosen, others = items[part - 1 :: parts], [item for index, item in enumerate(items) if index % parts != part - 1]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = chosen
