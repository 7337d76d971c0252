"""The group coordinator: one method per group API, over the shards of `__consumer_offsets` that this node leads.

It finds the shard, makes the checks that need no group (ids, timeouts, existing topics), and puts errors where each
version of a response has a field for them. The rules of groups are in `group/`. The APIs only consumer groups have
(KIP-848) are in `consumer_group_service.py`. Callers are already authorized.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from itertools import chain

import trio

from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.common.internal_topics import OFFSETS_TOPIC
from kraft.coordinator.coordinator_log import CoordinatorLog
from kraft.coordinator.errors import append_error
from kraft.coordinator.group.activity import GroupActivity, GroupChange
from kraft.coordinator.group.caller import Caller
from kraft.coordinator.group.classic.heartbeat import heartbeat
from kraft.coordinator.group.classic.join import join, member_id_suffix
from kraft.coordinator.group.classic.leave import BATCH_VERSION as LEAVE_BATCH_VERSION
from kraft.coordinator.group.classic.leave import leave, leaving_members
from kraft.coordinator.group.classic.rebalance import join_error
from kraft.coordinator.group.classic.sync import abandon_assignment, sync
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.consumer.settings import ConsumerGroupConfigs
from kraft.coordinator.group.deletion import delete_offsets, forgetting
from kraft.coordinator.group.describe import describe_group, group_filter, list_groups
from kraft.coordinator.group.draft import GroupDraft
from kraft.coordinator.group.group_shard import GroupShard
from kraft.coordinator.group.offsets.offset_commit import commit_offsets
from kraft.coordinator.group.offsets.offset_expiry import expiring
from kraft.coordinator.group.offsets.offset_fetch import fetch_offsets, group_error, requested_groups, response_of
from kraft.coordinator.group.offsets.txn_offset_commit import TxnOffsetCommitAnswers, commit_transactional_offsets
from kraft.coordinator.group.service import offset_requests
from kraft.coordinator.group.service.committed_offsets import CommittedOffsets
from kraft.coordinator.group.service.consumer_group_jobs import ConsumerGroupJobs, GroupJob
from kraft.coordinator.group.service.consumer_group_service import ConsumerGroupService
from kraft.coordinator.group.service.deleting_groups import delete_requested_groups
from kraft.coordinator.group.service.share_group_service import EndOffsets, ShareGroupService
from kraft.coordinator.group.service.streams_group_service import StreamsGroupService
from kraft.coordinator.group.shard_state import GroupShardState, OffsetAndMetadata
from kraft.coordinator.group.share.heartbeat import InitializeStates
from kraft.coordinator.group.share.settings import ShareMembershipConfigs
from kraft.coordinator.group.share.state_changes import forgetting as forgetting_states
from kraft.coordinator.group.streams.settings import StreamsGroupConfigs
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.coordinator.partitioner import partition_for
from kraft.coordinator.runtime import CoordinatorRuntime
from kraft.coordinator.shard import Marker, Producer
from kraft.coordinator.share.share_states import ShareStates
from kraft.coordinator.transaction.transaction_partitions import TransactionPartitions, TransactionSupport
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_groups_response import DeleteGroupsResponse
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.heartbeat_response import HeartbeatResponse
from kraft.protocol.messages.join_group_request import JoinGroupRequest
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest
from kraft.protocol.messages.leave_group_response import LeaveGroupResponse
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.list_groups_response import ListGroupsResponse
from kraft.protocol.messages.offset_commit_request import OffsetCommitRequest
from kraft.protocol.messages.offset_commit_response import OffsetCommitResponse
from kraft.protocol.messages.offset_delete_request import OffsetDeleteRequest
from kraft.protocol.messages.offset_delete_response import OffsetDeleteResponse
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup
from kraft.protocol.messages.sync_group_request import SyncGroupRequest
from kraft.protocol.messages.sync_group_response import SyncGroupResponse
from kraft.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kraft.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from kraft.storage.producers.verification import NOT_REQUIRED, Verification
from kraft.world.ports import World
from kraft.world.turns import TURN_ITEMS, Turn, in_turns

NULLABLE_PROTOCOL_VERSION = 7
MANDATORY_PROTOCOL_VERSION = 5

PARTITIONS_A_WRITE = 1100
"""Partitions and topics of one OffsetCommit or OffsetDelete that are decided in one step. More are decided in
portions."""
MEMBERS_A_WRITE = 500
ABORTABLE_COMMIT_VERSION = 4
IMPLICIT_COMMIT_VERSION = 5
"""From this version on a TxnOffsetCommit adds the group's partition to its transaction."""
GROUPS_A_TURN = 500
"""Groups looked up between two yields."""
MEMBERS_A_GROUP = 10
"""Describing this number of members takes as long as looking up one group."""


def lacks_protocol(request: SyncGroupRequest, version: int) -> bool:
    """Whether a SyncGroup lacks the protocol fields that newer versions require."""
    return version >= MANDATORY_PROTOCOL_VERSION and (request.protocol_type is None or request.protocol_name is None)


class GroupCoordinator:
    """The group coordinator of a broker. `partition_count` returns the number of partitions that `__consumer_offsets`
    has or would be created with."""

    def __init__(
        self,
        *,
        config: GroupCoordinatorConfig,
        log: CoordinatorLog,
        topics: TopicDirectory,
        transactions: TransactionPartitions,
        consumer_configs: ConsumerGroupConfigs,
        share_configs: ShareMembershipConfigs,
        streams_configs: StreamsGroupConfigs,
        partition_count: Callable[[], int],
        share_states: ShareStates,
        end_offsets: EndOffsets,
        world: World,
    ) -> None:
        """`end_offsets` returns the high watermarks of partitions, as far as their leaders answer."""
        self._config = config
        self._log = log
        self._transactions = transactions
        self.topics = topics
        self._partition_count = partition_count
        self._world = world
        self._committed = CommittedOffsets()
        self.activity = GroupActivity()
        self._jobs = ConsumerGroupJobs(
            topics, world, lambda *write: self.runtime.write(*write), lambda: self.runtime.set_aside
        )
        self.runtime: CoordinatorRuntime[GroupShardState] = CoordinatorRuntime(
            OFFSETS_TOPIC,
            GroupShard(config, topics, consumer_configs, share_configs, streams_configs),
            log=log,
            world=world,
            write_timeout_ms=config.offsets_commit_timeout_ms,
            perform=self._perform,
        )
        self.consumer = ConsumerGroupService(config, topics, self.runtime, self.partition_for, world.random)
        self.streams = StreamsGroupService(self.runtime, self.partition_for, streams_configs)
        self.share = ShareGroupService(topics, self.runtime, self.partition_for, share_states, end_offsets)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as expiry_nursery:
            expiry_nursery.start_soon(self._expire)
            await expiry_nursery.start(self._jobs.run)
            await expiry_nursery.start(self.share.run)
            await self.runtime.run(task_status)

    def _perform(self, partition: int, leader_epoch: int, effect: GroupChange | GroupJob | InitializeStates) -> None:
        """Handle an effect whose operation is committed."""
        if isinstance(effect, GroupChange):
            self.activity.hear(partition, effect, self._world.clock.now())
        elif isinstance(effect, InitializeStates):
            self.share.perform(partition, effect)
        else:
            self._jobs.perform(partition, leader_epoch, effect)

    async def _expire(self) -> None:
        walk = expiring(self.topics)
        while True:
            await self._world.clock.sleep(self._config.offsets_retention_check_interval_ms / 1000)
            self.runtime.walk_all(walk)

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` whose leader coordinates the group."""
        return partition_for(group_id, self._partition_count())

    def on_election(self, partition: int, leader_epoch: int) -> None:
        self.runtime.on_election(partition, leader_epoch)

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        self.activity.forget(partition)
        self.runtime.on_resignation(partition, leader_epoch)

    def on_topics_deleted(self, topics: Collection[tuple[str, bytes]]) -> None:
        """Delete the offsets committed for deleted topics (name, id), and the topics' entries in share groups."""
        offsets, topic_ids = forgetting(topics), frozenset(topic_id for _, topic_id in topics)
        self.runtime.walk_all(lambda state: chain(offsets(state), forgetting_states(topic_ids, state)))

    # Membership.

    async def join_group(self, request: JoinGroupRequest, caller: Caller) -> JoinGroupResponse:
        response = await self._join_group(request, caller)
        if caller.api_version < NULLABLE_PROTOCOL_VERSION:
            response.protocol_name = response.protocol_name or ""
        else:
            response.protocol_name = response.protocol_name or None
        return response

    async def _join_group(self, request: JoinGroupRequest, caller: Caller) -> JoinGroupResponse:
        if not request.group_id:
            return join_error(ErrorCode.INVALID_GROUP_ID, request.member_id)
        if (
            not self._config.group_min_session_timeout_ms
            <= request.session_timeout_ms
            <= self._config.group_max_session_timeout_ms
        ):
            return join_error(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        suffix = "" if request.member_id else member_id_suffix(self._world.random.uuid("group-member"))
        try:
            response: JoinGroupResponse = await self._write(
                request.group_id, lambda draft: join(draft, request, caller, suffix)
            )
        except ApiError as refused:
            return join_error(refused.code)
        return response

    async def sync_group(self, request: SyncGroupRequest, caller: Caller) -> SyncGroupResponse:
        if lacks_protocol(request, caller.api_version):
            return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not request.group_id:
            return SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        try:
            response: SyncGroupResponse = await self._write(request.group_id, lambda draft: sync(draft, request))
        except ApiError as refused:
            code = refused.code
            # If the shard has left this broker, the waiting members already have its error.
            with suppress(ApiError):
                self.runtime.submit(
                    self.partition_for(request.group_id), lambda draft: abandon_assignment(draft, request, code)
                )
            return SyncGroupResponse(error_code=code)
        return response

    async def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> HeartbeatResponse:
        if not request.group_id:
            return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        try:
            response: HeartbeatResponse = await self._write(request.group_id, lambda draft: heartbeat(draft, request))
        except ApiError as refused:
            # While the group is being loaded no session runs, so no member's session can expire.
            return HeartbeatResponse(
                error_code=ErrorCode.NONE if refused.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else refused.code
            )
        return response

    async def leave_group(self, request: LeaveGroupRequest, caller: Caller) -> LeaveGroupResponse:
        if not request.group_id:
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        leaving = leaving_members(request, caller.api_version)
        response = LeaveGroupResponse()
        try:
            for start in range(0, len(leaving) or 1, MEMBERS_A_WRITE):
                if start:
                    await trio.lowlevel.checkpoint()
                portion = leaving[start : start + MEMBERS_A_WRITE]
                left: LeaveGroupResponse = await self._write(
                    request.group_id, partial(leave, group_id=request.group_id, leaving=portion)
                )
                response.members += left.members
        except ApiError as refused:
            return LeaveGroupResponse(error_code=refused.code)
        if caller.api_version < LEAVE_BATCH_VERSION:
            return LeaveGroupResponse(error_code=response.error_code or response.members[0].error_code)
        return response

    # Offsets.

    async def offset_commit(self, request: OffsetCommitRequest, caller: Caller) -> OffsetCommitResponse:
        """Commit offsets in portions of at most PARTITIONS_A_WRITE partitions. Each portion is accepted or refused as a
        whole."""
        portions = offset_requests.commit_portions(request, PARTITIONS_A_WRITE)
        if portions is None:
            return await self._commit(request, caller)
        whole = OffsetCommitResponse()
        merging = offset_requests.Merging(whole.topics)
        for number, portion in enumerate(portions):
            if number:
                await trio.lowlevel.checkpoint()
            merging.add((await self._commit(portion, caller)).topics)
        return whole

    async def _commit(self, request: OffsetCommitRequest, caller: Caller) -> OffsetCommitResponse:
        valid, refused = offset_requests.split_commit(request, self.topics, caller.api_version)
        if not valid.topics:
            return OffsetCommitResponse(topics=refused)
        try:
            answer: OffsetCommitResponse = await self._write(
                request.group_id, lambda draft: commit_offsets(draft, valid, caller.api_version)
            )
        except ApiError as problem:
            answer = offset_requests.commit_error(valid, problem.code)
        if refused:
            offset_requests.merge(refused, answer.topics)
            answer.topics = refused
        return answer

    async def txn_offset_commit(self, request: TxnOffsetCommitRequest, caller: Caller) -> TxnOffsetCommitResponse:
        """Commit offsets like `offset_commit`, after the transaction coordinator has confirmed that the group's
        partition of `__consumer_offsets` belongs to the transaction."""
        request = await in_turns(offset_requests.name_txn_commit(request, self.topics, caller.api_version), TURN_ITEMS)
        by_id = caller.api_version >= offset_requests.TXN_COMMIT_TOPIC_ID_VERSION
        answers = TxnOffsetCommitAnswers(request, is_resolved=by_id)
        otherwise: int = ErrorCode.NONE
        try:
            if not request.group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID, "a group without a name")
            valid, unknown = await in_turns(offset_requests.split_txn_commit(request, self.topics), TURN_ITEMS)
            answers.update(unknown)
            if valid.topics:
                await self._commit_in_transaction(valid, answers, caller.api_version)
        except ApiError as refused:
            otherwise = refused.code
        return await in_turns(answers.response(caller.api_version, otherwise), TURN_ITEMS)

    async def _commit_in_transaction(
        self, request: TxnOffsetCommitRequest, answers: TxnOffsetCommitAnswers, api_version: int
    ) -> None:
        """Commit in a transaction. Raises ApiError, which applies to all partitions without a code in `answers`."""
        partition = self.partition_for(request.group_id)
        producer = Producer(
            request.producer_id, request.producer_epoch, await self._verify(partition, request, api_version)
        )
        for number, portion in enumerate(offset_requests.txn_commit_portions(request, PARTITIONS_A_WRITE)):
            if number:
                await trio.lowlevel.checkpoint()
            operation = partial(
                commit_transactional_offsets, request=portion, topics=self.topics, api_version=api_version
            )
            answers.update(await self.runtime.write(partition, operation, producer))

    async def _verify(self, partition: int, request: TxnOffsetCommitRequest, api_version: int) -> Verification | None:
        """Return the verification with which to append the transaction's records. Raises ApiError if that is not
        allowed."""
        self.runtime.read(partition, _whole_state)  # Raises where another node coordinates the group.
        support = TransactionSupport(
            adds=api_version >= IMPLICIT_COMMIT_VERSION, knows_abortable=api_version >= ABORTABLE_COMMIT_VERSION
        )
        if not support.adds and not self._transactions.is_required:
            return NOT_REQUIRED
        try:
            verification = self._log.start_verification(
                TopicPartition(OFFSETS_TOPIC, partition),
                request.producer_id,
                request.producer_epoch,
                implicit=support.adds,
            )
        except KraftError as problem:
            raise append_error(problem) from problem
        if verification is not None:
            key = OFFSETS_TOPIC, partition
            codes = await self._transactions.verify(
                request.transactional_id, request.producer_id, request.producer_epoch, [key], add=support.adds
            )
            if key in codes:
                raise append_error(
                    ApiError(support.code_for_client(codes[key]), f"{OFFSETS_TOPIC}-{partition}: not verified")
                )
        return verification

    async def complete_transaction(self, partition: int, marker: Marker) -> None:
        """Append a transaction marker to the partition of `__consumer_offsets`: the producer's pending offsets take
        effect or are dropped. Returns once the marker is below the high watermark. Raises ApiError."""
        await self.runtime.complete_transaction(partition, marker)

    async def offset_fetch(self, request: OffsetFetchRequest, caller: Caller) -> OffsetFetchResponse:
        groups = []
        turn = Turn(GROUPS_A_TURN)
        for group in await in_turns(requested_groups(request, caller.api_version), TURN_ITEMS):
            if turn.is_over():
                await turn.next()
            groups.append(await self._fetch_group(group, request.require_stable, caller))
        return await in_turns(response_of(groups, caller.api_version), TURN_ITEMS)

    async def _fetch_group(
        self, group: OffsetFetchRequestGroup, require_stable: bool, caller: Caller
    ) -> OffsetFetchResponseGroup:
        resolving = offset_requests.resolve_fetch(group, self.topics, caller.api_version)
        known, errors = await in_turns(resolving, TURN_ITEMS)
        partition = self.partition_for(group.group_id)
        try:
            if require_stable:
                # Commits being written count too: respond once they are committed.
                state: GroupShardState = await self.runtime.write(partition, _view)
            else:
                state = self.runtime.read(partition, _whole_state)
        except ApiError as refused:
            # Consumers older than 3.9 do not retry on COORDINATOR_NOT_AVAILABLE here, but all look up the
            # coordinator again on NOT_COORDINATOR.
            code = (
                ErrorCode.NOT_COORDINATOR
                if refused.code == ErrorCode.COORDINATOR_NOT_AVAILABLE and require_stable
                else refused.code
            )
            return await in_turns(group_error(group, code, caller.api_version), TURN_ITEMS)
        answer = await in_turns(
            fetch_offsets(state, known, self.topics.topic_id, require_stable=require_stable), TURN_ITEMS
        )
        completing = offset_requests.complete_fetch(answer, errors, self.topics, caller.api_version)
        await in_turns(completing, TURN_ITEMS)
        return answer

    async def offset_delete(self, request: OffsetDeleteRequest, caller: Caller) -> OffsetDeleteResponse:
        if not request.group_id:
            return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        whole = OffsetDeleteResponse()
        merging = offset_requests.Merging(whole.topics)
        for number, portion in enumerate(offset_requests.delete_portions(request, PARTITIONS_A_WRITE)):
            if number:
                await trio.lowlevel.checkpoint()
            valid, response = offset_requests.split_delete(portion, self.topics)
            try:
                answer: OffsetDeleteResponse = await self._write(
                    request.group_id, partial(delete_offsets, request=valid)
                )
            except ApiError as refused:
                return OffsetDeleteResponse(error_code=refused.code)
            offset_requests.merge_delete(response, answer)
            merging.add(response.topics)
        return whole

    # Administration.

    async def describe_groups(self, request: DescribeGroupsRequest, caller: Caller) -> DescribeGroupsResponse:
        """Describe the groups. A group named twice is described once."""
        response = DescribeGroupsResponse()
        turn = Turn(GROUPS_A_TURN)
        for group_id in dict.fromkeys(request.groups):
            described = self._describe(group_id, caller.api_version)
            response.groups.append(described)
            if turn.is_over(1 + len(described.members) // MEMBERS_A_GROUP):
                await turn.next()
        return response

    def _describe(self, group_id: str, api_version: int) -> DescribedGroup:
        try:
            return self.runtime.read(
                self.partition_for(group_id), lambda state: describe_group(state, group_id, api_version)
            )
        except ApiError as refused:
            return DescribedGroup(group_id=group_id, error_code=refused.code)

    async def list_groups(self, request: ListGroupsRequest, caller: Caller) -> ListGroupsResponse:
        try:
            shards = self.runtime.read_all(_whole_state)
        except ApiError as refused:
            return ListGroupsResponse(error_code=refused.code)
        wanted = await in_turns(group_filter(request.states_filter, request.types_filter), TURN_ITEMS)
        response = ListGroupsResponse()
        for state in shards:
            response.groups += await in_turns(list_groups(state, wanted), TURN_ITEMS)
        return response

    async def delete_groups(self, request: DeleteGroupsRequest, caller: Caller) -> DeleteGroupsResponse:
        return await delete_requested_groups(request, self.runtime, self.partition_for, self.share)

    # For lag, metrics and the HTTP edge.

    async def committed_offsets(self) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Committed offsets of every group loaded here when the call starts; see `CommittedOffsets.of`."""
        return await self._committed.of(self.snapshots())

    def offsets_of(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets of one group, sorted; empty if it has none. Raises ApiError if another node
        coordinates it."""

        def query(state: GroupShardState) -> dict[TopicPartition, OffsetAndMetadata]:
            offsets = state.offsets_of(group_id)
            return {key: offsets[key] for key in sorted(offsets)}

        return self.runtime.read(self.partition_for(group_id), query)

    def snapshots(self) -> list[GroupShardState]:
        """The committed state of every shard loaded here, as immutable values: cheap to get, and safe to iterate during
        changes."""
        return self.runtime.read_loaded(_whole_state)

    def group_states(self) -> dict[str, str]:
        """The state name of every group loaded here, sorted by group id."""
        return dict(
            sorted(
                (group_id, group.state.value)
                for state in self.snapshots()
                for groups in (state.groups, state.consumer_groups, state.streams_groups)
                for group_id, group in groups.items()
            )
        )

    async def _write(self, group_id: str, operation: Callable[[GroupDraft], object]):  # type: ignore[no-untyped-def]
        return await self.runtime.write(self.partition_for(group_id), operation)


def _view(draft: GroupDraft) -> GroupShardState:
    return draft.finish()


def _whole_state(state: GroupShardState) -> GroupShardState:
    """The query for a shard's whole state: an immutable value, safe to iterate during changes."""
    return state
