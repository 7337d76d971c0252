"""`kraft events` reads everything that a node keeps, which comes in pages, and shows the newest first."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kraft.cli.admin.app import main
from kraft.cli.admin.cluster import events

KEPT = 1_000
FIRST_ID = 5_000
PAGE = 512


def event(number: int) -> dict[str, Any]:
    return {
        "id": FIRST_ID + number,
        "time": f"t{number}",
        "kind": "leader.changed" if number == KEPT - 3 else "isr.shrunk",
        "fields": {"n": number},
    }


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """What the command shows of a node that keeps a thousand events and answers 512 at a time."""

    def answer(admin: str, path: str, read: Callable[[Any], Any]) -> Any:
        _, _, after = path.partition("?after=")
        start = int(after) + 1 - FIRST_ID if after else 0
        found = [event(number) for number in range(max(0, start), min(KEPT, max(0, start) + PAGE))]
        last_id = found[-1]["id"] if found else FIRST_ID + KEPT - 1
        return read({"data": found, "missed": start < 0, "last_id": last_id})

    monkeypatch.setattr(events, "ask_admin", answer)

    def ask(*words: str) -> dict[str, Any]:
        assert main(["events", "--output", "json", *words]) == 0
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    return ask


def test_the_newest_events_are_printed_first(shown: Callable[..., dict[str, Any]]) -> None:
    document = shown("--count", "3")
    assert [each["fields"]["n"] for each in document["events"]] == [KEPT - 1, KEPT - 2, KEPT - 3]
    assert document["last_id"] == FIRST_ID + KEPT - 1


def test_the_kind_filter_searches_all_events(shown: Callable[..., dict[str, Any]]) -> None:
    assert [each["fields"]["n"] for each in shown("--kind", "leader")["events"]] == [KEPT - 3]


def test_only_events_after_an_id_are_shown(shown: Callable[..., dict[str, Any]]) -> None:
    found = shown("--after", str(FIRST_ID + KEPT - 3))
    assert [each["fields"]["n"] for each in found["events"]] == [KEPT - 1, KEPT - 2]
    assert not found["missed"]
    assert shown("--after", "17")["missed"]
