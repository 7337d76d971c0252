"""Lags of consumer groups in the metrics of their coordinator, which need not host the partitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import trio
from trio.testing import MockClock

from kraft.common.ids import TopicPartition
from kraft.protocol.messages.list_offsets_request import ListOffsetsRequest
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.server.group_lags import ASKING_SECONDS_MAX, GroupLags

COMMITTED = 100
ENDS = {0: 110, 1: 120, 2: 130}
HOSTED = 0
LEADERS = {0: 1, 1: 2, 2: 3}


class Clock:
    """Trio's own, which the tests run on a clock that jumps."""

    def now(self) -> float:
        return trio.current_time()

    def move_on_after(self, seconds: float) -> trio.CancelScope:
        assert seconds == ASKING_SECONDS_MAX
        return trio.move_on_after(seconds)


class Remote:
    """Leaders of the partitions that the node does not host. `failures`: what happens to who asks one of them."""

    def __init__(self, **failures: Exception | None) -> None:
        self.failures = {int(name[1:]): failure for name, failure in failures.items()}
        self.asked: list[int | None] = []

    async def call(self, version: int, request: ListOffsetsRequest, node_id: int | None) -> Any:
        await trio.lowlevel.checkpoint()
        self.asked.append(node_id)
        if node_id in self.failures:
            failure = self.failures[node_id]
            if failure is None:
                await trio.sleep_forever()
            else:
                raise failure
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index, offset=ENDS[each.partition_index]
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


def scrape(remote: Remote, *, partitions: tuple[int, ...] = (0, 1, 2)) -> dict[str, dict[tuple[str, ...], float]]:
    """The series by family, for a group that has committed on three partitions of a topic that has `partitions`."""
    commits = {"g": {TopicPartition("t", index): SimpleNamespace(offset=COMMITTED) for index in ENDS}}

    async def committed_offsets() -> Any:
        await trio.lowlevel.checkpoint()
        return commits

    hosted = SimpleNamespace(log=SimpleNamespace(high_watermark=ENDS[HOSTED]))
    topic = SimpleNamespace(partitions={index: SimpleNamespace(leader=LEADERS[index]) for index in partitions})
    topics = SimpleNamespace(by_name=lambda name: topic if name == "t" else None)
    node: Any = SimpleNamespace(
        broker=SimpleNamespace(
            groups=SimpleNamespace(committed_offsets=committed_offsets),
            replicas=SimpleNamespace(find=lambda name, index: hosted if index == HOSTED else None),
        ),
        shared=SimpleNamespace(loader=SimpleNamespace(image=SimpleNamespace(topics=topics))),
        world=SimpleNamespace(clock=Clock()),
    )
    port: Any = remote
    return {
        family.name: dict(family.read())
        for family in trio.run(GroupLags(node, port).families, clock=MockClock(autojump_threshold=0))
    }


def test_the_sum_counts_partitions_that_the_node_does_not_host() -> None:
    remote = Remote()
    series = scrape(remote)
    assert sorted(remote.asked, key=str) == [2, 3]
    assert series["kafka_consumergroup_lag"] == {("g", "t", "0"): 10, ("g", "t", "1"): 20, ("g", "t", "2"): 30}
    assert series["kafka_consumergroup_lag_sum"] == {("g", "t"): 60}


def test_a_sum_is_left_out_while_a_leader_does_not_answer() -> None:
    for failure in (ConnectionError("gone"), TimeoutError("late"), None):
        series = scrape(Remote(n3=failure))
        assert series["kafka_consumergroup_lag"] == {("g", "t", "0"): 10, ("g", "t", "1"): 20}
        assert series["kafka_consumergroup_lag_sum"] == {}
        assert len(series["kafka_consumergroup_current_offset"]) == 3


def test_commits_on_partitions_that_are_gone_keep_no_sum_back() -> None:
    series = scrape(Remote(), partitions=(0, 1))
    assert series["kafka_consumergroup_lag_sum"] == {("g", "t"): 30}
