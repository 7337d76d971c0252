"""Reads the partitions of one Fetch: checks leadership and divergence, then reads records up to the fetcher's limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kraft.common.errors import ApiError, NotLeader
from kraft.handlers.errors import EXPECTED, code_of
from kraft.handlers.fetch.encoder import FetchedPartition, RemoteFetch
from kraft.handlers.registry import RequestContext
from kraft.network.reply import FileRange
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.replication.partition import READ_COMMITTED
from kraft.replication.replica_selector import preferred_replica
from kraft.replication.sessions.fetch_session import TOPIC_ID_VERSION, CachedPartition, PartitionKey
from kraft.security.acls import Operation, ResourceKind

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices
    from kraft.replication.partition import Partition
    from kraft.security.authorizer import Authorizer

RACK_VERSION = 11
REPLICA_STATE_VERSION = 15
_NOT_THERE = frozenset(
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
)


NO_FAILURE = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
"""Errors that are not counted as failed fetches, as in Kafka: they are transient, or the client has to change its
request."""


class PartitionReader:
    """Reads the partitions of one Fetch. `replica_id` is the follower's id, or negative for a consumer."""

    __slots__ = (
        "_authorizer",
        "_broker",
        "_by_id",
        "_context",
        "_isolation",
        "_rack",
        "_replica_epoch",
        "acknowledges",
        "is_follower",
        "replica_id",
    )

    def __init__(self, request: FetchRequest, context: RequestContext, broker: BrokerServices) -> None:
        self._context = context
        self._broker = broker
        self._authorizer = broker.authorizer
        self._by_id = context.api_version >= TOPIC_ID_VERSION
        state = request.replica_state if context.api_version >= REPLICA_STATE_VERSION else None
        self.replica_id = request.replica_id if state is None else state.replica_id
        self.is_follower = self.replica_id >= 0
        self._replica_epoch = -1 if state is None else state.replica_epoch
        self._rack = request.rack_id if self.replica_id < 0 and context.api_version >= RACK_VERSION else None
        self._isolation = request.isolation_level
        self.acknowledges = self.is_follower
        """Whether a read acknowledges records up to the fetch offset. False once the request was parked, because its
        offsets may be outdated."""

    @property
    def rights(self) -> object:
        """The client's permissions. The same object as long as they have not changed."""
        return None if self._authorizer is None else self._authorizer.access_of(self._context)

    @property
    def replica_epoch(self) -> int:
        """The follower's broker epoch; -1 if the request has none."""
        return self._replica_epoch

    def waits_for_markers(self, partitions: Iterable[Partition]) -> bool:
        """Whether even a small append may release many records: a marker ends a transaction behind which a
        read_committed consumer cannot read yet."""
        return self._isolation == READ_COMMITTED and any(
            partition.log.first_unstable_offset is not None for partition in partitions
        )

    def find(self, key: PartitionKey) -> Partition | None:
        """The partition; None if this broker no longer has it."""
        try:
            return self._partition(key)
        except EXPECTED:
            return None

    def _partition(self, key: PartitionKey) -> Partition:
        replicas = self._broker.replicas
        if self._by_id:
            name = replicas.topic_names.get(key.topic_id)
            if name is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "")
        else:
            name = key.topic
        if self._authorizer is not None:
            self._check_permission(self._authorizer, name)
        return replicas.partition(name, key.partition)

    def _check_permission(self, authorizer: Authorizer, topic: str) -> None:
        """Check the permission: ClusterAction for a follower, Read on the topic for other clients. Raises ApiError
        TOPIC_AUTHORIZATION_FAILED."""
        access = authorizer.access_of(self._context)
        if not (
            access.allows(Operation.CLUSTER_ACTION, ResourceKind.CLUSTER)
            if self.is_follower
            else access.allows(Operation.READ, ResourceKind.TOPIC, topic)
        ):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def read(self, wanted: CachedPartition, bytes_max: int, first: bool) -> FetchedPartition:
        """Read one partition for the response. With `first` it returns at least one batch if there is any, however
        large."""
        result = FetchedPartition(wanted.key)
        partition = None
        try:
            partition = self._partition(wanted.key)
            partition.traffic.fetches += 1
            if self._rack is None:
                partition.check_leader(wanted.current_leader_epoch)
            else:  # KIP-392: a consumer that can be told of another replica may also read from one.
                partition.check_epoch(wanted.current_leader_epoch)
                result.preferred_read_replica = self._preferred(partition, wanted.fetch_offset)
            if wanted.last_fetched_epoch >= 0:
                result.diverging = _divergence(partition, wanted)
            if result.diverging is None and result.preferred_read_replica < 0:
                self._read_records(partition, wanted, bytes_max, first, result)
            log = partition.log
            result.high_watermark = log.high_watermark
            result.last_stable_offset = log.last_stable_offset
            result.log_start_offset = log.log_start_offset
        except EXPECTED as problem:
            result.error_code = code_of(problem)
            if partition is not None and result.error_code not in NO_FAILURE:
                partition.traffic.failed_fetches += 1
            if result.error_code in _NOT_THERE:
                result.aborted = ()
            if isinstance(problem, NotLeader):
                result.leader = (problem.leader_id, problem.leader_epoch)
            else:
                self._broker.replicas.handle_storage_error(
                    problem,
                    self._topic_name(wanted.key),
                    wanted.key.partition,
                    "read",
                    None if partition is None else partition.log,
                )
        return result

    def _read_records(
        self, partition: Partition, wanted: CachedPartition, bytes_max: int, first: bool, result: FetchedPartition
    ) -> None:
        """Read records into `result`. Raises ApiError, NotLeader, StorageError."""
        try:
            data = partition.read(
                wanted.fetch_offset, bytes_max, self._isolation, min_one_message=first, replica_id=self.replica_id
            )
        except ApiError as problem:
            if problem.code != ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE or self.is_follower:
                raise
            if self._broker.replicas.remote is None:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition}: this broker has no remote tier") from None
            result.remote = RemoteFetch(partition, wanted.fetch_offset, bytes_max)
            return
        if self.acknowledges:
            self._acknowledge(partition, wanted)
        result.ranges = [FileRange(part.file, part.position, part.size, part) for part in data.slices]
        result.size = data.size
        partition.traffic.bytes_out[self.is_follower] += data.size
        if self._isolation == READ_COMMITTED:
            bound = partition.log.last_stable_offset
            result.aborted = [
                (aborted.producer_id, aborted.first_offset)
                for aborted in partition.log.aborted_transactions(wanted.fetch_offset, bound, data)
            ]

    async def read_remote(self, result: FetchedPartition, bytes_max: int, first: bool) -> None:
        """Read records of the remote tier, or the error, into `result`. `first` is as in `read`."""
        wanted, remote = result.remote, self._broker.replicas.remote
        assert wanted is not None
        assert remote is not None
        result.remote = None
        try:
            found = await remote.reads.fetch(
                wanted.partition,
                wanted.offset,
                min(wanted.max_bytes, bytes_max),
                min_one_message=first,
                committed=self._isolation == READ_COMMITTED,
            )
        except EXPECTED as problem:
            result.error_code = code_of(problem)
            return
        result.records, result.size, result.aborted = found.records, len(found.records), found.aborted
        wanted.partition.traffic.bytes_out[self.is_follower] += result.size

    def _topic_name(self, key: PartitionKey) -> str:
        return self._broker.replicas.topic_names.get(key.topic_id, "") if self._by_id else key.topic

    def _preferred(self, partition: Partition, offset: int) -> int:
        """The id of the follower that the consumer should read from (KIP-392); -1 for none."""
        broker, followers = self._broker, partition.followers
        if not self._rack or followers is None or not broker.replicas.serving.sends_consumers_to_followers:
            return -1
        racks = {node.id: node.rack for node in broker.metadata.live_brokers(self._context.peer.listener)}
        return preferred_replica(self._rack, partition.node_id, racks, followers, offset)

    def _acknowledge(self, partition: Partition, wanted: CachedPartition) -> None:
        """Record a follower's fetch offset: the follower has every record before it."""
        self._broker.replicas.follower_fetched(
            partition,
            self.replica_id,
            wanted.fetch_offset,
            wanted.log_start_offset,
            self._replica_epoch,
            knows_epoch=wanted.current_leader_epoch >= 0,
        )


def _divergence(partition: Partition, wanted: CachedPartition) -> tuple[int, int] | None:
    """The (epoch, end offset) at which the follower's log diverges from this one (KIP-595); None if it does not. Raises
    ApiError OFFSET_OUT_OF_RANGE if this log does not go back that far."""
    end_offset, epoch = partition.log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch == -1:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition}: epoch {wanted.last_fetched_epoch} is older than the log"
        )
    if wanted.fetch_offset < partition.log.log_start_offset:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition}: offset {wanted.fetch_offset} is before {partition.log.log_start_offset}",
        )
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return epoch, end_offset
    return None
