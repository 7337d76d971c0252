"""A run begins with the files that take longest."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from tests.durations import CACHE_KEY, KEPT, SPARK, UNKNOWN_SECONDS, Durations, longest_first, seconds_of_files, unit_of


class Cache(dict[str, Any]):
    def set(self, key: str, value: Any) -> None:
        self[key] = value


def config(cache: Cache | None, keyword: str = "", *arguments: str) -> Any:
    return SimpleNamespace(cache=cache, args=arguments, getoption=lambda name: keyword if name == "keyword" else None)


def items(*nodeids: str) -> list[Any]:
    return [SimpleNamespace(nodeid=nodeid) for nodeid in nodeids]


def test_the_longest_file_is_first_and_its_tests_keep_their_order() -> None:
    given = items("short.py::b", "long.py::b", "long.py::a", "unknown.py::a", "short.py::a")
    ordered = longest_first(given, {"long.py": UNKNOWN_SECONDS + 1, "short.py": UNKNOWN_SECONDS - 1})
    assert [item.nodeid for item in ordered] == [
        "long.py::b",
        "long.py::a",
        "unknown.py::a",
        "short.py::b",
        "short.py::a",
    ]


def test_files_that_share_a_jvm_are_one_unit_with_the_sum_of_their_lengths() -> None:
    given = items("long.py::a", f"{SPARK}.py::a", f"{SPARK}_jobs.py::b", f"{SPARK}_jobs.py::a", f"{SPARK}.py::b")
    ordered = longest_first(given, {"long.py": 10.0, f"{SPARK}.py": 4.0, f"{SPARK}_jobs.py": 8.0})
    assert [item.nodeid.removeprefix(SPARK) for item in ordered] == [
        "_jobs.py::b",
        "_jobs.py::a",
        ".py::a",
        ".py::b",
        "long.py::a",
    ]
    assert {unit_of(item.nodeid) for item in given} == {SPARK, "long.py"}


def test_measured_durations_override_those_kept_in_the_tree() -> None:
    cache = Cache()
    durations = Durations(config(cache))
    file = next(iter(json.loads(KEPT.read_text())))
    for seconds in (0.25, 1.0):
        durations.pytest_runtest_logreport(SimpleNamespace(nodeid=f"{file}::test", duration=seconds))  # type: ignore[arg-type]
    durations.pytest_sessionfinish()
    assert cache[CACHE_KEY] == {file: 1.2}
    assert seconds_of_files(config(cache))[file] == 1.2
    assert seconds_of_files(config(None))[file] > 1.2


def test_a_run_of_some_tests_of_a_file_records_no_duration_of_the_file() -> None:
    for keyword, argument in (("word", "tests"), ("", "tests/test_a.py::test_one")):
        cache = Cache()
        durations = Durations(config(cache, keyword, argument))
        durations.pytest_runtest_logreport(SimpleNamespace(nodeid="tests/test_a.py::test_one", duration=1.0))  # type: ignore[arg-type]
        durations.pytest_sessionfinish()
        assert not cache


def test_every_file_with_a_kept_duration_exists() -> None:
    root = KEPT.parents[1]
    assert [file for file in json.loads(KEPT.read_text()) if not (root / file).exists()] == []
