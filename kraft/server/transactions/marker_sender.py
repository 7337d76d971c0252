"""Sends a transaction's outcome to the leaders of its partitions (KIP-98): implements
`kraft.coordinator.transaction.transaction_coordinator.MarkerWriter`.

One request to a broker is sent at a time; markers that arrive meanwhile are batched into the next one. A marker that
fails with a retriable error is sent again without end, to the leader of that time: a decided outcome must reach every
partition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import trio

from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition
from kraft.common.logging import Logger
from kraft.common.quarantine import Quarantine
from kraft.coordinator.transaction.transaction import Ending
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kraft.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from kraft.rpc_client.connection import Disconnected, UnsupportedApi
from kraft.server.broker_channel import BrokerChannel
from kraft.world.ports import Clock

MARKERS_A_REQUEST: Final = 500
PARTITIONS_A_REQUEST: Final = 10_000
"""A request contains at least one marker, with any number of partitions, and ends before the marker that would exceed
this number."""
RETRY_SECONDS: Final = 0.05
RETRY_SECONDS_MAX: Final = 1.0
FENCED: Final = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
"""Errors after which a marker is not sent again: a later coordinator or a later producer epoch has taken over."""
NEEDS_NONE: Final = frozenset((ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION))
"""Errors of a partition that cannot have transactions."""

Ask = Callable[[WriteTxnMarkersRequest], Awaitable[WriteTxnMarkersResponse]]
Codes = dict[TopicPartition, int]


class _Marker:
    """The marker of one transaction for the partitions of one leader. `codes` are set by the response; they stay empty
    if the broker did not answer."""

    __slots__ = ("answered", "codes", "is_sent", "written")

    def __init__(self, written: WritableTxnMarker) -> None:
        self.written = written
        self.answered = trio.Event()
        self.codes: Codes = {}
        self.is_sent = False


class MarkerSender:
    """Sends markers to the leaders of partitions. Owned by the broker's loop. `leader_of` returns the leader of a
    partition: -1 if there is none now, None if the partition does not exist. `write_here` writes to this broker's own
    partitions."""

    def __init__(
        self,
        node_id: int,
        write_here: Ask,
        leader_of: Callable[[TopicPartition], int | None],
        channel: BrokerChannel,
        clock: Clock,
        log: Logger,
        set_aside: Quarantine,
    ) -> None:
        self._set_aside = set_aside
        self._node_id = node_id
        self._write_here = write_here
        self._leader_of = leader_of
        self._channel = channel
        self._clock = clock
        self._log = log
        self._waiting: dict[int, list[_Marker]] = {}
        """Queued markers by broker, while a task sends to it."""
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Send until cancelled."""
        try:
            async with trio.open_nursery() as sending_nursery:
                self._nursery = sending_nursery
                try:
                    await trio.sleep_forever()
                finally:
                    self._nursery = None
        finally:
            self._channel.close()

    async def write(self, ending: Ending, coordinator_epoch: int, is_current: Callable[[], bool]) -> bool:
        """See the port."""
        left = set(ending.partitions)
        pause = RETRY_SECONDS
        while left:
            if not is_current():
                return False
            codes = await self._attempt(ending, coordinator_epoch, left)
            fenced = sorted(place for place, code in codes.items() if code in FENCED)
            if fenced:
                self._log.info(
                    "markers dropped: a later coordinator or producer epoch took over",
                    transactional_id=ending.transactional_id,
                    partition=str(fenced[0]),
                    error=name_of(codes[fenced[0]]),
                )
                return False
            left -= {place for place, code in codes.items() if code == ErrorCode.NONE or code in NEEDS_NONE}
            if left:
                await self._clock.sleep(pause)
                pause = min(2 * pause, RETRY_SECONDS_MAX)
        return is_current()

    async def _attempt(self, ending: Ending, coordinator_epoch: int, left: Iterable[TopicPartition]) -> Codes:
        """Send the markers once. Returns the codes of the partitions that were answered. A partition that no longer
        exists needs no marker."""
        codes: Codes = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for place in sorted(left):
            leader = self._leader_of(place)
            if leader is None:
                codes[place] = ErrorCode.NONE
            elif leader >= 0:
                by_leader.setdefault(leader, []).append(place)
        markers = [
            self._send(leader, _marker(ending, coordinator_epoch, places)) for leader, places in by_leader.items()
        ]
        for marker in markers:
            await marker.answered.wait()
            codes |= marker.codes
        return codes

    def _send(self, broker_id: int, written: WritableTxnMarker) -> _Marker:
        marker = _Marker(written)
        waiting = self._waiting.get(broker_id)
        if waiting is not None:
            waiting.append(marker)
        elif self._nursery is None:
            marker.answered.set()
        else:
            self._waiting[broker_id] = [marker]
            self._nursery.start_soon(self._send_waiting, broker_id)
        return marker

    async def _send_waiting(self, broker_id: int) -> None:
        """Send the markers that wait for the broker, until there are none."""
        waiting = self._waiting[broker_id]
        try:
            while waiting:
                sent = _taken(waiting)
                waiting[:] = [marker for marker in waiting if not marker.is_sent]
                with self._set_aside.guard("markers", f"broker {broker_id}"):
                    await self._ask(broker_id, sent)
        finally:
            del self._waiting[broker_id]
            for marker in waiting:
                marker.answered.set()

    async def _ask(self, broker_id: int, markers: list[_Marker]) -> None:
        request = WriteTxnMarkersRequest(markers=[marker.written for marker in markers])
        try:
            if broker_id == self._node_id:
                response: Any = await self._write_here(request)
            else:
                response = await self._channel.send(broker_id, request)
            codes = _codes_by_producer(response)
            for marker in markers:
                marker.codes = codes.get(marker.written.producer_id, {})
        except (Disconnected, TimeoutError, UnsupportedApi, KraftError) as problem:
            self._log.debug("markers not sent", broker=broker_id, error=str(problem))
        finally:
            for marker in markers:
                marker.answered.set()


def _taken(waiting: Iterable[_Marker]) -> list[_Marker]:
    """The markers of the next request. The response is by producer, so a second marker of a producer waits."""
    taken: dict[int, _Marker] = {}
    count = 0
    for marker in waiting:
        if marker.written.producer_id in taken:
            continue
        count += sum([len(topic.partition_indexes) for topic in marker.written.topics])
        if taken and (count > PARTITIONS_A_REQUEST or len(taken) == MARKERS_A_REQUEST):
            break
        taken[marker.written.producer_id] = marker
        marker.is_sent = True
    return list(taken.values())


def _marker(ending: Ending, coordinator_epoch: int, places: Iterable[TopicPartition]) -> WritableTxnMarker:
    by_topic: dict[str, list[int]] = {}
    for topic, index in places:
        by_topic.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=ending.producer_id,
        producer_epoch=ending.producer_epoch,
        transaction_result=ending.committed,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=indexes) for topic, indexes in by_topic.items()],
        coordinator_epoch=coordinator_epoch,
        transaction_version=ending.transaction_version,
    )


def _codes_by_producer(response: WriteTxnMarkersResponse) -> dict[int, Codes]:
    found: dict[int, Codes] = {}
    for marker in response.markers:
        codes = found.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for partition in topic.partitions:
                codes[TopicPartition(topic.name, partition.partition_index)] = partition.error_code
    return found
