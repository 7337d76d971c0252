"""AssignReplicasToDirs: a broker reports the log directory of each of its replicas (KIP-858).

A replica that is moved leaves an online directory, which keeps its log until the move is complete. A replica assigned
to another directory while its old directory is offline starts again without records. So it may no longer lead because
it was the last leader or the last in-sync replica. (Apache Kafka elects it, and the other replicas truncate their logs
to nothing.) It leaves the ISR, even as its only member. With ELR off, the partition then needs an unclean election. A
partition's sole replica keeps its claim, because there is no other replica to wait for.

No replica joins an ISR before its directory is known (`alter_partition`). So a member that starts again has not caught
up since.

A replica reported as LOST, whose known directory is offline, gets no other directory. It stays assigned to that
directory and keeps its claim: whether its records return depends on which disk returns.
"""

from __future__ import annotations

from typing import Any

from kraft.common.errors import ApiError
from kraft.controller.brokers.cluster_control import check_broker_epoch
from kraft.controller.controller_result import ControllerResult
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control.leader_and_isr import leader_and_isr_updates
from kraft.controller.replication_control.partition_change_builder import change_of
from kraft.metadata.image.partition_registration import LOST_DIRECTORY, NO_LEADER, directory_is_reserved
from kraft.metadata.image.topics_image import TopicIdPartition, TopicImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import assign_replicas_to_dirs_response as answer
from kraft.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from kraft.world.steps import Steps


def assign_replicas_to_dirs(
    view: ControllerView, request: AssignReplicasToDirsRequest
) -> Steps[ControllerResult[answer.AssignReplicasToDirsResponse]]:
    """Return the records and the response for AssignReplicasToDirs.

    A replica assigned to a directory that is not online leaves the ISR and leadership. Yields after each partition.
    Raises ApiError STALE_BROKER_EPOCH, or UNSUPPORTED_VERSION below 3.7-IV2.
    """
    if not view.capabilities.assigns_directories:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    check_broker_epoch(view, request.broker_id, request.broker_epoch)
    broker = view.image.cluster.brokers[request.broker_id]
    records: list[Any] = []
    offline: dict[TopicIdPartition, None] = {}
    response = answer.AssignReplicasToDirsResponse()
    for directory in request.directories:
        online = broker.has_online_directory(directory.id)
        topics = []
        for wanted in directory.topics:
            topic = view.image.topics.by_id.get(wanted.topic_id)
            partitions = []
            for data in wanted.partitions:
                code = _assign(view, request.broker_id, topic, data.partition_index, directory.id, records)
                if code == ErrorCode.NONE and not online:
                    offline[(wanted.topic_id, data.partition_index)] = None
                partitions.append(answer.PartitionData(partition_index=data.partition_index, error_code=code))
                yield None
            topics.append(answer.TopicData(topic_id=wanted.topic_id, partitions=partitions))
        response.directories.append(answer.DirectoryData(id=directory.id, topics=topics))
    records += yield from leader_and_isr_updates(view, offline, remove=request.broker_id)
    return ControllerResult(records, response)


def _assign(
    view: ControllerView, broker_id: int, topic: TopicImage | None, index: int, directory: bytes, records: list[Any]
) -> int:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    is_gone = _is_gone(view, broker_id, partition.directory(broker_id))
    if is_gone and directory == LOST_DIRECTORY:
        return ErrorCode.NONE
    is_online = view.image.cluster.brokers[broker_id].has_online_directory(directory)
    builder = change_of(view, topic.id, index, partition, comes_online=broker_id if is_online else NO_LEADER)
    builder.set_directory(broker_id, directory)
    if is_gone and directory != partition.directory(broker_id) and len(partition.replicas) > 1:
        builder.lost_replica = builder.unclean_shutdown_replica = broker_id
        builder.target_isr = tuple(replica for replica in partition.isr if replica != broker_id)
    record = builder.build()
    if record is not None:
        records.append(record)
    return ErrorCode.NONE


def _is_gone(view: ControllerView, broker_id: int, directory: bytes) -> bool:
    """Whether `directory` is a directory of the broker that is not online. A replica in it cannot have been moved."""
    return not directory_is_reserved(directory) and not view.image.cluster.brokers[broker_id].has_online_directory(
        directory
    )
