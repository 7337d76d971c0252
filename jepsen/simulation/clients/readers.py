"""Readers of a simulated run. Some follow the end of a partition and list its offsets. At the end of the run one reads
the whole partition."""

from __future__ import annotations

from typing import Any

import trio

from jepsen.checker.operations import OK, FinalRead, ListOffset, Partition, Poll
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, Session, Unanswered
from jepsen.simulation.recorder import Recorder
from kraft.admin.offsets import READ_COMMITTED, READ_UNCOMMITTED
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.records.record_batch import batches
from kraft.rpc_client.fetched import visible_batches

FETCH_VERSIONS = (4, 12)  # By topic name.
EPOCH_IN_FETCH = 9
EPOCH_IN_LIST_OFFSETS = 4
LATEST = -1
EARLIEST = -2
PASSING = TRY_AGAIN | {ErrorCode.OFFSET_OUT_OF_RANGE}
ASK_RATE = 0.2
REWIND_RATE = 0.01


def fetch_request(topic: FetchTopic, isolation: int = READ_UNCOMMITTED) -> FetchRequest:
    """Return a Fetch request that waits at most 0.5 s for the first byte."""
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[topic], isolation_level=isolation
    )


class Reader:
    """Reads one partition and keeps its own position."""

    def __init__(self, session: Session, recorder: Recorder, place: Partition) -> None:
        self._session = session
        self._recorder = recorder
        self._place = place
        self._wire = place
        """The partition as nodes name it. `place` is its name in the history."""
        self._position = 0
        self._moved = True
        self._at_gap = False
        """Whether the last poll succeeded, and offsets after the position have no record."""
        self._keys: list[str] = []
        """Keys of all records that `poll` has read, for a final read."""
        self.stopping = trio.Event()

    async def run(self) -> None:
        """Poll until stopped; at random times list the start or end offset, or move the position back."""
        chance = self._session.chance
        while not self.stopping.is_set():
            await self.poll()
            if chance.random() < ASK_RATE:
                await self.ask("latest" if chance.random() < 0.7 else "earliest")
            if chance.random() < REWIND_RATE:
                self._position, self._moved = max(0, self._position - chance.randint(1, 50)), True
            await self._session.pause(0.5)
        self._session.close()

    async def poll(self) -> list[tuple[int, str, int]]:
        """Fetch once. Returns an empty list if there are no records yet, or the node returns an error or no answer."""
        topic, index = self._place
        poll = Poll(
            process=self._session.name,
            began=self._recorder.now(),
            topic=topic,
            partition=index,
            position=self._position,
        )
        poll.repositioned = self._moved
        self._at_gap = False
        try:
            epoch = await self._session.aim(self._wire)
            poll.began = self._recorder.now()
            self._recorder.add(poll)
            wanted = FetchPartition(
                partition=index,
                fetch_offset=self._position,
                partition_max_bytes=self._session.chance.choice((1, 1000, 1 << 20)),
                current_leader_epoch=epoch,
            )
            response = await self._fetch(wanted)
        except Unanswered:
            poll.ended = self._recorder.now()
            await self._session.pause(0.5)
            return []
        answer = response.responses[0].partitions[0]
        poll.ended = self._recorder.now()
        if answer.error_code != ErrorCode.NONE:
            poll.error = name_of(answer.error_code)
            await self._look_after(answer.error_code)
            return []
        self._take(poll, answer, epoch)
        return poll.records

    async def _fetch(self, wanted: FetchPartition) -> Any:
        """Send one Fetch by topic name. Raises Unanswered."""
        low, high = (EPOCH_IN_FETCH, FETCH_VERSIONS[1]) if wanted.current_leader_epoch >= 0 else FETCH_VERSIONS
        return await self._call(fetch_request(FetchTopic(topic=self._wire[0], partitions=[wanted])), low, high)

    async def _call(self, request: Any, low: int, high: int) -> Any:
        """Send a request that names the topic. Raises Unanswered."""
        return await self._session.call(request, low, high)

    def _take(self, poll: Poll, answer: object, epoch: int) -> None:
        poll.outcome, poll.epoch = OK, epoch
        poll.high_watermark, poll.log_start = answer.high_watermark, answer.log_start_offset  # type: ignore[attr-defined]
        for batch in batches(answer.records or b"", partial_tail=True):  # type: ignore[attr-defined]
            batch.verify_crc()
            for record in batch.records():
                if record.offset >= self._position:
                    poll.records.append(
                        (record.offset, bytes(record.value or b"").decode(), batch.partition_leader_epoch)
                    )
                    self._keys.append(bytes(record.key or b"").decode())
        self._moved = False
        self._at_gap = not poll.records and poll.high_watermark > self._position
        if poll.records:
            self._position = poll.records[-1][0] + 1

    async def _look_after(self, code: int) -> None:
        if code not in PASSING:
            raise Refused(f"Fetch of {self._place[0]}-{self._place[1]} at {self._position}", code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            start = await self.ask("earliest")
            if start is not None and start > self._position:
                self._position, self._moved = start, True
        await self._session.pause(0.5)

    async def ask(self, kind: str) -> int | None:
        """List the partition's earliest or latest offset; None if no node answers."""
        topic, index = self._place
        asked = ListOffset(
            process=self._session.name, began=self._recorder.now(), topic=topic, partition=index, kind=kind
        )
        try:
            epoch = await self._session.aim(self._wire)
            asked.began = self._recorder.now()
            self._recorder.add(asked)
            wanted = ListOffsetsPartition(
                partition_index=index, timestamp=LATEST if kind == "latest" else EARLIEST, current_leader_epoch=epoch
            )
            request = ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name=self._wire[0], partitions=[wanted])]
            )
            response = await self._call(request, EPOCH_IN_LIST_OFFSETS if epoch >= 0 else 1, 9)
        except Unanswered:
            asked.ended = self._recorder.now()
            return None
        answer = response.topics[0].partitions[0]
        asked.ended = self._recorder.now()
        if answer.error_code == ErrorCode.NONE:
            asked.outcome, asked.offset, asked.epoch = OK, answer.offset, epoch
            return int(answer.offset)
        asked.error = name_of(answer.error_code)
        if answer.error_code not in PASSING:
            raise Refused(f"ListOffsets of {topic}-{index}", answer.error_code)
        return None

    async def read_all(self, *, compacted: bool = False) -> FinalRead:
        """Read the whole partition from its start to its present end; retry until the nodes serve it."""
        start = end = None
        while start is None or end is None:
            start = await self.ask("earliest") if start is None else start
            end = await self.ask("latest") if end is None else end
            if start is None or end is None:
                await self._session.pause(0.3)
        topic, index = self._place
        final = FinalRead(
            process=self._session.name,
            began=self._recorder.now(),
            topic=topic,
            partition=index,
            start=start,
            end=end,
            compacted=compacted,
        )
        self._position, self._moved = start, True
        self._keys.clear()
        while self._position < end:
            final.records += await self.poll()
            if compacted and self._at_gap:
                await self._past_a_gap()
        final.keys = self._keys if compacted else None
        final.ok(self._recorder.now())
        return self._recorder.add(final)

    async def _past_a_gap(self) -> None:
        """Advance past an offset without a record: the tail of a compacted log may hold none. Not to be called after a
        poll that was refused or not answered."""
        await self._session.pause(0.1)
        self._position += 1


class CommittedReader(Reader):
    """Reads the committed records of a partition that is written only in transactions."""

    isolation = READ_COMMITTED

    async def _fetch(self, wanted: FetchPartition) -> Any:
        low, high = (EPOCH_IN_FETCH, FETCH_VERSIONS[1]) if wanted.current_leader_epoch >= 0 else FETCH_VERSIONS
        topic = FetchTopic(topic=self._wire[0], partitions=[wanted])
        return await self._call(fetch_request(topic, READ_COMMITTED), low, high)

    def _take(self, poll: Poll, answer: Any, epoch: int) -> None:
        """Add the visible records to the poll. The last stable offset is not recorded: it says nothing about
        acknowledgements, since markers are written after the commit."""
        poll.outcome = OK
        for batch, is_visible in visible_batches(answer.records or b"", answer.aborted_transactions):
            if is_visible:
                poll.records += [
                    (record.offset, bytes(record.value or b"").decode(), batch.partition_leader_epoch)
                    for record in batch.records()
                    if record.offset >= self._position
                ]
            self._position = max(self._position, batch.last_offset + 1)
        self._moved = False

    async def read_all(self, *, compacted: bool = False) -> FinalRead:
        """Read the whole partition once no transaction is open."""
        assert not compacted
        topic, index = self._place
        while (end := await self._end(READ_COMMITTED)) is None or end != await self._end(READ_UNCOMMITTED):
            await self._session.pause(0.3)
        final = FinalRead(
            process=self._session.name,
            began=self._recorder.now(),
            topic=topic,
            partition=index,
            end=end,
            transactional=True,
        )
        self._position, self._moved = 0, True
        while self._position < end:
            final.records += await self.poll()
        final.ok(self._recorder.now())
        return self._recorder.add(final)

    async def _end(self, isolation: int) -> int | None:
        try:
            await self._session.aim(self._wire)
            wanted = ListOffsetsPartition(partition_index=self._place[1], timestamp=LATEST)
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation,
                topics=[ListOffsetsTopic(name=self._wire[0], partitions=[wanted])],
            )
            response = await self._call(request, 2, 9)
        except Unanswered:
            return None
        answer = response.topics[0].partitions[0]
        return int(answer.offset) if answer.error_code == ErrorCode.NONE else None
