"""The leaders, the controller and the coordinators of a `LocalCluster`. They are read from the nodes directly, so that
the answer is right during a network partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import trio

from kraft.common.config.resource_type import ResourceType
from kraft.coordinator.partitioner import partition_for
from kraft.metadata.image.configs_image import ConfigResource
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.metadata.image.topics_image import TopicImage, TopicsImage
from kraft.server.node import Node

T = TypeVar("T")

GROUPS = "__consumer_offsets"
WAIT_SECONDS_MAX = 30.0
LOOK_SECONDS = 0.01


class ClusterView:
    """Finds leaders, controller and coordinators. Each wait ends after WAIT_SECONDS_MAX with TimeoutError."""

    def __init__(self, serving: Callable[[], Mapping[int, Node]]) -> None:
        """`serving` returns the nodes that serve and are not paused, by id."""
        self._serving = serving

    async def leader(self, topic: str, partition: int, other_than: int | None) -> int:
        """Wait for a serving leader that is not `other_than`. Raises LookupError if the partition does not exist."""
        self.require_partition(topic, partition)

        def found() -> int | None:
            leader = self.require_partition(topic, partition).leader
            return leader if leader in self._serving() and leader != other_than else None

        return await self._await(found, f"{topic}-{partition} has no running leader" + _but(other_than))

    async def controller(self, other_than: int | None) -> int:
        def found() -> int | None:
            told = [node.shared.raft.leader_and_epoch for node in self._serving().values()]
            newest = max(told, key=lambda each: each.epoch, default=None)
            if newest is None or newest.leader_id not in self._serving() or newest.leader_id == other_than:
                return None
            return newest.leader_id

        return await self._await(found, "no running node is the active controller" + _but(other_than))

    async def coordinator(self, group: str, other_than: int | None) -> int:
        return await self.leader(GROUPS, partition_for(group, len(self.require_topic(GROUPS).partitions)), other_than)

    def has_groups(self) -> bool:
        """Whether the topic of committed offsets exists."""
        return self._newest().by_name(GROUPS) is not None

    async def await_topic(self, name: str, *, everywhere: bool) -> None:
        """Wait until every partition has a leader: in every node's metadata with `everywhere`, else in the newest."""

        def found() -> bool | None:
            images = [node.shared.loader.image.topics for node in self._serving().values()]
            topics = [image.by_name(name) for image in (images if everywhere else [self._newest()])]
            return all(topic is not None and _is_led(topic) for topic in topics) or None

        await self._await(found, f"topic {name} has no leaders")

    async def await_group_configs(self, group: str, settings: Mapping[str, str], *, everywhere: bool) -> None:
        """Wait until a node has the configurations of the group, or every node with `everywhere`."""
        resource = ConfigResource(ResourceType.GROUP, group)

        def found() -> bool | None:
            known = [node.shared.loader.image.configs.resources.get(resource) for node in self._serving().values()]
            have = [configs is not None and settings.items() <= dict(configs.items()).items() for configs in known]
            return (all(have) if everywhere else any(have)) or None

        await self._await(found, f"group {group} is not configured")

    def require_topic(self, name: str) -> TopicImage:
        """Return the topic. Raises LookupError, which names the topics that exist."""
        topics = self._newest()
        topic = topics.by_name(name)
        if topic is None:
            names = sorted(each for each in topics.id_by_name if not each.startswith("__"))
            raise LookupError(
                f"there is no topic {name}; " + (f"there are {', '.join(names)}" if names else "there are none")
            )
        return topic

    def require_partition(self, topic: str, partition: int) -> PartitionRegistration:
        """Return the partition. Raises LookupError, which names the topics or partitions that exist."""
        partitions = self.require_topic(topic).partitions
        if partition not in partitions:
            raise LookupError(f"{topic} has no partition {partition}; it has {len(partitions)}, from 0 on")
        return partitions[partition]

    def _newest(self) -> TopicsImage:
        """The topics of the node with the newest metadata. Raises RuntimeError if no node serves."""
        loaders = [node.shared.loader for node in self._serving().values()]
        if not loaders:
            raise RuntimeError("no node serves")
        return max(loaders, key=lambda loader: loader.offset).image.topics

    async def _await(self, found: Callable[[], T | None], complaint: str) -> T:
        deadline = trio.current_time() + WAIT_SECONDS_MAX
        while (answer := found()) is None:
            if trio.current_time() >= deadline:
                raise TimeoutError(f"{complaint} after {WAIT_SECONDS_MAX:g} s")
            await trio.sleep(LOOK_SECONDS)
        return answer


def _is_led(topic: TopicImage) -> bool:
    return all(partition.has_leader for partition in topic.partitions.values())


def _but(other_than: int | None) -> str:
    return "" if other_than is None else f" other than {other_than}"
