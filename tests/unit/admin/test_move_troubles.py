"""Why a move does not get on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kraft.admin.cluster import LogDirectory
from kraft.admin.copying import Copy
from kraft.admin.move_troubles import MoveFacts, troubles
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode

PLACE = TopicPartition("t", 0)
LEADER, TARGET = 1, 3


def directory(path: str = "/d", room: int = 1 << 40, error: int = ErrorCode.NONE) -> LogDirectory:
    return LogDirectory(
        node_id=TARGET, path=path, total_bytes=1 << 41, usable_bytes=room, replicas=(), error_code=error
    )


def told(leader: int = LEADER, **changes: Any) -> list[str]:
    usual: Mapping[str, Any] = {
        "is_up": {LEADER: True, TARGET: True},
        "directories": {TARGET: [directory()]},
        "ends": {(LEADER, PLACE): 100, (TARGET, PLACE): 10},
        "sizes": {(LEADER, PLACE): 1_000_000, (TARGET, PLACE): 0},
        "rates": {},
    }
    return troubles([Copy(PLACE, leader, TARGET)], MoveFacts(**{**usual, **changes})).get(PLACE, [])


def test_a_move_in_progress_has_no_trouble() -> None:
    assert told() == []
    assert told(rates={TARGET: 1_000_000}) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"is_up": {LEADER: True}}, "Broker 3 is not registered"),
        ({"is_up": {LEADER: True, TARGET: False}}, "Broker 3 is fenced or down"),
        ({"directories": {}}, "Broker 3 does not answer"),
        (
            {"directories": {TARGET: [directory(error=ErrorCode.KAFKA_STORAGE_ERROR)]}},
            "Broker 3 has offline log directories: /d (KAFKA_STORAGE_ERROR)",
        ),
        ({"directories": {TARGET: [directory(room=999)]}}, "Broker 3 has room for 999 bytes, and 1,000,000 are left"),
        ({"ends": {(LEADER, PLACE): 100}}, "Broker 3 has not begun to fetch from broker 1"),
        ({"rates": {TARGET: 10}}, "At its throttle of 10 bytes a second broker 3 needs 1.2 days"),
        ({"leader": -1}, "No broker leads the partition"),
    ],
)
def test_each_trouble_of_a_move_is_named(changes: dict[str, Any], sentence: str) -> None:
    assert [each[: len(sentence)] for each in told(**changes)] == [sentence]


def test_a_throttle_estimate_counts_all_bytes_that_a_broker_has_to_copy() -> None:
    places = [TopicPartition("t", index) for index in range(10)]
    facts = MoveFacts(
        is_up={LEADER: True, TARGET: True},
        directories={TARGET: [directory()]},
        ends={(TARGET, place): 1 for place in places},
        sizes={(LEADER, place): 100_000 for place in places},
        rates={TARGET: 10},
    )
    assert len(troubles([Copy(place, LEADER, TARGET) for place in places], facts)) == 10
    assert troubles([Copy(places[0], LEADER, TARGET)], facts) == {}
