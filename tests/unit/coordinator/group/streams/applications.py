"""Threads of a streams application, as tests write them: each beats with the epoch and the tasks that it was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.streams.configured_topology import Status
from kraft.coordinator.group.streams.heartbeat import HeartbeatResult, check_request, streams_heartbeat
from kraft.coordinator.group.streams.settings import StreamsGroupSettings
from kraft.coordinator.group.streams.streams_group import StreamsGroup
from kraft.protocol.messages.streams_group_heartbeat_request import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.unit.coordinator.group_host import GroupHost, TestCaller

Tasks = dict[str, set[int]]


def topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(subtopologies))


def reads(*topics: str, name: str = "0", stores: Sequence[str] = (), **other: Any) -> Subtopology:
    """A subtopology that reads topics, and has a changelog for each of its stores."""
    changelogs = [TopicInfo(name=store) for store in stores]
    return Subtopology(subtopology_id=name, source_topics=list(topics), state_changelog_topics=changelogs, **other)


class Application:
    """A group "g" and what its threads know. Each has a process of its own, unless a test says otherwise."""

    def __init__(
        self,
        shape: Topology | None = None,
        *,
        config: GroupCoordinatorConfig | None = None,
        settings: StreamsGroupSettings | None = None,
    ) -> None:
        self.host = GroupHost(config)
        self.shape = shape or topology(reads("t"))
        if settings is not None:
            self.host.streams_configs.settings = settings
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, tuple[Tasks, Tasks, Tasks]] = {}
        self.instances: dict[str, str] = {}

    @property
    def group(self) -> StreamsGroup:
        return self.host.state.streams_groups["g"]

    def join(self, member: str, **changes: Any) -> HeartbeatResult:
        """Join, in the process of the member's first letter."""
        self.epochs[member], self.owned[member] = 0, ({}, {}, {})
        fields: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "topology": self.shape,
            "process_id": f"process-{member[0]}",
        }
        return self.beat(member, **(fields | changes))

    def beat(self, member: str, *, version: int = 1, adopt: bool = True, **changes: Any) -> HeartbeatResult:
        """Send a heartbeat with all tasks that the member owns, and adopt the answer unless told otherwise."""
        active, standby, warmup = self.owned[member]
        fields: dict[str, Any] = {
            "group_id": "g",
            "member_id": member,
            "member_epoch": self.epochs[member],
            "instance_id": self.instances.get(member),
            "active_tasks": _ids(active),
            "standby_tasks": _ids(standby),
            "warmup_tasks": _ids(warmup),
        }
        request = StreamsGroupHeartbeatRequest(**(fields | changes))
        check_request(request)
        heard: HeartbeatResult = self.host.run(lambda draft: streams_heartbeat(draft, request, TestCaller(version)))[1]
        if adopt:
            self.adopt(member, heard)
        return heard

    def adopt(self, member: str, heard: HeartbeatResult) -> None:
        """Let the member own what it was told."""
        response = heard.response
        self.epochs[member] = response.member_epoch
        if response.active_tasks is not None:
            assert response.standby_tasks is not None
            assert response.warmup_tasks is not None
            self.owned[member] = (
                _tasks(response.active_tasks),
                _tasks(response.standby_tasks),
                _tasks(response.warmup_tasks),
            )

    def leave(self, member: str, epoch: int = -1) -> HeartbeatResult:
        return self.beat(
            member, adopt=False, member_epoch=epoch, active_tasks=None, standby_tasks=None, warmup_tasks=None
        )

    def settle(self, *members: str) -> None:
        """Beat in turns until everybody has its target."""
        for _ in range(8):
            for member in members:
                self.beat(member)
        assert self.group.state == "Stable"

    def active(self, member: str) -> Tasks:
        return self.owned[member][0]

    def standby(self, member: str) -> Tasks:
        return self.owned[member][1]


def statuses(heard: HeartbeatResult) -> dict[Status, str]:
    """The statuses of a response with their details."""
    return {Status(each.status_code): each.status_detail for each in heard.response.status or ()}


def tags(**found: str) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in found.items()]


def at(host: str, port: int = 1) -> Endpoint:
    return Endpoint(host=host, port=port)


def _ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _tasks(ids: Sequence[Any]) -> Tasks:
    return {each.subtopology_id: set(each.partitions) for each in ids}
