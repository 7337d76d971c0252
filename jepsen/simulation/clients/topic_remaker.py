"""A client that creates a topic, lets clients use it, deletes it and recreates it under the same name, again and again.
The last incarnation stays.

Deletion is by id or by name. A deletion by name whose outcome is unknown may still delete a later incarnation: from
then on no incarnation is sure to stay. A deletion by id cannot do that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

import trio

from jepsen.checker.operations import INFO, OK, Commit, Poll, Send, TopicChange, TopicSeen
from jepsen.checker.rules.progress import HANDED_ON_ONCE_SECONDS
from jepsen.simulation.clients.incarnation_clients import IncarnationProducer, IncarnationReader, NameProducer
from jepsen.simulation.clients.incarnation_offsets import IncarnationCommitter
from jepsen.simulation.clients.incarnations import NAME, Client, Incarnation
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, Session, Unanswered
from jepsen.simulation.clients.topic_makers import create_topic
from jepsen.simulation.recorder import Recorder
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

LIFE_SECONDS: Final = (1.0, 5.0)
LINGER_SECONDS_MAX: Final = 3.0
LINGER_RATE: Final = 0.5
BY_NAME_RATE: Final = 0.3
VANISHED_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.25
GONE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
BY_NAME: Final = MetadataRequest(topics=[MetadataRequestTopic(name=NAME)], allow_auto_topic_creation=False)


class Surroundings(NamedTuple):
    """Functions of the harness. `session` opens a session under a client's name, `run_client` runs a client, and
    `taken_for` returns the topic id to which a host maps a name now."""

    session: Callable[[str], Session]
    run_client: Callable[[Callable[[], Awaitable[None]]], Awaitable[Any]]
    taken_for: Callable[[str, str], bytes | None]


class TopicRemaker:
    """Creates and deletes the incarnations. `configs` are the topic's configs in every incarnation."""

    def __init__(self, around: Surroundings, recorder: Recorder, replicas: int, configs: Mapping[str, str]) -> None:
        self._around = around
        self._session = around.session("remaker")
        self._recorder = recorder
        self._replicas = replicas
        self._configs = configs
        self.incarnations: list[Incarnation] = []
        self._by_name: list[Send | Commit] = []
        """Requests by topic name, in order."""
        self._offsets = count(1)
        self._identity: tuple[int, int] | None = None
        self.may_vanish = False
        """Whether a deletion by name may be in progress, of whichever topic has the name."""
        self._settled_at: int | None = None
        """Number of operations when the topic was decided to stay."""
        self.stopping = trio.Event()

    def settle(self) -> None:
        """Stop deleting: the current incarnation, or the next one to be created, is the last."""
        self._settled_at = len(self._recorder.history.operations)

    async def run(self, nursery: trio.Nursery) -> None:
        """Create incarnations until one is the last. Their clients run in `nursery`."""
        while not await self._one(nursery):
            pass
        self._session.close()

    async def _one(self, nursery: trio.Nursery) -> bool:
        """Create one incarnation and run its clients. Returns whether it is the last one."""
        incarnation = await self._make()
        producer = self._producer(incarnation)
        clients: list[Client] = [producer, *self._others(incarnation)]
        for client in clients:
            nursery.start_soon(self._around.run_client, client.run)
        if await self._stays(incarnation):
            if self.may_vanish:
                incarnation.give_up(clients)
            for client in clients:
                client.stopping.set()
            return True
        self._identity = producer.identity
        incarnation.doomed = True
        nursery.start_soon(self._end, incarnation, clients)
        await self._delete(incarnation)
        return False

    # --- life

    async def _make(self) -> Incarnation:
        """Retry until a new incarnation exists, and return it."""
        known = {each.topic_id: each for each in self.incarnations}
        while True:
            if await create_topic(self._session, NAME, 1, self._replicas, self._configs) == OK:
                found = await self.learn(self._session)
                if found is not None and found not in known:
                    break
                if found is not None:
                    await self._ask_to_delete(known[found], by_name=False)  # Who said that it was gone knew no better.
            await self._session.pause(0.3)
        incarnation = Incarnation(len(self.incarnations) + 1, found, self._around.taken_for)
        self.incarnations.append(incarnation)
        now = self._recorder.now()
        made = TopicChange(process=self._session.name, began=now, topic=incarnation.place[0], partitions=1)
        made.ok(now)
        self._recorder.add(made)
        for sent in self._by_name:
            self._may_land(sent, incarnation)
        return incarnation

    async def learn(self, session: Session) -> bytes | None:
        """The topic's id in some node's metadata; None if the node does not answer or has no such topic."""
        try:
            response = await session.call(BY_NAME, 10, 13)
        except Unanswered:
            return None
        return None if response.topics[0].error_code else bytes(response.topics[0].topic_id)

    def _client_session(self, incarnation: Incarnation, role: str) -> Session:
        return self._around.session(f"{NAME}-{incarnation.number} {role}")

    def _producer(self, incarnation: Incarnation) -> IncarnationProducer:
        return IncarnationProducer(
            self._client_session(incarnation, "producer"), self._recorder, incarnation, self._identity
        )

    def _others(self, incarnation: Incarnation) -> list[Client]:
        recorder, sent = self._recorder, partial(self._sent_by_name, incarnation)
        return [
            NameProducer(self._client_session(incarnation, "by name"), recorder, incarnation, sent),
            IncarnationReader(self._client_session(incarnation, "reader"), recorder, incarnation),
            self.committer(incarnation, "committer"),
        ]

    def committer(self, incarnation: Incarnation, role: str) -> IncarnationCommitter:
        sent = partial(self._sent_by_name, incarnation)
        return IncarnationCommitter(
            self._client_session(incarnation, role),
            self._recorder,
            incarnation,
            self._offsets,
            sent,
            lambda: self.may_vanish,
        )

    async def _stays(self, incarnation: Incarnation) -> bool:
        """After a while, return whether this incarnation is the last. The last one is used until it was seen to work
        and the client is stopped, or until it must have been deleted."""
        clock = self._session.world.clock
        await clock.sleep(self._session.chance.uniform(*LIFE_SECONDS))
        if self._settled_at is None:
            return False
        waited = 0.0
        while not self._works(incarnation):
            if self.may_vanish and waited >= VANISHED_SECONDS:
                return False
            await clock.sleep(LOOK_SECONDS)
            waited += LOOK_SECONDS
        await self.stopping.wait()
        return True

    def _works(self, incarnation: Incarnation) -> bool:
        """Whether a send and a poll that began after `settle` have succeeded."""
        fresh = [
            each
            for each in self._recorder.history.operations[self._settled_at :]
            if isinstance(each, Send | Poll) and each.place == incarnation.place
        ]
        return {type(each) for each in fresh if each.outcome == OK} == {Send, Poll}

    # --- death

    async def _end(self, incarnation: Incarnation, clients: list[Client]) -> None:
        """Stop the incarnation's clients, either immediately or after they have used the deleted topic for a while."""
        chance = self._session.chance
        await self._session.world.clock.sleep(
            chance.uniform(0.0, LINGER_SECONDS_MAX) if chance.random() < LINGER_RATE else 0.0
        )
        incarnation.give_up(clients)

    async def _delete(self, incarnation: Incarnation) -> None:
        change = TopicChange(
            process=self._session.name, began=self._recorder.now(), topic=incarnation.place[0], attempts=0
        )
        self._recorder.add(change)
        by_name = self._session.chance.random() < BY_NAME_RATE
        while True:
            change.attempts += 1
            began = self._recorder.now()
            code = await self._ask_to_delete(incarnation, by_name=by_name)
            if by_name and (code != ErrorCode.NONE or self._recorder.now() - began > HANDED_ON_ONCE_SECONDS):
                self.may_vanish = True
            if code == ErrorCode.NONE:
                change.ok(self._recorder.now())
            if code == ErrorCode.NONE or code in GONE:
                return
            await self._session.pause(0.3)

    async def _ask_to_delete(self, incarnation: Incarnation, *, by_name: bool) -> int | None:
        """Request the deletion. Returns the error code, or None without a response."""
        if by_name:
            request, versions = DeleteTopicsRequest(timeout_ms=5000, topic_names=[NAME]), (1, 5)
        else:
            request, versions = (
                DeleteTopicsRequest(timeout_ms=5000, topics=[DeleteTopicState(topic_id=incarnation.topic_id)]),
                (6, 6),
            )
        try:
            response = await self._session.call(request, *versions)
        except Unanswered:
            return None
        code = int(response.responses[0].error_code)
        if code not in (ErrorCode.NONE, *TRY_AGAIN):
            raise Refused(f"DeleteTopics {NAME}", code)
        return code

    # --- by name

    def _sent_by_name(self, incarnation: Incarnation, sent: Send | Commit) -> None:
        self._by_name.append(sent)
        for other in self.incarnations:
            if other is not incarnation:
                self._may_land(sent, other)

    def _may_land(self, sent: Send | Commit, other: Incarnation) -> None:
        """Record that a send or commit of unknown outcome may appear in another incarnation as well."""
        if sent.outcome == INFO:
            astray = dataclasses.replace(
                sent, process=f"{sent.process} astray", topic=other.place[0], ended=self._recorder.now(), error=""
            )
            self._recorder.add(astray)

    # --- afterwards

    def recreated(self, start: float, end: float) -> int:
        """How often the topic was recreated between two moments. An incarnation counts only if records of the one
        before it were acknowledged."""
        used = {send.topic for send in self._recorder.history.of(Send) if send.outcome == OK}
        made = {
            change.topic
            for change in self._recorder.history.of(TopicChange)
            if change.partitions and start <= change.began < end
        }
        pairs = zip(self.incarnations, self.incarnations[1:], strict=False)
        return sum(before.place[0] in used and after.place[0] in made for before, after in pairs)

    async def look(self, session: Session) -> Incarnation | None:
        """After healing: record which incarnation exists. Returns the last one; None if it was legally deleted."""
        if not self.incarnations:
            return None
        last = self.incarnations[-1]
        found = await self.learn(session)
        while found != last.topic_id and not self.may_vanish:
            await session.pause(0.3)
            found = await self.learn(session)
        if found != last.topic_id:
            self._recorder.add(TopicChange(process=session.name, began=self._recorder.now(), topic=last.place[0]))
        for each in self.incarnations:
            seen = TopicSeen(
                process=session.name,
                began=self._recorder.now(),
                topic=each.place[0],
                partitions=int(each.topic_id == found),
            )
            seen.ok(self._recorder.now())
            self._recorder.add(seen)
        return last if found == last.topic_id else None
