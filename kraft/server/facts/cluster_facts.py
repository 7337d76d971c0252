"""Facts for a verdict on the cluster's health, gathered from the metadata image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from kraft_http.ports import (
    BrokerFacts,
    ClusterFacts,
    DrainFacts,
    InternalTopicFacts,
    LeavePlan,
    PartitionFacts,
    ReassignmentFacts,
)

from kraft.common.broker_state import ACTIVE, DECOMMISSION
from kraft.common.config.node.internal_topics import internal_topic_setting
from kraft.common.ids import TopicPartition
from kraft.common.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kraft.controller.replication_control.broker_states import draining, planned
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.metadata.image.topics_image import TopicImage
from kraft.replication.topic_configs import ConfigView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraft.common.config.node.node_config import NodeConfig
    from kraft.metadata.image.metadata_image import MetadataImage
    from kraft.server.node import Node

_COORDINATORS_TOPICS: Final = {
    OFFSETS_TOPIC: ("offsets.topic.replication.factor", None),
    TRANSACTION_STATE_TOPIC: ("transaction.state.log.replication.factor", "transaction.state.log.min.isr"),
}
"""The keys with the replication factor and the min.insync.replicas of new internal topics."""
SLICE_PARTITIONS: Final = 200
"""Partitions examined between two yields (about 0.2 ms)."""


async def gather_facts(node: Node) -> ClusterFacts:
    """Gather the facts from one metadata image. Other tasks run between slices."""
    image, offset = node.shared.loader.image, node.shared.loader.published_offset
    view = ConfigView(node.config)
    impaired: list[PartitionFacts] = []
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    partitions = topics = seen = 0
    for topic in image.topics.topics_by_name():
        topics += 1
        partitions += len(topic.partitions)
        impaired += _impaired(topic, view.topic(image, topic.name).min_insync_replicas)
        for partition in topic.partitions.values():
            leaders[partition.leader] = leaders.get(partition.leader, 0) + 1
            for broker_id in partition.replicas:
                replicas[broker_id] = replicas.get(broker_id, 0) + 1
        seen += len(topic.partitions) + 1
        if seen >= SLICE_PARTITIONS:
            seen = 0
            await trio.lowlevel.checkpoint()
    leader = node.shared.raft.leader_and_epoch
    free, total = disk_room(node)
    return ClusterFacts(
        controller_id=leader.leader_id,
        controller_epoch=leader.epoch,
        voters=tuple(sorted(node.shared.raft.voters.ids)),
        brokers=tuple(
            _broker_facts(image, broker, node.config.inter_broker_listener_name, leaders, replicas)
            for broker in image.cluster.brokers.values()
        ),
        topics_count=topics,
        partitions_count=partitions,
        impaired=tuple(impaired),
        internal_topics=tuple(_internal_topics(image, node.config, view)),
        reassignments=_reassignments(image),
        offline_log_dirs=offline_log_dirs(node),
        disk_free_bytes=free,
        disk_total_bytes=total,
        metadata_offset=offset,
    )


def _broker_facts(
    image: MetadataImage, broker: BrokerRegistration, listener: str, leaders: dict[int, int], replicas: dict[int, int]
) -> BrokerFacts:
    endpoint = broker.endpoint(listener) or next(iter(broker.endpoints), None)
    desired_state = image.configs.desired_state(broker.id)
    return BrokerFacts(
        node_id=broker.id,
        host=endpoint.host if endpoint else "",
        port=endpoint.port if endpoint else 0,
        rack=broker.rack,
        fenced=broker.fenced,
        shutting_down=broker.in_controlled_shutdown,
        epoch=broker.epoch,
        desired_state=desired_state,
        leaders=leaders.get(broker.id, 0),
        replicas=replicas.get(broker.id, 0),
        draining=_drain_facts(image, broker.id) if desired_state == DECOMMISSION else None,
    )


def _drain_facts(image: MetadataImage, broker_id: int) -> DrainFacts:
    left = draining(image, broker_id)
    return DrainFacts(
        moving=left.moving,
        blocked=tuple(sorted(f"{image.topics.by_id[topic_id].name}-{index}" for topic_id, index in left.blocked)),
    )


def leave_plan(image: MetadataImage, broker_id: int) -> LeavePlan:
    """See `AdminPort`."""
    names = {topic_id: topic.name for topic_id, topic in image.topics.by_id.items()}
    moves, blocked = planned(image, broker_id)
    return LeavePlan(
        moves=tuple(
            sorted(
                (TopicPartition(names[topic_id], index), target, leader) for (topic_id, index), target, leader in moves
            )
        ),
        blocked=tuple(sorted(f"{names[topic_id]}-{index}" for topic_id, index in blocked)),
    )


def _reassignments(image: MetadataImage) -> tuple[ReassignmentFacts, ...]:
    found = []
    for topic_id, index in image.topics.reassigning:
        topic = image.topics.by_id[topic_id]
        partition = topic.partitions[index]
        found.append(
            ReassignmentFacts(
                topic=topic.name,
                partition=index,
                leader=partition.leader,
                replicas=partition.replicas,
                adding=partition.adding_replicas,
                removing=partition.removing_replicas,
                in_sync=partition.isr,
            )
        )
    return tuple(sorted(found, key=lambda move: (move.topic, move.partition)))


def _internal_topics(image: MetadataImage, config: NodeConfig, view: ConfigView) -> Iterator[InternalTopicFacts]:
    """The replication factors of the coordinators' topics. Only brokers that may get more replicas are counted."""
    brokers = sum(
        not each.fenced and image.configs.desired_state(each.id) == ACTIVE for each in image.cluster.brokers.values()
    )
    for name, (copies, in_sync) in _COORDINATORS_TOPICS.items():
        topic = image.topics.by_name(name)
        if topic is None or not topic.partitions:
            continue
        wanted = min(brokers, internal_topic_setting(config, copies, brokers))
        minimum = view.topic(image, name).min_insync_replicas
        yield InternalTopicFacts(
            topic=name,
            replicas=min(len(partition.replicas) for partition in topic.partitions.values()),
            replicas_wanted=wanted,
            min_in_sync=minimum,
            min_in_sync_wanted=minimum if in_sync is None else internal_topic_setting(config, in_sync, brokers),
        )


def _impaired(topic: TopicImage, min_in_sync: int) -> list[PartitionFacts]:
    return [
        PartitionFacts(
            topic=topic.name,
            partition=index,
            leader=partition.leader,
            replicas=partition.replicas,
            in_sync=partition.isr,
            min_in_sync=min(min_in_sync, len(partition.replicas)),
        )
        for index, partition in topic.partitions.items()
        if partition.leader < 0 or len(partition.isr) < len(partition.replicas)
    ]


def offline_log_dirs(node: Node) -> tuple[str, ...]:
    if node.broker is None:
        return ()
    logs = node.broker.replicas.logs
    online = {directory.path for directory in logs.online()}
    return tuple(directory.path for directory in logs.directories if directory.path not in online)


def disk_room(node: Node) -> tuple[int | None, int | None]:
    """The free and total bytes of this node's fullest log directory."""
    files = node.world.files
    rooms = []
    for path in node.config.log_dirs:
        try:
            rooms.append((files.free_bytes(path), files.total_bytes(path)))
        except OSError:
            continue  # A directory that cannot be asked is among the offline ones.
    return min(rooms, default=(None, None), key=lambda room: room[0] or 0)
