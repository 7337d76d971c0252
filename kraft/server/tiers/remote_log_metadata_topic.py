"""The topic `__remote_log_metadata` on the cluster's brokers: implements `kraft.remote.metadata_manager.MetadataTopic`.

Requests to a partition's leader go over the network, even if this broker is the leader. Records are written with
acks=all and read with read_committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kraft.common.config.node.internal_topics import internal_topic_setting
from kraft.common.errors import ApiError, KraftError
from kraft.common.internal_topics import REMOTE_LOG_METADATA_TOPIC
from kraft.common.listed_offsets import is_offset_answer
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import build_values_batch
from kraft.protocol.records.record_batch import batches
from kraft.remote.metadata_manager import ReadRecords
from kraft.remote.segment_copies import MetadataNotWritten
from kraft.replication.partition import READ_COMMITTED

if TYPE_CHECKING:
    from kraft.handlers.services import ControllerChannel
    from kraft.metadata.metadata_cache import MetadataCache
    from kraft.replication.topic_configs import ConfigView
    from kraft.server.broker_channel import BrokerChannel
    from kraft.world.ports import Clock

PARTITIONS: Final = "rlmm.config.remote.log.metadata.topic.num.partitions"
REPLICATION_FACTOR: Final = "rlmm.config.remote.log.metadata.topic.replication.factor"
ALL_REPLICAS: Final = -1
LATEST: Final = -1
READ_BYTES: Final = 32 << 10
"""Limit of the bytes of one read: some hundred records. Decoding more would block the loop."""
WRITE_MS_MAX: Final = 20_000
VISIBLE_SECONDS_MAX: Final = 5.0


class RemoteLogMetadataTopic:
    """The metadata topic, read and written through the leaders of its partitions. Owned by the broker's loop. A task
    may use it after its own call of `make_sure` has returned."""

    def __init__(
        self,
        metadata: MetadataCache,
        configs: ConfigView,
        channel: BrokerChannel,
        controller: ControllerChannel,
        clock: Clock,
    ) -> None:
        self._metadata = metadata
        self._configs = configs
        self._channel = channel
        self._controller = controller
        self._clock = clock

    @property
    def partition_count(self) -> int:
        """The number of the topic's partitions; 0 before the topic exists."""
        topic = self._metadata.image.topics.by_name(REMOTE_LOG_METADATA_TOPIC)
        return 0 if topic is None else len(topic.partitions)

    @property
    def topic_id(self) -> bytes | None:
        """See `MetadataTopic`."""
        topic = self._metadata.image.topics.by_name(REMOTE_LOG_METADATA_TOPIC)
        return None if topic is None else topic.id

    async def make_sure(self) -> None:
        """Create the topic if it does not exist, and check that it keeps its records for ever. Raises
        MetadataNotWritten."""
        if self.partition_count:
            config = self._configs.topic(self._metadata.image, REMOTE_LOG_METADATA_TOPIC).log
            if (config.cleanup_policy, config.retention_ms, config.retention_bytes) != (("delete",), -1, -1):
                raise MetadataNotWritten(
                    f"{REMOTE_LOG_METADATA_TOPIC} must keep all its records: set its cleanup.policy=delete, "
                    "retention.ms=-1, retention.bytes=-1"
                )
            return
        request = CreateTopicsRequest(topics=[self._wanted()], timeout_ms=int(VISIBLE_SECONDS_MAX * 1000))
        try:
            response = await self._controller.send(request)
        except ApiError as problem:
            raise MetadataNotWritten(f"{REMOTE_LOG_METADATA_TOPIC} cannot be created: {problem}") from problem
        for result in response.topics:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                why = result.error_message or name_of(result.error_code)
                raise MetadataNotWritten(f"{REMOTE_LOG_METADATA_TOPIC} cannot be created: {why}")
        if not await self._metadata.wait_until(lambda _: self.partition_count > 0, VISIBLE_SECONDS_MAX):
            raise MetadataNotWritten(f"{REMOTE_LOG_METADATA_TOPIC} is not visible yet")

    def _wanted(self) -> CreatableTopic:
        image = self._metadata.image
        brokers = sum(not each.fenced for each in image.cluster.brokers.values())
        config = self._configs.effective(image)
        set_here = config.optional_integer(REPLICATION_FACTOR)
        replicas = set_here or internal_topic_setting(config, "offsets.topic.replication.factor", brokers)
        settings = {
            "cleanup.policy": "delete",
            "min.insync.replicas": str(max(1, replicas - 1)),
            "remote.storage.enable": "false",
            "retention.bytes": "-1",
            "retention.ms": "-1",
            "unclean.leader.election.enable": "false",
        }
        return CreatableTopic(
            name=REMOTE_LOG_METADATA_TOPIC,
            num_partitions=config.integer(PARTITIONS),
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
        )

    async def append(self, partition: int, value: bytes) -> int:
        """See `MetadataTopic`."""
        batch = build_values_batch([value], self._clock.wall_ms())
        topic = TopicProduceData(
            name=REMOTE_LOG_METADATA_TOPIC,
            topic_id=self._topic_id(),
            partition_data=[PartitionProduceData(index=partition, records=batch)],
        )
        request = ProduceRequest(transactional_id=None, acks=ALL_REPLICAS, timeout_ms=WRITE_MS_MAX, topic_data=[topic])
        response = await self._ask(partition, request)
        answer = response.responses[0].partition_responses[0]
        _check(answer.error_code, partition, "written")
        return int(answer.base_offset)

    async def read(self, partition: int, offset: int) -> ReadRecords:
        """See `MetadataTopic`."""
        topic = FetchTopic(
            topic=REMOTE_LOG_METADATA_TOPIC,
            topic_id=self._topic_id(),
            partitions=[FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=READ_BYTES)],
        )
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=READ_BYTES, isolation_level=READ_COMMITTED, topics=[topic]
        )
        response = await self._ask(partition, request)
        _check(response.error_code, partition, "read")
        answer = response.responses[0].partitions[0]
        _check(answer.error_code, partition, "read")
        records: list[tuple[int, bytes]] = []
        next_offset = offset
        for batch in batches(answer.records or b"", partial_tail=True):
            batch.verify_crc()
            next_offset = batch.next_offset
            if not batch.is_control:
                records += [
                    (record.offset, bytes(record.value))
                    for record in batch.records()
                    if record.offset >= offset and record.value is not None
                ]
        return ReadRecords(records, next_offset)

    async def end_offset(self, partition: int) -> int:
        """See `MetadataTopic`. A new leader does not answer before its high watermark has reached its own epoch
        (KIP-207)."""
        asked = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=READ_COMMITTED,
            topics=[ListOffsetsTopic(name=REMOTE_LOG_METADATA_TOPIC, partitions=[asked])],
        )
        response = await self._ask(partition, request)
        answer = response.topics[0].partitions[0]
        _check(answer.error_code, partition, "asked for its end offset")
        if not is_offset_answer(answer.offset, LATEST):
            _check(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                partition,
                f"asked for its end offset (the leader returned {answer.offset})",
            )
        return int(answer.offset)

    def _topic_id(self) -> bytes:
        topic_id = self.topic_id
        if topic_id is None:
            raise MetadataNotWritten(f"there is no topic {REMOTE_LOG_METADATA_TOPIC}")
        return topic_id

    async def _ask(self, partition: int, request: Any) -> Any:
        leader = self._metadata.leader_of(REMOTE_LOG_METADATA_TOPIC, partition)
        if leader is None or leader[0] < 0:
            raise MetadataNotWritten(f"{REMOTE_LOG_METADATA_TOPIC}-{partition} has no leader")
        try:
            return await self._channel.send(leader[0], request)
        except (KraftError, TimeoutError, OSError) as problem:
            raise MetadataNotWritten(f"{REMOTE_LOG_METADATA_TOPIC}-{partition}: {problem}") from problem


def _check(code: int, partition: int, what: str) -> None:
    if code:
        raise MetadataNotWritten(f"{REMOTE_LOG_METADATA_TOPIC}-{partition} could not be {what}: {name_of(code)}")
