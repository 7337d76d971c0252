"""Producers of a simulated run that pipeline, as real clients do. Each connection has several requests under way, each
with batches for many partitions, of 1 to 1000 records, with acks 0, 1 or all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import trio

from jepsen.checker.errors import is_definite
from jepsen.checker.operations import FAIL, INFO, OK, Partition, Send
from jepsen.simulation.clients.producers import IDENTITY_LOST, new_identity
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, RoamingSession, Unanswered
from jepsen.simulation.recorder import Recorder
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import Record, build_batch
from kraft.protocol.records.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

VERSIONS: Final = (7, 12)
"""Versions with zstd and topic names."""
IN_FLIGHT_MAX: Final = 5
"""Limit of batches in flight to one partition: a broker remembers as many of an idempotent producer."""
RECORDS_MAX: Final = ((5, 0.93), (100, 0.993), (1000, 1.0))
"""Largest batch, with the upper bound of the random number for it."""
TIMEOUT_MS: Final = 5000
PAUSE_SECONDS_MAX: Final = 0.8
ALL: Final = -1


class _Batch:
    """A batch under way, and its entry in the history."""

    __slots__ = ("content", "is_settled", "send")

    def __init__(self, send: Send, content: bytes) -> None:
        self.send = send
        self.content = content
        self.is_settled = False


class PipeliningProducer:
    """Sends rounds of batches until it is stopped. With acks=all it is idempotent, and a round lasts until every batch
    is acknowledged. Otherwise each batch is sent once.

    `is_sole` says that the partitions have one replica, which keeps what it acknowledged whatever acks says. With more
    replicas an election may lose a batch acknowledged under acks=1: such a send gets the outcome INFO and the offset of
    the response.
    """

    def __init__(
        self,
        session: RoamingSession,
        recorder: Recorder,
        places: Sequence[Partition],
        *,
        acks: int,
        is_sole: bool,
        records_max: int,
    ) -> None:
        self._session = session
        self._recorder = recorder
        self._places = tuple(places)
        self._acks = acks
        self._is_sole = is_sole
        self._records_max = records_max
        self._identity = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self._sequences: dict[Partition, int] = {}
        self._known: set[Partition] = set()
        """Partitions with an acknowledged batch of this producer id. Another partition accepts any sequence as the
        first one (as in Apache Kafka), so no batch may follow one that could be rejected there."""
        self._count = 0
        self.stopping = trio.Event()

    async def run(self) -> None:
        while not self.stopping.is_set():
            if self._acks == ALL and self._identity[0] == NO_PRODUCER_ID:
                self._identity = await new_identity(self._session)
                self._sequences = dict.fromkeys(self._places, 0)
                self._known.clear()
            await self._round()
            await self._session.pause(PAUSE_SECONDS_MAX)
        self._session.close()

    async def _round(self) -> None:
        waiting = {place: [self._batch(place) for _ in range(self._under_way(place))] for place in self._places}
        identity = self._identity
        while True:
            await self._attempt({place: row for place, row in waiting.items() if row})
            for place, row in waiting.items():
                waiting[place] = [batch for batch in row if not batch.is_settled]
            if self._acks != ALL or self._identity != identity or not any(waiting.values()):
                break
            await self._session.pause(PAUSE_SECONDS_MAX)
        for batch in (batch for row in waiting.values() for batch in row):
            batch.send.ended = self._recorder.now()

    def _under_way(self, place: Partition) -> int:
        most = IN_FLIGHT_MAX if self._acks != ALL or place in self._known else 1
        return self._session.chance.randint(1, most)

    def _batch(self, place: Partition) -> _Batch:
        session, chance = self._session, self._session.chance
        draw = chance.random()
        most = next(most for most, up_to in RECORDS_MAX if draw < up_to)
        count = chance.randint(1, min(most, self._records_max))
        values = [f"{session.name}:{number}" for number in range(self._count, self._count + count)]
        self._count += count
        send = Send(
            process=session.name,
            began=self._recorder.now(),
            topic=place[0],
            partition=place[1],
            values=values,
            acks=self._acks,
            attempts=0,
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
        )
        self._recorder.add(send)
        sequence = NO_SEQUENCE
        if self._acks == ALL:
            sequence = self._sequences[place]
            self._sequences[place] += count
        now_ms = session.world.clock.wall_ms()
        content = build_batch(
            [Record(number, now_ms, b"k", value.encode(), ()) for number, value in enumerate(values)],
            codec=chance.choice((0, 0, 1, 2, 3, 4)),
            base_sequence=sequence,
            producer_id=send.producer_id,
            producer_epoch=send.producer_epoch,
        )
        return _Batch(send, content)

    async def _attempt(self, waiting: dict[Partition, list[_Batch]]) -> None:
        """Send all batches once, to the present leaders concurrently."""
        try:
            leaders = await self._session.leaders(list(waiting))
        except Unanswered:
            return
        refusals: list[Refused] = []

        async def pipeline(host: str, rows: dict[Partition, list[_Batch]]) -> None:
            try:
                await self._pipeline(host, rows)
            except Refused as refusal:
                refusals.append(refusal)

        async with trio.open_nursery() as nursery:
            for host, places in leaders.items():
                nursery.start_soon(pipeline, host, {place: waiting[place] for place in places})
        for refusal in refusals:
            raise refusal

    async def _pipeline(self, host: str, rows: dict[Partition, list[_Batch]]) -> None:
        """Send the first batch of every partition in one request, the second ones in the next request, and so on."""
        columns = [
            [row[number] for row in rows.values() if number < len(row)]
            for number in range(max(map(len, rows.values())))
        ]
        requests = [self._request(column) for column in columns]
        for batch in (batch for column in columns for batch in column):
            batch.send.attempts += 1
        leader = self._session.session_to(host)
        if self._acks == 0:
            if not await leader.send_all(requests, *VERSIONS):
                self._session.forget(rows)
            return
        answers = await leader.call_all(requests, *VERSIONS)
        if len(answers) < len(requests):
            self._session.forget(rows)
        failed: set[Partition] = set()
        for column, answer in zip(columns, answers, strict=False):
            told = {
                (topic.name, partition.index): partition
                for topic in answer.responses
                for partition in topic.partition_responses
            }
            for batch in column:
                self._settle(batch, told[batch.send.place], host, failed)
        self._session.forget(failed)

    def _request(self, column: Sequence[_Batch]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in column:
            data = PartitionProduceData(index=batch.send.partition, records=batch.content)
            topics.setdefault(batch.send.topic, []).append(data)
        return ProduceRequest(
            acks=self._acks,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )

    def _settle(self, batch: _Batch, answer: Any, host: str, failed: set[Partition]) -> None:
        """Record the response for a batch. `failed` are partitions whose earlier batch of the same attempt was refused,
        so that later ones are out of order."""
        send, code = batch.send, answer.error_code
        if code == ErrorCode.NONE:
            send.offset, send.ended, batch.is_settled = answer.base_offset, self._recorder.now(), True
            send.outcome = OK if self._acks == ALL or self._is_sole else INFO
            self._known.add(send.place)
            return
        send.error = name_of(code)
        if self._acks == ALL and code in IDENTITY_LOST:
            if send.place not in failed and not self._recorder.leads_no_more(host, send.place):
                self._recorder.unexpected(
                    self._session.name, f"it lost its producer id: {Refused(f'Produce to {send.place}', code)}"
                )
                self._identity = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        elif code not in TRY_AGAIN:
            raise Refused(f"Produce to {send.topic}-{send.partition}", code)
        elif self._acks != ALL and is_definite(send.error):
            send.outcome = FAIL
        failed.add(send.place)
