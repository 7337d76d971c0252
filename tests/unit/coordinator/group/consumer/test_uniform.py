"""The uniform assignor: what an assignment of many partitions costs, counted in comparisons, and how it compares with
Apache Kafka 4.3.1's."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.coordinator.group.consumer.assignors.subscriber import Subscriber
from kraft.coordinator.group.consumer.assignors.uniform import assign

FIRST, SECOND = b"1" * 16, b"2" * 16
PARTITIONS = 4000


class Counted(int):
    """A partition that counts how often it is compared with another."""

    comparisons = 0
    __hash__ = int.__hash__

    def __lt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int.__lt__(self, other)

    def __gt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int.__gt__(self, other)

    def __neg__(self) -> Counted:
        return Counted(int.__neg__(self))


@pytest.mark.parametrize("others", [{FIRST}, {FIRST, SECOND}], ids=["the same topics", "other topics"])
def test_adding_a_member_with_many_partitions_costs_little_more_than_the_partition_count(others: set[bytes]) -> None:
    topics = dict.fromkeys([FIRST, *others], PARTITIONS)
    has_all = {FIRST: frozenset(map(Counted, range(PARTITIONS)))}
    Counted.comparisons = 0
    assignment = assign(
        [
            Subscriber("a", None, frozenset((FIRST,)), has_all),
            Subscriber("b", None, frozenset((FIRST,)), {}),
            Subscriber("c", None, frozenset(others), {}),
        ],
        topics,
    )
    assert Counted.comparisons < 40 * PARTITIONS
    kept = assignment["a"][FIRST]
    assert kept == set(range(len(kept))), "the first partitions stay"
    loads = sorted(sum(map(len, topics.values())) for topics in assignment.values())
    if len(others) == 1:
        assert loads == [1333, 1333, 1334]
    else:
        assert loads == [2000, 2000, 4000]


RECORDED = Path(__file__).parents[4] / "vectors" / "assignors" / "uniform.txt"


@pytest.mark.parametrize("line", RECORDED.read_text().splitlines())
def test_the_uniform_assignor_is_as_even_as_kafka_and_moves_no_more_partitions(line: str) -> None:
    """The file says how its lines are made (UniformAssignments.java)."""
    group, kafkas_loads, kafkas_kept = line.split("\t")
    counts, *members = group.split("|")
    subscribers = [_subscriber(number, *text.split(";")) for number, text in enumerate(members)]
    topics = frozenset[bytes]().union(*(subscriber.topic_ids for subscriber in subscribers))
    numbers = {_topic(topic): int(count) for topic, count in enumerate(counts.split(","))}
    assignment = assign(subscribers, {topic_id: numbers[topic_id] for topic_id in sorted(topics)})
    loads = [sum(map(len, parts.values())) for parts in assignment.values()]
    kept = sum(
        len(assignment[subscriber.member_id].get(topic_id, set()) & partitions)
        for subscriber in subscribers
        for topic_id, partitions in subscriber.current.items()
    )
    expected = [int(load) for load in kafkas_loads.split(",")]
    assert sum(loads) == sum(expected)
    assert _unevenness(loads) <= _unevenness(expected)
    assert kept >= int(kafkas_kept) or _unevenness(loads) < _unevenness(expected)


def test_a_chain_of_moves_leads_to_equal_loads() -> None:
    first, second, third = map(_topic, range(3))
    topics = [{third}, {third}, {first, second, third}, {first, second}]
    subscribers = [Subscriber(f"m{number}", None, frozenset(names), {}) for number, names in enumerate(topics)]
    assignment = assign(subscribers, {first: 5, second: 3, third: 8})
    assert [sum(map(len, parts.values())) for parts in assignment.values()] == [4, 4, 4, 4]


def _topic(number: int) -> bytes:
    return number.to_bytes(16, "big")


def _subscriber(number: int, topics: str, had: str) -> Subscriber:
    current: dict[bytes, frozenset[int]] = {}
    for place in filter(None, had.split(",")):
        topic_id, partition = _topic(int(place.split("-")[0])), int(place.split("-")[1])
        current[topic_id] = current.get(topic_id, frozenset()) | {partition}
    return Subscriber(f"m{number:02}", None, frozenset(_topic(int(topic)) for topic in topics.split(",")), current)


def _unevenness(loads: list[int]) -> int:
    return sum(load * load for load in loads)
