"""Members of streams groups that only send heartbeats: an application without its threads."""

from __future__ import annotations

from typing import Any

import trio

from jepsen.three_nodes import until
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.streams_group_heartbeat_request import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kraft.rpc_client.connection import connect
from kraft.world.real import RealWorld

LEAVING = -1
NAMED_TOPICS_VERSION = 9
LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


def ask(bootstrap: str, request: Any, version: int | None = None) -> Any:
    host, _, port = bootstrap.rpartition(":")

    async def call() -> Any:
        async with connect(RealWorld(log_sink=lambda event: None), host, int(port)) as connection:
            return await connection.call(request, version=version)

    return trio.run(call)


class StreamsMember:
    """The only member of a group. Its first subtopology reads `source` and writes a repartition topic, and the second
    one reads that and keeps a store."""

    def __init__(self, bootstrap: str, group: str, source: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._epoch = 0
        self._active: list[TaskIds] = []
        repartition = f"{group}-counts-repartition"
        topology = Topology(
            epoch=0,
            subtopologies=[
                Subtopology(subtopology_id="0", source_topics=[source], repartition_sink_topics=[repartition]),
                Subtopology(
                    subtopology_id="1",
                    repartition_source_topics=[TopicInfo(name=repartition)],
                    state_changelog_topics=[TopicInfo(name=f"{group}-counts-changelog")],
                ),
            ],
        )
        finding = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])  # It creates the topic of offsets.
        until(lambda: ask(bootstrap, finding).coordinators[0].error_code == 0, f"no coordinator for {group}")
        until(lambda: self._beat(topology=topology, rebalance_timeout_ms=60_000), f"{group} is not joined")
        until(self._has_tasks, f"the member of {group} gets no tasks")

    def _has_tasks(self) -> bool:
        """Send a heartbeat. Returns whether the member has tasks of both subtopologies, and the coordinator knows."""
        told = self._beat()
        return told is not None and len(self._active) == 2 and told.active_tasks is None

    def _beat(self, **joining: Any) -> Any:
        """Send a heartbeat. Returns the response; None while the coordinator loads."""
        if joining:
            joining |= {"process_id": "process-1", "client_tags": [KeyValue(key="zone", value="a")]}
        request = StreamsGroupHeartbeatRequest(
            group_id=self._group,
            member_id="member-1",
            member_epoch=self._epoch,
            active_tasks=self._active,
            standby_tasks=[],
            warmup_tasks=[],
            **joining,
        )
        told = ask(self._bootstrap, request)
        if told.error_code in LOADING:
            return None
        assert told.error_code == ErrorCode.NONE, told
        self._epoch = told.member_epoch
        if told.active_tasks is not None:
            self._active = [
                TaskIds(subtopology_id=each.subtopology_id, partitions=each.partitions) for each in told.active_tasks
            ]
        return told

    def commit(self, topic: str, offset: int) -> int:
        """Commit an offset of partition 0. Returns the error code."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._epoch,
            member_id="member-1",
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        [told] = ask(self._bootstrap, request, NAMED_TOPICS_VERSION).topics
        return int(told.partitions[0].error_code)

    def leave(self) -> None:
        self._epoch = LEAVING
        told = ask(
            self._bootstrap,
            StreamsGroupHeartbeatRequest(group_id=self._group, member_id="member-1", member_epoch=LEAVING),
        )
        assert told.error_code == 0, told
