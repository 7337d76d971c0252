"""`kraft --watch`: which part of a command line it is, and when it ends."""

from __future__ import annotations

import pytest

from kraft.cli.admin import watch
from kraft.cli.admin.app import main
from kraft.cli.admin.options import INTERRUPTED
from kraft.cli.admin.watch import split_watch


@pytest.mark.parametrize(
    ("line", "seconds", "rest"),
    [
        ("topics list", None, "topics list"),
        ("--watch 2 topics list", "2", "topics list"),
        ("--watch=2 topics list", "2", "topics list"),
        ("--profile prod --watch 2 topics list", "2", "--profile prod topics list"),
        ("--profile=prod --watch 2 topics list", "2", "--profile=prod topics list"),
        ("produce t --watch 2", None, "produce t --watch 2"),
        ("--watch", "", ""),
    ],
)
def test_the_watch_option_is_recognized_before_the_command_group(line: str, seconds: str | None, rest: str) -> None:
    assert split_watch(line.split()) == (seconds, rest.split())


@pytest.mark.parametrize("seconds", ["", "soon", "0", "0.1", "nan", "inf", "-1"])
def test_an_invalid_watch_interval_is_wrong_usage(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--watch", seconds, "topics", "list"]) == 2
    assert "the seconds between two runs" in capsys.readouterr().err


def test_watch_continues_after_failures_and_ends_on_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter((0, 1, 3, INTERRUPTED, 0))
    slept: list[float] = []
    monkeypatch.setattr(watch.time, "sleep", slept.append)
    assert watch.watch("5", lambda: next(codes)) == INTERRUPTED
    assert slept == [5, 5, 5]


def test_watch_does_not_retry_wrong_usage() -> None:
    assert main(["--watch", "5", "topics", "lst"]) == 2


def test_an_interrupt_between_two_rounds_ends_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watch.time, "sleep", interrupt)
    assert watch.watch("5", lambda: 0) == INTERRUPTED
