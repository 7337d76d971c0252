"""When a stream of a share group accepts records, with the group told by the test."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable
from typing import Any

import pytest

from kraft.common.ids import TopicPartition
from kraft.spark.source.share_options import share_options
from kraft.spark.source.share_plan import AcquiredOffset, Slot

datasource = pytest.importorskip("pyspark.sql.streaming.datasource")

ID = bytes(range(16))
OPTIONS = {"kafka.bootstrap.servers": "h:1", "subscribe": "jobs", "shareGroup": "workers", "readers": "2"}


class Group:
    """The share group and its member. `delivers` are the offsets of the next acquisitions."""

    def __init__(self) -> None:
        self.delivers: list[list[int]] = []
        self.locks: dict[int, int] = {}
        self.accepted: list[int] = []
        self.refused: set[int] = set()
        self.is_thorough = False
        self.is_closed = False

    def acquire(self, *, thoroughly: bool) -> bool:
        self.is_thorough = thoroughly
        found = self.delivers.pop(0) if self.delivers else []
        self.locks |= dict.fromkeys(found, 1)
        return bool(found)

    def held(self) -> list[AcquiredOffset]:
        return [AcquiredOffset("jobs", ID, 0, offset, count) for offset, count in self.locks.items()]

    def accept(self, slots: Iterable[Slot]) -> list[Slot]:
        given = list(slots)
        for _, _, offset in given:
            del self.locks[offset]
        applied = [slot for slot in given if slot[2] not in self.refused]
        self.accepted += [offset for _, _, offset in applied]
        return applied

    def close(self) -> None:
        self.is_closed = True


class Query:
    """Spark's calls. `run` is one micro-batch."""

    def __init__(self, group: Group, end: int = 0) -> None:
        from kraft.spark.source.share_reader import ShareStreamReader

        ends = {TopicPartition("jobs", 0): end}
        self.reader = ShareStreamReader(share_options(OPTIONS), lambda _: group, lambda _: ends)
        self.at: dict[str, Any] = self.reader.initialOffset()

    def plan(self) -> dict[str, Any]:
        found = self.reader.latestOffset(self.at, datasource.ReadAllAvailable())
        return dict(json.loads(json.dumps(found)))

    def tasks(self, end: dict[str, Any]) -> list[list[int]]:
        return [
            [slot[2] for each in task.value for slot in each.slots()] for task in self.reader.partitions(self.at, end)
        ]

    def run(self) -> list[list[int]]:
        end = self.plan()
        found = self.tasks(end)
        self.at = end
        return found


def test_records_are_accepted_after_their_batch_and_not_before() -> None:
    group = Group()
    group.delivers = [[0, 1, 2], [3]]
    query = Query(group)
    assert query.run() == [[0, 1], [2]]
    assert group.accepted == []
    assert query.run() == [[3]]
    assert group.accepted == [0, 1, 2]
    assert query.plan() == query.at
    assert group.accepted == [0, 1, 2, 3]


def test_records_whose_lock_was_lost_are_not_accepted_and_the_others_are() -> None:
    group = Group()
    group.delivers = [[0, 1, 2]]
    query = Query(group)
    query.run()
    del group.locks[1]
    assert query.plan() == query.at
    assert group.accepted == [0, 2]


def test_a_record_delivered_again_after_its_batch_is_accepted_without_being_read_again() -> None:
    group = Group()
    group.delivers = [[0, 1, 2]]
    query = Query(group)
    query.run()
    del group.locks[1]
    group.delivers = [[1, 5]]
    assert query.run() == [[5]]
    assert group.accepted == [0, 2, 1]


def test_a_record_whose_acceptance_failed_is_accepted_when_it_is_delivered_again() -> None:
    group = Group()
    group.delivers, group.refused = [[0, 1], [2]], {1}
    query = Query(group)
    assert query.run() == [[0], [1]]
    assert query.run() == [[2]]
    group.delivers, group.refused = [[1], [3]], set()
    assert query.run() == [[3]]
    assert group.accepted == [0, 2, 1]


def test_a_batch_that_is_run_again_by_another_driver_reads_the_same_records_and_accepts_what_it_holds() -> None:
    group = Group()
    group.delivers = [[0, 1, 2, 3]]
    crashed = Query(group)
    end = crashed.plan()
    tasks = crashed.tasks(end)
    group.locks.clear()  # The session ended with the driver. Another member takes 0 and 1.
    group.delivers = [[2, 3, 4]]
    resumed = Query(group)
    assert resumed.tasks(end) == tasks == [[0, 1], [2, 3]]
    resumed.at = end
    assert resumed.run() == [[4]]
    assert group.accepted == [2, 3]


def test_another_driver_accepts_the_records_of_a_batch_that_ended_before_they_were_accepted() -> None:
    group = Group()
    group.delivers = [[0, 1]]
    crashed = Query(group)
    crashed.run()
    group.locks.clear()
    group.delivers = [[7], [0, 1]]  # The locks of the first driver have not ended yet.
    resumed = Query(group)
    resumed.at = crashed.at
    assert resumed.run() == [[7]]
    again = Query(group)
    again.at = resumed.at
    assert again.plan() == again.at
    assert sorted(group.accepted) == [0, 1, 7]


def test_records_that_arrive_while_a_batch_runs_belong_to_the_next_one() -> None:
    group = Group()
    group.delivers = [[0]]
    query = Query(group)
    query.run()
    group.locks[1] = 1
    assert query.run() == [[1]]
    assert group.accepted == [0]


def test_available_now_ends_when_what_was_there_is_processed() -> None:
    group = Group()
    group.delivers = [[0, 1], [2, 9], [10], [11]]
    query = Query(group, end=3)
    query.reader.prepareForTriggerAvailableNow()
    assert query.run() == [[0], [1]]
    assert query.run() == [[2], [9]]
    assert query.run() == [[10]]
    assert query.plan() == query.at
    assert group.is_thorough
    assert group.accepted == [0, 1, 2, 9, 10]
    assert group.delivers == [[11]]


def test_stop_leaves_the_group() -> None:
    group = Group()
    query = Query(group)
    query.plan()
    query.reader.stop()
    assert group.is_closed


def test_the_reader_is_pickled_without_its_member() -> None:
    from kraft.spark.source.share_reader import ShareStreamReader

    reader = ShareStreamReader(share_options(OPTIONS))
    reader._member = Group()
    assert reader.__getstate__()["_member"] is None


def test_the_member_leaves_the_group_before_sigterm_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from kraft.spark.source import share_reader

    happened: list[object] = []
    handlers: list[Any] = []
    monkeypatch.setattr(share_reader, "is_worker", lambda: True)
    monkeypatch.setattr(share_reader.signal, "signal", lambda _, handler: handlers.append(handler))
    monkeypatch.setattr(share_reader.os, "kill", lambda _, number: happened.append(number))
    share_reader.before_termination(lambda: happened.append("left"))
    handlers[0](signal.SIGTERM, None)
    assert happened == ["left", signal.SIGTERM]
    assert handlers[1:] == [signal.SIG_IGN, signal.SIG_DFL]  # Spark sends it twice.


def test_a_process_that_is_no_worker_of_spark_keeps_its_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    from kraft.spark.source import share_reader

    handlers: list[Any] = []
    monkeypatch.setattr(share_reader.signal, "signal", lambda _, handler: handlers.append(handler))
    share_reader.before_termination(lambda: None)
    assert handlers == []
