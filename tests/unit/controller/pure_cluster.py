"""A cluster that is only an image: decisions are applied at once."""

from __future__ import annotations

import random
from typing import Any, TypeVar

from kraft.common.config.node.node_loader import load_node_config
from kraft.controller.brokers import cluster_control
from kraft.controller.controller_result import ControllerResult, Decision
from kraft.controller.controller_view import ControllerSettings, ControllerView
from kraft.controller.controls.config_table import ConfigTable
from kraft.controller.replication_control import leader_and_isr
from kraft.controller.replication_control.create_topics import create_topics
from kraft.controller.replication_control.replica_placer import StripedReplicaPlacer
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.world.steps import at_once
from tests.unit.controller.harness import CLUSTER, registration

T = TypeVar("T")

TABLE = ConfigTable(load_node_config())


class PureCluster:
    def __init__(self, *brokers: int, elr: bool = False, metadata_version: int = 30, **settings: Any) -> None:
        self.settings = ControllerSettings(**{"node_id": 1, "cluster_id": CLUSTER, **settings})
        self.image = MetadataImage()
        self.held: frozenset[int] = frozenset()
        self._serial = 100
        self._random = random.Random(1)
        self.replay(FeatureLevelRecord(name="metadata.version", feature_level=metadata_version))
        if elr:
            self.replay(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
        for broker_id in brokers:
            self.register(broker_id)
            self.unfence(broker_id)

    @property
    def view(self) -> ControllerView:
        return ControllerView(self.image, self.settings, TABLE, self.held)

    def replay(self, *records: Any) -> None:
        self.image, _ = self.image.replay_batch(records)

    def apply(self, decision: Decision[T]) -> T:
        result = decision if isinstance(decision, ControllerResult) else at_once(decision)
        self.replay(*result.records)
        return result.response

    def register(
        self, broker_id: int, *, incarnation: int = 1, session: bool = False, version: int = 4, **fields: Any
    ) -> int:
        self._serial += 1
        result = at_once(
            cluster_control.register_broker(
                self.view,
                registration(broker_id, incarnation=incarnation, **fields),
                api_version=version,
                next_offset=self._serial,
                kraft_version=1,
                session_is_valid=lambda broker, epoch: session,
            )
        )
        return self.apply(result).broker_epoch

    def epoch(self, broker_id: int) -> int:
        return self.image.cluster.brokers[broker_id].epoch

    def unfence(self, broker_id: int) -> None:
        self.replay(*at_once(leader_and_isr.broker_unfenced(self.view, broker_id, self.epoch(broker_id))))

    def fence(self, broker_id: int) -> None:
        self.replay(*at_once(leader_and_isr.broker_fenced(self.view, broker_id)))

    def configure(self, resource_type: int, name: str, **configs: str) -> None:
        self.replay(
            *(
                ConfigRecord(resource_type=resource_type, resource_name=name, name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            )
        )

    def ask_for(
        self, *topics: CreatableTopic, validate_only: bool = False, context: ControllerRequestContext | None = None
    ) -> ControllerResult[CreateTopicsResponse]:
        def new_id() -> bytes:
            return self._random.randbytes(16)

        request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
        return at_once(
            create_topics(
                self.view, request, context or ControllerRequestContext(7), StripedReplicaPlacer(self._random), new_id
            )
        )

    def topic(self, name: str, *assignments: list[int], **configs: str) -> bytes:
        """Create a topic with one partition for each replica list; returns its id."""
        listed = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in enumerate(assignments)
        ]
        answer = self.apply(
            self.ask_for(CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=listed))
        )
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message
        self.configure(2, name, **configs)
        return self.image.topics.id_by_name[name]

    def partition(self, name: str, index: int = 0) -> PartitionRegistration:
        topic = self.image.topics.by_name(name)
        assert topic is not None
        return topic.partitions[index]
