"""Log events: levels, inheritance, rendering."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

import pytest

from kraft.common.logging import Loggers, RateLimitedLog, format_time_ms, render_console, render_json


class FixedClock:
    def wall_ms(self) -> int:
        return 1_700_000_000_123


def loggers(level: str = "info") -> tuple[Loggers, list[Mapping[str, Any]]]:
    lines: list[Mapping[str, Any]] = []
    return Loggers(lines.append, FixedClock(), level, node=1), lines


def test_an_event_has_its_name_time_level_and_every_bound_field() -> None:
    source, lines = loggers()
    source.get("raft", epoch=3).bind(offset=7).info("leader_elected", leader=1)
    head = {"time_ms": 1_700_000_000_123, "level": "info", "logger": "raft", "event": "leader_elected"}
    assert lines == [{**head, "node": 1, "epoch": 3, "offset": 7, "leader": 1}]


def test_events_below_the_level_are_not_created() -> None:
    source, lines = loggers("warning")
    logger = source.get("raft")
    logger.debug("a")
    logger.info("b")
    logger.warning("c")
    logger.error("d")
    assert [line["event"] for line in lines] == ["c", "d"]
    assert not logger.enabled(20)


def test_a_level_set_at_run_time_reaches_existing_loggers_and_their_children() -> None:
    source, lines = loggers()
    parent, child, other = source.get("raft"), source.get("raft.driver"), source.get("storage")
    source.set_level("raft", "DEBUG")
    for logger in (parent, child, other):
        logger.debug("seen")
    assert [line["logger"] for line in lines] == ["raft", "raft.driver"]
    assert source.kafka_levels() == {"raft": "DEBUG", "raft.driver": "DEBUG", "root": "INFO", "storage": "INFO"}
    source.set_level("raft", None)
    assert source.kafka_levels()["raft.driver"] == "INFO"
    assert not parent.enabled(10)


def test_a_new_logger_inherits_from_its_nearest_parent() -> None:
    source, _ = loggers()
    source.get("raft")
    source.set_level("raft", "ERROR")
    assert not source.get("raft.core.votes").enabled(30)


def test_an_unknown_logger_has_no_level_to_set() -> None:
    with pytest.raises(KeyError):
        loggers()[0].set_level("nope", "INFO")


def test_json_lines_start_with_time_and_level_and_accept_any_value() -> None:
    line = json.loads(render_json({"event": "x", "id": b"1"}, now_ms=0))
    assert line == {"time": "1970-01-01T00:00:00.000Z", "level": "info", "event": "x", "id": "b'1'"}
    assert list(line)[:2] == ["time", "level"]


def test_console_lines_quote_ambiguous_values() -> None:
    text = render_console(
        {
            "time_ms": 1_700_000_000_123,
            "level": "warning",
            "logger": "raft",
            "event": "slow",
            "why": "a b",
            "n": 3,
            "e": "",
        },
        0,
    )
    assert text == "22:13:20.123 warning slow [raft] why='a b' n=3 e=''"
    assert render_console({"event": "x"}, 0, colour=True) == "00:00:00.000 \033[36minfo   \033[0m x"


@pytest.mark.parametrize(
    "time_ms", [0, 951_782_400_000, 951_868_799_999, 1_709_164_800_001, 4_102_444_800_000, 1_735_689_599_999]
)
def test_timestamps_match_the_calendar(time_ms: int) -> None:
    moment = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    assert format_time_ms(time_ms) == moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"


@pytest.mark.parametrize("text", ["\x1b[2J\x1b[1;1H", "a\rb", "a\x00", "\u202eabc", "\x9b31m", "\x7f"])
def test_terminal_control_characters_do_not_reach_the_console(text: str) -> None:
    line = {"event": f"e{text}", "level": f"l{text}", "logger": text, "client": text, text: 1}
    shown = render_console(line, 1_700_000_000_123)
    assert shown.isprintable(), repr(shown)
    assert f"client={text!r}" in shown
    assert all(character.isprintable() for character in render_json(line, 0))


class SteppedClock:
    seconds = 100.0

    def now(self) -> float:
        return self.seconds


def test_a_flood_of_warnings_is_cut_off_and_the_rest_is_counted() -> None:
    source, lines = loggers()
    clock = SteppedClock()
    limited = RateLimitedLog(source.get("network"), clock, events_max=2, period_seconds=10)
    for number in range(7):
        limited.warning("refused", number=number)
    assert [(line["number"], line.get("left_out")) for line in lines] == [(0, None), (1, None)]
    limited.tell_left_out("more refused")
    clock.seconds += 10
    limited.warning("refused", number=7)
    assert (lines[-1]["number"], lines[-1]["left_out"], len(lines)) == (7, 5, 3)
    limited.warning("refused", number=8)
    limited.warning("refused", number=9)
    clock.seconds += 10
    limited.tell_left_out("more refused")
    limited.tell_left_out("more refused")
    assert [(line["event"], line.get("left_out")) for line in lines[3:]] == [("refused", None), ("more refused", 1)]
