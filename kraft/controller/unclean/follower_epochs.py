"""Asks a follower of Apache Kafka where leader epochs end in its log. Such a follower refuses OffsetForLeaderEpoch, but
serves Fetch to replica id -2 (debugging consumer), and a fetch compares logs as well (KIP-595).

A fetch beyond any log, after a record of epoch E, diverges: the answer has the largest epoch of the log that is not
above E, and its end. If E is above the log's last epoch, Kafka answers OFFSET_OUT_OF_RANGE. So a search over the epochs
finds the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kraft.common.ids import DEBUGGING_REPLICA
from kraft.controller.unclean.log_comparison import LogEnd
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse

FETCH_VERSION: Final = 12
"""The first version of Fetch with leader epochs of records, and the last that names topics. Every Apache Kafka from 2.7
on serves it."""
BEYOND_ANY_LOG: Final = (1 << 63) - 1
NO_EPOCH: Final = -1

Place = tuple[str, int]


class Asked(NamedTuple):
    """One question: where `epoch` ends in the follower's log of a partition. `leader_epoch` is the partition's current
    one."""

    topic: str
    partition: int
    leader_epoch: int
    epoch: int


class _Search(NamedTuple):
    """The state of one search: the wanted epoch of the log is at least `low` and below `high`. `end` is the log's
    answer for `low`: its largest epoch up to there, and the end of that epoch."""

    asked: Asked
    low: int
    high: int
    end: LogEnd


class EpochSearch:
    """Finds, for each question, the largest epoch of the log that is not above the epoch asked for, and its end. Pure.
    The caller sends `request` and passes the response to `answered`, in rounds, until `request` returns None."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        nothing = LogEnd(NO_EPOCH, NO_EPOCH)
        self._open = {each[:2]: _Search(each, NO_EPOCH, each.epoch + 1, nothing) for each in asked}
        self.found: dict[Place, LogEnd] = {}
        """Results by partition. The epoch is -1 for a log without epochs."""

    def request(self) -> FetchRequest | None:
        """Return the next request; None if there is nothing left to ask."""
        topics: dict[str, list[FetchPartition]] = {}
        for asked, _, _, _ in self._open.values():
            topics.setdefault(asked.topic, []).append(
                FetchPartition(
                    partition=asked.partition,
                    current_leader_epoch=asked.leader_epoch,
                    fetch_offset=BEYOND_ANY_LOG,
                    last_fetched_epoch=asked.epoch,
                )
            )
        listed = [FetchTopic(topic=name, partitions=wanted) for name, wanted in topics.items()]
        return FetchRequest(replica_id=DEBUGGING_REPLICA, topics=listed) if listed else None

    def answered(self, response: FetchResponse) -> None:
        """Apply the response of one round. A partition that is missing in it, or has an error other than
        OFFSET_OUT_OF_RANGE, gets no result."""
        searches, self._open = self._open, {}
        for topic in response.responses:
            for answer in topic.partitions:
                place = topic.topic, answer.partition_index
                search, diverging = searches.get(place), answer.diverging_epoch
                if search is None:
                    continue
                if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    search = search._replace(high=search.asked.epoch)
                elif not answer.error_code and diverging is not None and diverging.end_offset >= 0:
                    end = LogEnd(diverging.epoch, diverging.end_offset)
                    search = search._replace(low=search.asked.epoch, end=end)
                else:
                    continue
                if search.high - search.low > 1:
                    middle = search.asked._replace(epoch=(search.low + search.high) // 2)
                    self._open[place] = search._replace(asked=middle)
                else:
                    self.found[place] = search.end
