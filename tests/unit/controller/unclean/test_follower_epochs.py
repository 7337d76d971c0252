"""A follower of Apache Kafka tells by Fetch where the epochs of its log end."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from kraft.controller.unclean.follower_epochs import BEYOND_ANY_LOG, FETCH_VERSION, Asked, EpochSearch
from kraft.controller.unclean.log_comparison import LogEnd
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest
from kraft.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from tests.unit.controller.unclean.replies import Epochs, epoch_end


def told(log: Epochs, asked: FetchPartition) -> PartitionData:
    """What Apache Kafka answers to a fetch behind the end of its log."""
    assert asked.fetch_offset == BEYOND_ANY_LOG
    if asked.last_fetched_epoch > (log[-1] if log else -1):
        return PartitionData(partition_index=asked.partition, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    end = epoch_end(log, asked.last_fetched_epoch)
    diverging = EpochEndOffset(epoch=end.last_epoch, end_offset=end.end_offset)
    return PartitionData(partition_index=asked.partition, diverging_epoch=diverging)


def answer(request: FetchRequest, logs: Mapping[tuple[str, int], Epochs]) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    told(logs[topic.topic, each.partition], each)
                    for each in topic.partitions
                    if (topic.topic, each.partition) in logs
                ],
            )
            for topic in request.topics
        ]
    )


def searched(logs: Mapping[tuple[str, int], Epochs], asked: Sequence[Asked]) -> tuple[EpochSearch, int]:
    """The search at its end, and its rounds."""
    search, rounds = EpochSearch(asked), 0
    while (request := search.request()) is not None:
        assert request.replica_id == -2
        request.encode(FETCH_VERSION)
        search.answered(answer(request, logs))
        rounds += 1
    return search, rounds


@pytest.mark.parametrize("seed", range(20))
def test_the_last_epoch_of_each_log_and_its_end_are_found(seed: int) -> None:
    chance = random.Random(seed)
    logs = {
        ("t", index): sorted(chance.choices(range(40), k=chance.choice((0, 1, 9))))
        for index in range(chance.randint(1, 9))
    }
    search, rounds = searched(logs, [Asked("t", index, 50, 50) for _, index in logs])
    assert search.found == {place: LogEnd(log[-1], len(log)) if log else LogEnd(-1, -1) for place, log in logs.items()}
    assert rounds <= 7, "it halves what is left of 51 epochs"


def test_an_epoch_that_is_not_above_the_last_one_is_found_at_once() -> None:
    log = [1, 1, 3, 3, 3, 6]
    for epoch in (0, 1, 2, 3, 5, 6):
        search, rounds = searched({("t", 0): log}, [Asked("t", 0, 9, epoch)])
        assert (search.found, rounds) == ({("t", 0): epoch_end(log, epoch)}, 1)


def test_a_replica_that_refuses_or_does_not_answer_is_given_up() -> None:
    search = EpochSearch([Asked("t", 0, 9, 9), Asked("t", 1, 9, 9), Asked("u", 0, 9, 9), Asked("u", 1, 9, 9)])
    refused = PartitionData(partition_index=0, error_code=ErrorCode.FENCED_LEADER_EPOCH)
    undecided = PartitionData(partition_index=1)
    above = PartitionData(partition_index=1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    unasked = PartitionData(partition_index=7, diverging_epoch=EpochEndOffset(epoch=1, end_offset=1))
    search.answered(
        FetchResponse(
            responses=[
                FetchableTopicResponse(topic="t", partitions=[refused, undecided, unasked]),
                FetchableTopicResponse(topic="u", partitions=[above]),
            ]
        )
    )
    request = search.request()
    assert request is not None
    assert [(topic.topic, [each.partition for each in topic.partitions]) for topic in request.topics] == [("u", [1])]
    search.answered(FetchResponse(responses=[]))
    assert search.request() is None
    assert search.found == {}
