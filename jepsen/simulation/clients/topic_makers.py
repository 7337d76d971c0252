"""A client that creates, grows, configures and deletes topics in a simulated run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from jepsen.checker.operations import FAIL, INFO, OK, TopicChange, TopicSeen
from jepsen.simulation.clients.session import TRY_AGAIN, Refused, Session, Unanswered
from jepsen.simulation.recorder import Recorder
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.metadata_request import MetadataRequest

PASSING = {*TRY_AGAIN, ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_PARTITIONS}
"""Errors that a correct cluster may return: no broker is unfenced yet, the topic no longer exists, or its partitions
were already added by the same request, which reached the controller twice."""
TOPIC = 2
SET = 0
CONFIG_KEY = "max.message.bytes"
CONFIG_LEAST = 1_000_000


async def create_topic(session: Session, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> str:
    """Create a topic. Returns OK, FAIL or INFO; OK also if the topic exists, since an earlier try created it."""
    settings = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=settings)
    try:
        response = await session.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 2, 7)
    except Unanswered:
        return INFO
    code = response.topics[0].error_code
    if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        return OK
    if code not in PASSING:
        raise Refused(f"CreateTopics {name}", code)
    return INFO


class TopicMaker:
    """Creates one topic after the other, each retried until it exists. Some are then configured, grown or deleted."""

    def __init__(self, session: Session, recorder: Recorder, replicas: int) -> None:
        self._session = session
        self._recorder = recorder
        self._replicas = replicas
        self.stopping = trio.Event()

    async def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            number += 1
            await self._live(f"extra-{number}")
            await self._session.pause(2.0)
        self._session.close()

    def _change(self, topic: str, partitions: int = 0, config: dict[str, str] | None = None) -> TopicChange:
        return self._recorder.add(
            TopicChange(
                process=self._session.name,
                began=self._recorder.now(),
                topic=topic,
                partitions=partitions,
                config=config or {},
            )
        )

    async def _live(self, topic: str) -> None:
        chance = self._session.chance
        count = chance.randint(1, 3)
        made = self._change(topic, count)
        made.attempts = 0
        while made.outcome != OK and not self.stopping.is_set():
            made.attempts += 1
            if await create_topic(self._session, topic, count, self._replicas, {}) == OK:
                made.ok(self._recorder.now())
            await self._session.pause(0.3)
        if made.outcome != OK:
            return
        for number in range(chance.randint(0, 2)):
            await self._configure(topic, CONFIG_LEAST + number)
        if chance.random() < 0.5:
            await self._grow(topic, count + chance.randint(1, 3))
        if chance.random() < 0.5:
            await self._delete(topic)

    def _settle(self, change: TopicChange, what: str, code: int, done: tuple[int, ...] = (ErrorCode.NONE,)) -> None:
        change.ended = self._recorder.now()
        if code in done:
            change.outcome = OK
            return
        change.error = name_of(code)
        if code not in PASSING:
            change.outcome = FAIL
            raise Refused(f"{what} {change.topic}", code)

    async def _configure(self, topic: str, value: int) -> None:
        change = self._change(topic, config={CONFIG_KEY: str(value)})
        setting = AlterableConfig(name=CONFIG_KEY, config_operation=SET, value=str(value))
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[setting])]
        )
        try:
            response = await self._session.call(request, 0, 1)
        except Unanswered:
            return
        self._settle(change, "IncrementalAlterConfigs", response.responses[0].error_code)

    async def _grow(self, topic: str, count: int) -> None:
        change = self._change(topic, count)
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=count, assignments=None)], timeout_ms=5000
        )
        try:
            response = await self._session.call(request, 0, 3)
        except Unanswered:
            return
        self._settle(change, "CreatePartitions", response.results[0].error_code)

    async def _delete(self, topic: str) -> None:
        change = self._change(topic)
        by_state = self._session.chance.random() < 0.5
        names = {"topics": [DeleteTopicState(name=topic)]} if by_state else {"topic_names": [topic]}
        request = DeleteTopicsRequest(timeout_ms=5000, **names)
        try:
            response = await self._session.call(request, *((6, 6) if by_state else (1, 5)))
        except Unanswered:
            return
        self._settle(
            change,
            "DeleteTopics",
            response.responses[0].error_code,
            (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        )


async def see_topics(session: Session, recorder: Recorder) -> None:
    """After healing: record which topics exist, and how they are configured."""
    response = await _insist(session, MetadataRequest(topics=None), 1, 12)
    there = {topic.name: len(topic.partitions) for topic in response.topics}
    # Those have names alone.
    changed = {change.topic: change for change in recorder.history.of(TopicChange) if "/" not in change.topic}
    configs: dict[str, dict[str, str]] = {}
    present = [topic for topic in changed if topic in there]
    if present:
        resources = [
            DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=[CONFIG_KEY])
            for topic in present
        ]
        described = await _insist(session, DescribeConfigsRequest(resources=resources), 1, 4)
        configs = {
            result.resource_name: {each.name: each.value for each in result.configs} for result in described.results
        }
    for topic in changed:
        seen = TopicSeen(
            process=session.name,
            began=recorder.now(),
            topic=topic,
            partitions=there.get(topic, 0),
            config=configs.get(topic, {}),
        )
        seen.ok(recorder.now())
        recorder.add(seen)


async def _insist(session: Session, request: Any, low: int, high: int) -> Any:
    while True:
        try:
            return await session.call(request, low, high)
        except Unanswered:
            await session.pause(0.5)
