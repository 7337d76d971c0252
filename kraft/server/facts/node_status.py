"""A node's answers to status keys (`kraft.common.status_keys`), and the health verdict on the whole cluster: the facts
of this node's metadata image, completed by the active controller and the other live nodes.

REST, the console and the command line all get the verdict from here, so it is the same. Requests that arrive while it
is being computed share one computation.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import trio

from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.resource_type import ResourceType
from kraft.common.disk_times import SlowDisk
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import METADATA_TOPIC
from kraft.common.status_keys import (
    CLIENT,
    CLIENTS,
    CLUSTER_HEALTH,
    GROUP_PROGRESS,
    HISTORY,
    LOG_DIRS,
    NODE_STATUS,
    SHARE_RECORDS,
    TOPIC_FACTS,
    TOPIC_GROUPS,
    WAITING_ELECTIONS,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.server.facts.client_facts import own_client, own_clients
from kraft.server.facts.cluster_facts import disk_room, gather_facts, offline_log_dirs
from kraft.server.facts.late_transactions import late_partitions
from kraft.server.facts.log_dir_sizes import own_log_dir_sizes
from kraft.server.facts.share_records import own_share_records
from kraft.server.facts.status_questions import (
    ANSWER_SECONDS_MAX,
    ASKED_AT_ONCE,
    ask_status,
    status_document,
    status_question,
)
from kraft.server.facts.topic_facts import own_topic_facts
from kraft.server.facts.topic_groups import own_topic_groups
from kraft.server.history.gathering import BROKER, GROUP, TOPIC, own_history

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraft_http.health.health import ClusterHealth, VoterFacts
    from kraft_http.ports import ClusterFacts

    from kraft.common.quarantine import Quarantine
    from kraft.metadata.image.topics_image import TopicIdPartition
    from kraft.replication.partition import Partition
    from kraft.server.node import Node
    from kraft.server.node_to_controller_channel import NodeToControllerChannel

LISTED_MAX: Final = 100
"""Limit of listed waits of each kind, over all topics. The counts are complete."""
TOPIC_LISTED_MAX: Final = 1_000
"""Limit of listed waits of each kind, for one topic. The counts are complete."""
WAITS_PER_STEP: Final = 100
"""Waits described between two yields."""


class NodeStatus:
    """The status of this node. On its broker's listeners `report` also answers for the cluster."""

    def __init__(self, node: Node, channel: NodeToControllerChannel) -> None:
        self._node = node
        self._channel = channel
        self._gathering: _Gathering | None = None

    async def report(self, key: str, topic: str | None, group: str | None, client: str | None = None) -> Any | None:
        """See `kraft.handlers.services.StatusReports`."""
        if client is not None:
            return own_client(self._node, client) if key == CLIENT else None
        if key == HISTORY:
            kind = TOPIC if topic is not None else GROUP if group is not None else BROKER
            return own_history(self._node, kind, topic or group or "")
        if key == SHARE_RECORDS:
            return None if group is None else own_share_records(self._node, group)
        if group is not None:
            progress = self._node.group_progress
            return None if progress is None or key != GROUP_PROGRESS else await progress.of_group(group)
        if key == TOPIC_FACTS:
            return None if topic is None else own_topic_facts(self._node, topic)
        if key == TOPIC_GROUPS:
            return None if topic is None else await own_topic_groups(self._node, topic)
        if key == WAITING_ELECTIONS:
            return await self.waiting_elections(topic)
        if key == CLIENTS and topic is None:
            return own_clients(self._node)
        if key == LOG_DIRS and topic is None:
            return await own_log_dir_sizes(self._node)
        if key == NODE_STATUS and topic is None:
            return self.own()
        if key == CLUSTER_HEALTH and topic is None:
            return (await self.cluster_health()).model_dump(mode="json")
        return None

    def own(self) -> dict[str, Any]:
        """The document of `kraft.status.node`: the fields of `kraft_http.health.health_findings.NodeStatus`."""
        free, total = disk_room(self._node)
        own = {
            "node_id": self._node.config.node_id,
            "offline_log_dirs": list(offline_log_dirs(self._node)),
            "authorizer": _authorizer(self._node.config),
            "disk_free_bytes": free,
            "disk_total_bytes": total,
            "wall_ms": self._node.world.clock.wall_ms(),
            "certificates": [
                {"listener": name, "ends_ms": ends * 1000} for name, ends in self._node.keys.expiries().items()
            ],
            "slow_disks": [each._asdict() for each in slow_disks(self._node)],
        } | _set_aside(self._node)
        broker = self._node.broker
        if broker is None:
            return own
        waiting, unreadable = broker.replicas.damaged.waiting(), broker.log_tasks.cleaner.unreadable()
        topics = broker.metadata.image.topics
        late = late_partitions(self._node, broker.replicas)
        unmade = broker.services.unmade_topics.items(lambda name: topics.by_name(name) is not None)
        return (
            own
            | _tiering_put_off(self._node, broker.replicas)
            | ({} if self._node.group_progress is None else self._node.group_progress.report(LISTED_MAX))
            | {
                "unmade_topics": [asdict(each) for each in unmade],
                "late_transactions_count": len(late),
                "late_transactions": late[:LISTED_MAX],
                "waiting_replicas_count": len(waiting),
                "waiting_replicas": [
                    {
                        "topic": each.topic_partition.topic,
                        "partition": each.topic_partition.partition,
                        "since_ms": each.report.since_ms,
                        "start_offset": each.report.start_offset,
                        "known_end_offset": each.report.known_end_offset,
                        "reason": each.report.reason,
                        "command": each.remedy,
                    }
                    for each in waiting[:LISTED_MAX]
                ],
                "unreadable_logs_count": len(unreadable),
                "unreadable_logs": [
                    {
                        "topic": place.topic,
                        "partition": place.partition,
                        "since_ms": each.since_ms,
                        "count": each.batches,
                        "ranges": [list(offsets) for offsets in each.ranges],
                        "reason": each.note,
                        "command": f"kraft topics delete-records {place.topic} --partition {place.partition} "
                        f"--before {each.ranges[-1][1]}",
                    }
                    for place, each in unreadable[:LISTED_MAX]
                ],
            }
        )

    async def waiting_elections(self, topic: str | None) -> dict[str, Any]:
        """The document of `kraft.status.elections`, from the active controller. Raises ApiError."""
        kind, name = (ResourceType.BROKER, "") if topic is None else (ResourceType.TOPIC, topic)
        request = status_question(kind, name, WAITING_ELECTIONS)
        found = status_document(await self._channel.send(request, timeout=ANSWER_SECONDS_MAX), WAITING_ELECTIONS)
        if found is None:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                "the active controller does not report which partitions wait for a leader",
            )
        return dict(found)

    async def cluster_health(self) -> ClusterHealth:
        """The health verdict on the cluster."""
        while True:
            running = self._gathering
            if running is None:
                running = self._gathering = _Gathering()
                try:
                    running.health = await self._gather()
                finally:
                    self._gathering = None
                    running.ended.set()
            else:
                await running.ended.wait()
            if running.health is not None:
                return running.health

    async def _gather(self) -> ClusterHealth:
        await self._node.world.threads.run(_import_models)
        from kraft_http.health.health import judge
        from kraft_http.health.health_findings import WaitingElections, read_status

        facts = await gather_facts(self._node)
        told: dict[int, Any] = {self._node.config.node_id: self.own()}
        unreached: dict[int, str] = {}
        voters: list[VoterFacts] | None = None
        elections = WaitingElections()

        async def ask_quorum() -> None:
            nonlocal voters
            voters = await self._voters()

        async def ask_elections() -> None:
            nonlocal elections
            try:
                elections = WaitingElections.model_validate(await self.waiting_elections(None))
            except (KraftError, ValueError, TypeError):
                return  # The verdict says that there is no controller, or that partitions have no leader.

        async with trio.open_nursery() as asking_nursery:
            room = trio.Semaphore(ASKED_AT_ONCE)
            if facts.controller_id >= 0:
                asking_nursery.start_soon(ask_quorum)
                asking_nursery.start_soon(ask_elections)
            for node_id in _others(facts, self._node.config.node_id):
                asking_nursery.start_soon(self._ask_node, node_id, told, unreached, room)
        return judge(
            facts,
            voters or (),
            controller_answers=voters is not None,
            nodes=[read_status(node_id, told[node_id]) for node_id in sorted(told)],
            elections=elections,
            unreached=unreached,
            asked_by=self._node.config.node_id,
        )

    async def _voters(self) -> list[VoterFacts] | None:
        """The voters as the active controller sees them; None if it does not answer in time."""
        from kraft_http.health.health import voter_facts

        request = DescribeQuorumRequest(
            topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
        )
        try:
            response = await self._channel.send(request, timeout=ANSWER_SECONDS_MAX)
        except KraftError:
            return None
        if response.error_code or response.topics[0].partitions[0].error_code:
            return None
        quorum = response.topics[0].partitions[0]
        voters = quorum.current_voters
        ends = [(each.replica_id, each.log_end_offset, each.last_caught_up_timestamp) for each in voters]
        return voter_facts(ends, quorum.leader_id, self._node.world.clock.wall_ms())

    async def _ask_node(
        self, node_id: int, told: dict[int, Any], unreached: dict[int, str], room: trio.Semaphore
    ) -> None:
        """Add a node's status to `told`, or the reason why it could not be reached to `unreached`."""
        clock = self._node.world.clock
        try:
            async with room:
                with clock.move_on_after(ANSWER_SECONDS_MAX):
                    begun_ms = clock.wall_ms()
                    found = await ask_status(self._node.remote, node_id, ResourceType.BROKER, str(node_id), NODE_STATUS)
                    if found is not None:
                        told[node_id] = with_clock_offset(found, begun_ms, clock.wall_ms())
                    return
                raise TimeoutError(f"no answer within {ANSWER_SECONDS_MAX:g} s")
        except (ConnectionError, TimeoutError) as problem:
            unreached[node_id] = str(problem)
        except (KraftError, ValueError):
            return  # It answers, but does not tell of itself.


def with_clock_offset(told: Any, begun_ms: int, ended_ms: int) -> Any:
    """A node's status with `clock_offset_ms`, the time by which its wall clock is ahead of ours, if the status has a
    time. A difference that the request's own duration explains counts as 0."""
    wall_ms = told.get("wall_ms") if isinstance(told, dict) else None
    if not isinstance(wall_ms, int):
        return told
    return {**told, "clock_offset_ms": wall_ms - min(max(wall_ms, begun_ms), ended_ms)}


def slow_disks(node: Node) -> list[SlowDisk]:
    """The log directories of a node whose disks are slow."""
    found = node.shared.raft.disks.slow()
    if node.broker is not None:
        found += node.broker.replicas.flusher.disks.slow()
    # The metadata log may share a directory with other logs.
    worst = {each.path: each for each in sorted(found, key=lambda each: each.seconds)}
    return [worst[path] for path in sorted(worst)]


class ControllerStatus:
    """The status at the controller's listener: of this node, and that of the active controller."""

    def __init__(self, node: Node, status: NodeStatus) -> None:
        self._node = node
        self._status = status

    async def report(self, key: str, topic: str | None, group: str | None, client: str | None = None) -> Any | None:
        """See `kraft.handlers.services.StatusReports`."""
        if key == WAITING_ELECTIONS and group is client is None:
            return await self._waiting_elections(topic)
        return self._status.own() if key == NODE_STATUS and topic is group is client is None else None

    async def _waiting_elections(self, topic: str | None) -> dict[str, Any]:
        """The document of `kraft.status.elections`. Raises ApiError NOT_CONTROLLER."""
        assert self._node.controller is not None
        controller = self._node.controller.controller
        topics = controller.image.topics
        keys: list[TopicIdPartition]
        if topic is None:
            count = len(topics.leaderless)
            keys = list(islice(topics.leaderless, LISTED_MAX))
        else:
            found = topics.by_name(topic)
            leaderless = (
                []
                if found is None
                else [(found.id, index) for index, partition in found.partitions.items() if not partition.has_leader]
            )
            count, keys = len(leaderless), leaderless[:TOPIC_LISTED_MAX]
        waiting: list[dict[str, Any]] = []
        for start in range(0, max(1, len(keys)), WAITS_PER_STEP):
            waiting += controller.waiting_elections(keys[start : start + WAITS_PER_STEP])
            await trio.lowlevel.checkpoint()
        waiting.sort(key=lambda each: (each["topic"], each["partition"]))
        return {"count": count, "partitions": waiting, "refused_brokers": controller.refused_brokers()}


def failed_work(node: Node) -> list[Quarantine]:
    """The quarantines of this node's background work."""
    found = [] if node.controller is None else [node.controller.controller.set_aside]
    broker = node.broker
    if broker is not None:
        found += [broker.groups.runtime.set_aside, broker.transactions.coordinator.runtime.set_aside]
        found += [broker.shares.coordinator.runtime.set_aside]
        found += [broker.transactions.set_aside, broker.log_tasks.set_aside]
        found += [broker.replicas.set_aside, broker.replication.isr.set_aside]
    return found


def _set_aside(node: Node) -> dict[str, Any]:
    items = [each for place in failed_work(node) for each in place.items()]
    return {"set_aside_count": len(items), "set_aside": [asdict(each) for each in items[:LISTED_MAX]]}


def _authorizer(config: NodeConfig) -> str:
    """A text for this node's authorizer settings. The authorizers of two nodes with the same text make the same
    decisions."""
    name = config.text("authorizer.class.name").rpartition(".")[2]
    if not name:
        return "none"
    allows = config.flag("allow.everyone.if.no.acl.found")
    return f"{name} with allow.everyone.if.no.acl.found" if allows else name


class _Gathering:
    """A running computation of the verdict. `health` is its result after `ended`, None if it failed."""

    def __init__(self) -> None:
        self.ended = trio.Event()
        self.health: ClusterHealth | None = None


def _import_models() -> None:
    """Import pydantic in a thread: it takes a tenth of a second, for which the loop must not stop."""


def _others(facts: ClusterFacts, node_id: int) -> list[int]:
    return [broker.node_id for broker in facts.brokers if not broker.fenced and broker.node_id != node_id]


def _tiering_put_off(node: Node, replicas: Iterable[Partition]) -> dict[str, Any]:
    """The tiered partitions led here whose last round failed, and how fast their topics grow."""
    errors: list[str] = []
    topics: dict[str, None] = {}
    for partition in replicas:
        if partition.tier is not None and partition.is_leader and partition.tier.put_off:
            errors.append(partition.tier.last_error)
            topics[partition.topic] = None
    rates = (0.0 if node.history is None else node.history.latest_of_topic(topic)["bytes_in"] for topic in topics)
    return {
        "tiering_put_off_count": len(errors),
        "tiering_put_off_error": errors[0] if errors else None,
        "tiering_put_off_bytes_in": sum(rates),
    }
