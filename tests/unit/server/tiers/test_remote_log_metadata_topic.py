"""The topic of the remote tier's metadata is made once, with all that keeps its records."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.internal_topics import REMOTE_LOG_METADATA_TOPIC
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.remote.segment_copies import MetadataNotWritten
from kraft.server.broker_channel import BrokerChannel
from kraft.server.tiers.remote_log_metadata_topic import RemoteLogMetadataTopic
from kraft.world.simulated import Universe
from tests.unit.server.brokers import Broker, broker, simulate

FOR_EVER = {"retention_ms": "-1", "retention_bytes": "-1"}


def topic_of(made: Broker) -> RemoteLogMetadataTopic:
    channel = BrokerChannel(made.world, "test", lambda broker_id: None, 1.0)
    server = made.server
    return RemoteLogMetadataTopic(server.metadata, server.configs, channel, made.controller, made.world.clock)


def test_the_remote_log_metadata_topic_is_created_without_retention() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=("rlmm.config.remote.log.metadata.topic.replication.factor=3",)) as made:

            def create(request: Any) -> CreateTopicsResponse:
                made.topic(REMOTE_LOG_METADATA_TOPIC, 50, **FOR_EVER)
                return CreateTopicsResponse(topics=[CreatableTopicResult(name=REMOTE_LOG_METADATA_TOPIC)])

            made.controller.answers[ApiKey.CREATE_TOPICS] = create
            topic = topic_of(made)
            assert topic.partition_count == 0
            await topic.make_sure()
            await topic.make_sure()
            assert topic.partition_count == 50
            (request,) = made.controller.asked
            (wanted,) = request.topics
            assert (wanted.name, wanted.num_partitions, wanted.replication_factor) == (REMOTE_LOG_METADATA_TOPIC, 50, 3)
            assert {each.name: each.value for each in wanted.configs} == {
                "cleanup.policy": "delete",
                "min.insync.replicas": "2",
                "remote.storage.enable": "false",
                "retention.bytes": "-1",
                "retention.ms": "-1",
                "unclean.leader.election.enable": "false",
            }

    simulate(play)


@pytest.mark.parametrize("configs", [{}, {**FOR_EVER, "retention_ms": "5"}, {**FOR_EVER, "cleanup_policy": "compact"}])
def test_a_remote_log_metadata_topic_with_retention_is_not_used(configs: dict[str, str]) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic(REMOTE_LOG_METADATA_TOPIC, **configs)
            with pytest.raises(MetadataNotWritten, match=r"must keep all its records: set its cleanup\.policy=delete"):
                await topic_of(made).make_sure()

    simulate(play)


def test_an_unreachable_leader_of_remote_metadata_is_named_in_the_error() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            topic = topic_of(made)
            with pytest.raises(MetadataNotWritten, match="has no leader"):
                await topic.end_offset(0)
            made.topic(REMOTE_LOG_METADATA_TOPIC, **FOR_EVER)
            for ask in (topic.end_offset(0), topic.read(0, 0), topic.append(0, b"x")):
                with pytest.raises(MetadataNotWritten, match="the address of broker 1 is unknown"):
                    await ask

    simulate(play)
