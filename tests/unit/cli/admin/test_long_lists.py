"""Thousands of partitions cost so many times what one costs, not the square of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio

from kraft.admin.offsets import EARLIEST
from kraft.cli.admin.cluster import groups
from kraft.common.ids import TopicPartition


class _Counted(list[Any]):
    """Counts how often somebody goes through it."""

    walks = 0

    def __iter__(self) -> Iterator[Any]:
        self.walks += 1
        return super().__iter__()


def test_each_partition_of_many_topics_is_requested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[TopicPartition]] = []

    async def offsets_at(_cluster: object, partitions: list[TopicPartition], _which: int) -> dict[TopicPartition, int]:
        asked.append(list(partitions))
        return dict.fromkeys(partitions, 7)

    monkeypatch.setattr("kraft.cli.admin.cluster.groups.offsets_at", offsets_at)
    partitions = _Counted(TopicPartition(f"t{number:03}", index) for number in range(200) for index in (0, 1))
    found = trio.run(groups._bounds, None, partitions, EARLIEST)
    assert found == dict.fromkeys(partitions, 7)
    assert len(asked) == 200
    assert partitions.walks <= 4
