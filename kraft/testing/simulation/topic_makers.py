"""Somebody who makes, grows and deletes topics in a simulated run."""

from __future__ import annotations

import trio

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.testing.simulation.history import ACKNOWLEDGED, UNKNOWN, History, TopicLife
from kraft.testing.simulation.producers import TRY_AGAIN
from kraft.testing.simulation.session import Refused, Session, Unanswered

PASSING = {*TRY_AGAIN, ErrorCode.INVALID_REPLICATION_FACTOR}  # No broker is unfenced yet.


async def create_topic(session: Session, name: str, partitions: int) -> str:
    """Acknowledged or unknown; a topic that is there already was made by an earlier try."""
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)], timeout_ms=5000)
    try:
        response = await session.call(request, 2, 7)
    except Unanswered:
        return UNKNOWN
    code = response.topics[0].error_code
    if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        return ACKNOWLEDGED
    if code not in PASSING:
        raise Refused(f"CreateTopics {name}", code)
    return UNKNOWN


class TopicMaker:
    """One topic after the other, each made until that succeeds, perhaps grown, perhaps deleted."""

    def __init__(self, session: Session, history: History) -> None:
        self._session = session
        self._history = history
        self.stopping = trio.Event()

    async def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            number += 1
            topic = TopicLife(f"extra-{number}")
            self._history.topics.append(topic)
            await self._live(topic)
            await self._session.pause(2.0)

    async def _live(self, topic: TopicLife) -> None:
        chance = self._session.chance
        count = chance.randint(1, 3)
        while topic.created != ACKNOWLEDGED and not self.stopping.is_set():
            topic.created = await create_topic(self._session, topic.name, count)
            topic.creation_unanswered |= topic.created == UNKNOWN
            await self._session.pause(0.3)
        if topic.created != ACKNOWLEDGED:
            return
        topic.partitions_least = count
        if chance.random() < 0.5:
            await self._grow(topic, count + chance.randint(1, 3))
        if chance.random() < 0.5:
            await self._delete(topic)

    async def _grow(self, topic: TopicLife, count: int) -> None:
        request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=topic.name, count=count, assignments=None)], timeout_ms=5000)
        try:
            response = await self._session.call(request, 0, 3)
        except Unanswered:
            return
        code = response.results[0].error_code
        if code == ErrorCode.NONE:
            topic.partitions_least = count
        elif code not in PASSING:
            raise Refused(f"CreatePartitions {topic.name}", code)

    async def _delete(self, topic: TopicLife) -> None:
        topic.deleted = UNKNOWN
        by_state = self._session.chance.random() < 0.5
        names = {"topics": [DeleteTopicState(name=topic.name)]} if by_state else {"topic_names": [topic.name]}
        request = DeleteTopicsRequest(timeout_ms=5000, **names)
        try:
            response = await self._session.call(request, *((6, 6) if by_state else (1, 5)))
        except Unanswered:
            return
        code = response.responses[0].error_code
        if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            topic.deleted = ACKNOWLEDGED
        elif code not in PASSING:
            raise Refused(f"DeleteTopics {topic.name}", code)


async def check_topics(session: Session, history: History) -> None:
    """After healing: what was made is there with the partitions it was given, what was deleted is not."""
    while True:
        try:
            response = await session.call(MetadataRequest(topics=None), 1, 12)
            break
        except Unanswered:
            await session.pause(0.5)
    there = {topic.name: len(topic.partitions) for topic in response.topics}
    for topic in history.topics:
        if topic.created == ACKNOWLEDGED and topic.deleted is None and there.get(topic.name, 0) < topic.partitions_least:
            history.violation(f"topic {topic.name} was given {topic.partitions_least} partitions and has {there.get(topic.name, 0)}")
        if topic.deleted == ACKNOWLEDGED and topic.name in there and not topic.creation_unanswered:
            history.violation(f"topic {topic.name} was deleted and is there")
