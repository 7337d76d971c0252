"""A leader that does not tell its end yet is asked again."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from kraft.testing.watermarks import watermarks


class NewLeader:
    """Refuses some times, as a leader does until its high watermark has caught up."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        self.refusals -= 1
        if self.refusals >= 0:
            raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
        return 3, 7


def test_a_new_leader_is_polled_until_it_reports_its_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft.testing.watermarks.PAUSE_SECONDS", 0.0)
    assert watermarks(cast(Consumer, NewLeader(1)), "t", 0, 60.0) == (3, 7)


def test_a_leader_that_never_reports_its_high_watermark_is_an_error() -> None:
    with pytest.raises(KafkaException, match="OFFSET_NOT_AVAILABLE"):
        watermarks(cast(Consumer, NewLeader(1)), "t", 0, 0.0)
