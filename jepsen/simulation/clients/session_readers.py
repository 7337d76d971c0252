"""Readers of a simulated run that read many partitions through incremental fetch sessions (KIP-227), one session for
each leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio

from jepsen.checker.operations import OK, Partition, Poll
from jepsen.simulation.clients.readers import PASSING
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, RoamingSession, Unanswered
from jepsen.simulation.recorder import Recorder
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kraft.protocol.records.record_batch import batches

VERSIONS: Final = (9, 12)
"""Versions with leader epochs and topic names."""
MAX_WAIT_MS: Final = 100
FETCH_SECONDS: Final = 4.0
"""Timeout of a Fetch. Hosts are asked one after the other, so five half-open connections delay a round by 20 seconds
at most."""
PARTITION_BYTES: Final = 1 << 20
PAUSE_SECONDS_MAX: Final = 0.3
REWIND_RATE: Final = 0.01
REWIND_RECORDS_MAX: Final = 50
SESSION_OVER: Final = {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}


class _FetchSession:
    """The client's side of a fetch session with one broker. Epoch 0 requests a new session with all partitions."""

    __slots__ = ("epoch", "known", "number")

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.number, self.epoch = 0, 0
        self.known: dict[Partition, tuple[int, int]] = {}
        """Position and leader epoch of each partition in the session."""


class SessionReader:
    """Reads several partitions and keeps a position in each. No record of these partitions is ever deleted."""

    def __init__(self, session: RoamingSession, recorder: Recorder, places: Sequence[Partition]) -> None:
        self._session = session
        self._recorder = recorder
        self._positions = dict.fromkeys(places, 0)
        self._moved = set(places)
        self._fetching: dict[str, _FetchSession] = {}
        self.stopping = trio.Event()

    async def run(self) -> None:
        chance = self._session.chance
        while not self.stopping.is_set():
            try:
                leaders = await self._session.leaders(list(self._positions))
            except Unanswered:
                leaders = {}
            for host, epochs in leaders.items():
                await self._fetch(host, epochs)
            if chance.random() < REWIND_RATE:
                place = chance.choice(list(self._positions))
                self._positions[place] = max(0, self._positions[place] - chance.randint(1, REWIND_RECORDS_MAX))
                self._moved.add(place)
            await self._session.pause(PAUSE_SECONDS_MAX)
        self._session.close()

    async def _fetch(self, host: str, epochs: Mapping[Partition, int]) -> None:
        """Fetch once from the partitions that `host` leads. The request has only what changed since the last one."""
        fetching = self._fetching.setdefault(host, _FetchSession())
        wanted = {place: (self._positions[place], epoch) for place, epoch in epochs.items()}
        began = self._recorder.now()
        try:
            session = self._session.session_to(host)
            session.request_seconds = FETCH_SECONDS
            response = await session.call(self._request(fetching, wanted), *VERSIONS)
        except Unanswered:
            fetching.restart()
            self._session.forget(wanted)
            return
        if response.error_code != ErrorCode.NONE:
            if response.error_code not in SESSION_OVER | TRY_AGAIN:
                raise Refused("Fetch in a session", response.error_code)
            fetching.restart()
            return
        if response.session_id == 0:
            fetching.restart()
        else:
            fetching.number, fetching.epoch, fetching.known = response.session_id, fetching.epoch + 1, wanted
        for topic in response.responses:
            for answer in topic.partitions:
                place = (topic.topic, answer.partition_index)
                if place not in wanted:
                    self._recorder.unexpected(
                        self._session.name, f"{host} told of {place}, which is not in the session"
                    )
                else:
                    self._take(place, answer, wanted[place], began)

    def _request(self, fetching: _FetchSession, wanted: Mapping[Partition, tuple[int, int]]) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for place, (position, epoch) in wanted.items():
            if fetching.known.get(place) != (position, epoch):
                topics.setdefault(place[0], []).append(
                    FetchPartition(
                        partition=place[1],
                        fetch_offset=position,
                        partition_max_bytes=PARTITION_BYTES,
                        current_leader_epoch=epoch,
                    )
                )
        forgotten: dict[str, list[int]] = {}
        for place in fetching.known:
            if place not in wanted:
                forgotten.setdefault(place[0], []).append(place[1])
        return FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=PARTITION_BYTES,
            session_id=fetching.number,
            session_epoch=fetching.epoch,
            topics=[FetchTopic(topic=name, partitions=partitions) for name, partitions in topics.items()],
            forgotten_topics_data=[ForgottenTopic(topic=name, partitions=found) for name, found in forgotten.items()],
        )

    def _take(self, place: Partition, answer: Any, wanted: tuple[int, int], began: float) -> None:
        position, epoch = wanted
        poll = Poll(
            process=self._session.name, began=began, topic=place[0], partition=place[1], position=position, epoch=epoch
        )
        poll.ended = self._recorder.now()
        self._recorder.add(poll)
        if answer.error_code != ErrorCode.NONE:
            poll.error = name_of(answer.error_code)
            if answer.error_code not in PASSING:
                raise Refused(f"Fetch of {place[0]}-{place[1]} at {position}", answer.error_code)
            self._session.forget([place])
            return
        poll.outcome, poll.repositioned = OK, place in self._moved
        self._moved.discard(place)
        poll.high_watermark, poll.log_start = answer.high_watermark, answer.log_start_offset
        for batch in batches(answer.records or b"", partial_tail=True):
            batch.verify_crc()
            poll.records += [
                (record.offset, bytes(record.value or b"").decode(), batch.partition_leader_epoch)
                for record in batch.records()
                if record.offset >= position
            ]
        if poll.records:
            self._positions[place] = poll.records[-1][0] + 1
