"""How far a copy is, as it is written down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.ids import TopicPartition
from kraft.mirror.progress import Progress, progress_key, read_progress
from kraft.mirror.sync_points import Point

OFFSETS = st.integers(0, 2**63 - 1)
POINTS = st.lists(st.builds(Point, OFFSETS, OFFSETS), max_size=40).map(tuple)
PROGRESS = st.builds(Progress, st.text(), st.text(), OFFSETS, st.integers(-1, 2**31 - 1), POINTS)


@given(topic=st.text(), index=st.integers(0, 10_000), progress=PROGRESS)
def test_written_progress_is_read_back(topic: str, index: int, progress: Progress) -> None:
    place = TopicPartition(topic, index)
    assert read_progress(progress_key(place), progress.value()) == (place, progress)


@given(key=st.binary(max_size=20), value=st.binary(max_size=40))
def test_records_of_another_writer_are_no_progress(key: bytes, value: bytes) -> None:
    with pytest.raises(ValueError, match="was not written by a mirror"):
        read_progress(key, value)


def test_incomplete_progress_is_ignored() -> None:
    with pytest.raises(ValueError, match="'offset'"):
        read_progress(b'["a",0]', b'{"source":"s","topic_id":"t"}')
