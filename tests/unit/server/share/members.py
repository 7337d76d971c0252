"""Members of share groups on the simulated network, who ask one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kraft.common.config.resource_type import ResourceType
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.share_acknowledge_request import (
    AcknowledgementBatch as AcknowledgeBatch,
)
from kraft.protocol.messages.share_acknowledge_request import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kraft.protocol.messages.share_fetch_request import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.protocol.records.record_batch import batches
from kraft.rpc_client.connection import ClientConnection
from kraft.world.simulated import Universe

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Range = tuple[int, int, Sequence[int]]
"""First and last offset, and the acknowledgement types."""


async def set_share_version(client: ClientConnection, level: int) -> None:
    """Finalize a level of the feature, which may be lower than the present one."""
    lower, raise_it = (
        FeatureUpdateKey(feature="share.version", max_version_level=to, upgrade_type=kind)
        for to, kind in ((0, 2), (level, 1))
    )
    for update in (lower, raise_it) if level else (lower,):
        response = await client.call(UpdateFeaturesRequest(feature_updates=[update]))
        assert response.error_code == 0, response


async def turn_on(client: ClientConnection, level: int = 1) -> None:
    """Raise share.version, and have the coordinator's topic created."""
    await set_share_version(client, level)
    await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))


async def configure(
    client: ClientConnection, name: str, settings: Mapping[str, str], kind: int = ResourceType.GROUP
) -> None:
    """Set configurations of a group, or of a resource of another kind."""
    configs = [AlterableConfig(name=key, config_operation=0, value=value) for key, value in settings.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == 0, response


class Member:
    """A member of a share group that reads one topic from one node."""

    def __init__(self, client: ClientConnection, member_id: str, group_id: str = "g", topic: str = "t") -> None:
        self.client = client
        self.member_id = member_id
        self.group_id = group_id
        self.topic = topic
        self.epoch = 0
        self.session_epoch = 0
        self.topic_id = bytes(16)
        self.partitions: list[int] = []

    async def beat(self) -> Any:
        """Send a heartbeat, and take over the assignment."""
        response = await self.client.call(
            ShareGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                member_epoch=self.epoch,
                subscribed_topic_names=[self.topic] if self.epoch == 0 else None,
            )
        )
        if response.error_code == 0:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.partitions = []
                for topic in response.assignment.topic_partitions:
                    self.topic_id, self.partitions = bytes(topic.topic_id), topic.partitions
        return response

    async def join(self, universe: Universe, partitions: int = 1) -> None:
        """Send heartbeats as told until the whole topic is assigned."""
        while len(self.partitions) < partitions:
            response = await self.beat()
            assert response.error_code == 0, response
            if len(self.partitions) < partitions:
                await universe.sleep(response.heartbeat_interval_ms / 1000)

    async def leave(self) -> Any:
        self.epoch = -1
        return await self.beat()

    async def fetch_whole(self, partition: int = 0, *acknowledged: Range, **fields: Any) -> Any:
        """Send a ShareFetch of one partition, and return the whole response."""
        values: dict[str, Any] = {
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "share_session_epoch": self.session_epoch,
        }
        wanted = FetchPartition(
            partition_index=partition,
            acknowledgement_batches=[
                AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
                for first, last, types in acknowledged
            ],
        )
        response = await self.client.call(
            ShareFetchRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                **{"topics": [FetchTopic(topic_id=self.topic_id, partitions=[wanted])], **values, **fields},
            )
        )
        if response.error_code == 0 and self.session_epoch >= 0:
            self.session_epoch += 1
        return response

    async def fetch(self, partition: int = 0, *acknowledged: Range, **fields: Any) -> list[tuple[int, int, int]]:
        """Acquire records of one partition. Returns first and last offset and delivery count of each range."""
        response = await self.fetch_whole(partition, *acknowledged, **fields)
        assert response.error_code == 0, response
        return acquired(response)

    async def acknowledge(self, *acknowledged: Range, partition: int = 0, **fields: Any) -> int:
        """Acknowledge records. Returns the error code of the partition, or of the whole request."""
        request = ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=fields.pop("share_session_epoch", self.session_epoch),
            topics=[
                AcknowledgeTopic(
                    topic_id=self.topic_id,
                    partitions=[
                        AcknowledgePartition(
                            partition_index=partition,
                            acknowledgement_batches=[
                                AcknowledgeBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
                                for first, last, types in acknowledged
                            ],
                        )
                    ],
                )
            ],
            **fields,
        )
        response = await self.client.call(request)
        if response.error_code:
            return int(response.error_code)
        self.session_epoch += 1
        return int(response.responses[0].partitions[0].error_code)


def acquired(response: Any) -> list[tuple[int, int, int]]:
    """The ranges of records that a response gives, with their delivery counts."""
    found = []
    for topic in response.responses:
        for part in topic.partitions:
            assert part.error_code == 0, part
            assert part.acknowledge_error_code == 0, part
            found += [(each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records]
    return found


def values(response: Any) -> list[bytes]:
    """The values of the record batches in a response."""
    return [
        bytes(record.value or b"")
        for topic in response.responses
        for part in topic.partitions
        for batch in batches(part.records or b"")
        for record in batch.records()
    ]
