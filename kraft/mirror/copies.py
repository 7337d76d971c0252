"""The topics of a mirror at its target, created like the source topics, with as many partitions."""

from __future__ import annotations

from collections.abc import Container, Iterable

from kraft.admin import configs as admin_configs
from kraft.admin import topics
from kraft.admin.configs import Resource
from kraft.admin.errors import UNKNOWN_TOPIC, Refused
from kraft.admin.metadata import Topic
from kraft.common.errors import ApiError
from kraft.mirror.mirror_config import MirrorConfig, MirrorFailed, Notice, Say
from kraft.mirror.topic_configs import Configs, TopicConfig, carried, dangers, shown
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.cluster import Cluster

STATE_REPLICAS_MAX = 3


class Copies:
    """Creates missing topics and partitions at the target."""

    def __init__(self, source: Cluster, target: Cluster, wish: MirrorConfig, say: Say) -> None:
        self._source = source
        self._target = target
        self._wish = wish
        self._say = say
        self._seen: dict[str, int] = {}
        """The number of partitions that each source topic's copy is known to have."""
        self._warned: dict[str, None] = {}

    async def make(self, wanted: Iterable[Topic], others: Container[str] = ()) -> None:
        """Create missing topics and partitions at the target. A topic in `others` may have a copy of an earlier topic
        of the same name: that copy is not changed. Raises ApiError, DeadlinePassed, MirrorFailed."""
        for topic in wanted:
            count = len(topic.partitions)
            if topic.name in others and await _found(self._target, self._wish.target_topic(topic.name)) is not None:
                self._seen.pop(topic.name, None)
            elif self._seen.get(topic.name, 0) < count:
                await self._make(topic, count)
                self._seen[topic.name] = count

    def look_again(self, name: str) -> None:
        """Check the topic's copy again at the next `make`, because it may be gone."""
        self._seen.pop(name, None)

    async def _make(self, topic: Topic, count: int) -> None:
        name = self._wish.target_topic(topic.name)
        there = await _found(self._target, name)
        ours = await _configs(self._source, topic.name)
        if there is None:
            await self._create(topic, name, count, ours)
        elif len(there.partitions) < count:
            if topic.name not in self._seen and self._wish.rename is not None:
                raise MirrorFailed(
                    f"{name} has {len(there.partitions)} partitions, {topic.name} has {count}: add some first "
                    "(`kraft topics alter`)"
                )
            await topics.grow_topic(self._target, name, count)
            self._say(Notice(f"topic {name} at the target has {count} partitions now"))
        if topic.name not in self._warned:
            self._warned[topic.name] = None
            for danger in dangers(ours, await _configs(self._target, name)):
                self._say(Notice(f"topic {name} at the target {danger}", is_warning=True))

    async def _create(self, topic: Topic, name: str, count: int, ours: Configs) -> None:
        taken = carried(ours) if self._wish.configs else {}
        try:
            await topics.create_topic(
                self._target,
                name,
                partitions=count,
                replication_factor=self._wish.replication_factor,
                configs={**taken},
            )
        except Refused as problem:
            hint = f" (its settings are those of {topic.name}; --no-configs leaves them out)" if taken else ""
            raise MirrorFailed(f"{problem}{hint}") from problem
        self._say(Notice(f"created topic {name} at the target with {shown(taken) or 'the defaults there'}"))
        # The answer comes from the controller: brokers of Apache Kafka may not know the topic yet.
        await self._target.topic_made_lately(name)

    async def make_state(self, name: str) -> None:
        """Create the mirror's state topic if it does not exist. Raises ApiError, DeadlinePassed."""
        if await _found(self._target, name) is not None:
            return
        brokers = len((await self._target.metadata(())).brokers)
        try:
            await topics.create_topic(
                self._target,
                name,
                partitions=1,
                replication_factor=min(STATE_REPLICAS_MAX, max(1, brokers)),
                configs={"cleanup.policy": "compact"},
            )
        except Refused as problem:
            if problem.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


async def _found(cluster: Cluster, name: str) -> Topic | None:
    try:
        return await topics.describe_topic(cluster, name)
    except ApiError as problem:
        if problem.code in UNKNOWN_TOPIC:
            return None
        raise


async def _configs(cluster: Cluster, name: str) -> Configs:
    settings = await admin_configs.describe_configs(cluster, Resource(admin_configs.TOPIC, name))
    return {each.name: TopicConfig(each.value, each.source == "topic") for each in settings}
