"""Which answers of a leader end a marker, and which have it sent again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import trio
import trio.testing

from kraft.common.ids import TopicPartition
from kraft.common.logging import Logger
from kraft.common.quarantine import Quarantine
from kraft.coordinator.transaction.transaction import Ending
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from kraft.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kraft.server.broker_channel import BrokerChannel
from kraft.server.transactions.marker_sender import MarkerSender
from tests.unit.coordinator.fakes import TrioClock
from tests.unit.coordinator.service import run

NODE = 1
PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)

WRITTEN = (ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION)
FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
ALL = (code for name, code in vars(ErrorCode).items() if name.isupper())
SENT_AGAIN = sorted(set(ALL) - {*WRITTEN, *FENCED})


class NoLog:
    def debug(self, message: str, **fields: Any) -> None: ...
    def info(self, message: str, **fields: Any) -> None: ...


class Channel:
    """Leads to nobody: everything in these tests is led here."""

    def close(self) -> None: ...


class Leader:
    """Answers each partition of a request with the next of its codes, then with NONE."""

    def __init__(self, codes: dict[TopicPartition, list[int]]) -> None:
        self.codes = codes
        self.asked: list[list[TopicPartition]] = []

    async def write(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        (marker,) = request.markers
        places = [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
        self.asked.append(places)
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=place.topic,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=place.partition,
                                    error_code=self.codes[place].pop(0) if self.codes.get(place) else ErrorCode.NONE,
                                )
                            ],
                        )
                        for place in places
                    ],
                )
            ]
        )


def write(
    leader: Leader,
    partitions: tuple[TopicPartition, ...] = (PLACE,),
    leader_of: Callable[[TopicPartition], int | None] = lambda _: NODE,
) -> bool:
    """Whether the markers of a transaction over these partitions are written in the end."""

    async def scenario() -> bool:
        clock, log = TrioClock(), cast("Logger", NoLog())
        sender = MarkerSender(
            NODE,
            leader.write,
            leader_of,
            cast("BrokerChannel", Channel()),
            clock,
            log,
            Quarantine(clock, lambda _: None),
        )
        ending = Ending("orders", 7, 1, True, 2, frozenset(partitions), 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sender.run)
            await trio.testing.wait_all_tasks_blocked()
            is_written = await sender.write(ending, 1, lambda: True)
            nursery.cancel_scope.cancel()
        return is_written

    return cast("bool", run(scenario))


@pytest.mark.parametrize("code", SENT_AGAIN, ids=name_of)
def test_a_refused_marker_is_sent_again_until_it_is_written(code: int) -> None:
    """A leader that has just been elected may not know the partition yet (UNKNOWN_TOPIC_OR_PARTITION): a marker that
    counted as written would leave the transaction open in that partition for ever."""
    leader = Leader({PLACE: [code, code]})
    assert write(leader)
    assert leader.asked == [[PLACE]] * 3


@pytest.mark.parametrize("code", WRITTEN, ids=name_of)
def test_a_partition_with_a_written_or_impossible_marker_gets_one_request(code: int) -> None:
    leader = Leader({PLACE: [code]})
    assert write(leader)
    assert leader.asked == [[PLACE]]


@pytest.mark.parametrize("code", FENCED, ids=name_of)
def test_a_fenced_coordinator_drops_its_markers(code: int) -> None:
    leader = Leader({PLACE: [code]})
    assert not write(leader)
    assert leader.asked == [[PLACE]]


def test_only_partitions_without_a_marker_are_retried() -> None:
    leader = Leader({OTHER: [ErrorCode.NOT_LEADER_OR_FOLLOWER]})
    assert write(leader, (PLACE, OTHER))
    assert leader.asked == [[PLACE, OTHER], [OTHER]]


def test_markers_wait_for_a_partition_without_a_leader() -> None:
    leaders = iter([-1, -1, NODE])
    leader = Leader({})
    assert write(leader, leader_of=lambda _: next(leaders))
    assert leader.asked == [[PLACE]]


def test_a_deleted_topic_needs_no_marker() -> None:
    leader = Leader({})
    assert write(leader, leader_of=lambda _: None)
    assert leader.asked == []
