"""The state of a simulated cluster's nodes, seen from inside: their roles, snapshots for the white-box rules, and the
contents of replicas once the cluster is quiet."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from jepsen.checker.operations import ImageState, Partition, QuorumState, Rebuilt, ReplicaContent, ReplicaState
from jepsen.simulation.clients.incarnations import WIRE, name_in_history
from jepsen.simulation.digests import Digest, of_batches
from jepsen.simulation.faults.quorum_durability import QuorumDurability
from jepsen.simulation.recorder import Recorder
from kraft.common.ids import uuid_from_text
from kraft.common.internal_topics import OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC
from kraft.coordinator.partitioner import partition_for
from kraft.coordinator.share.share_coordinator import coordinator_key
from kraft.coordinator.share.share_state import SharePartitionKey
from kraft.protocol.records.record_batch import batches
from kraft.raft.driver import RaftDriver
from kraft.server.node import Node
from kraft.world.simulated import Universe

if TYPE_CHECKING:
    from kraft.metadata.image.acls_image import AclsImage
    from kraft.metadata.image.partition_registration import PartitionRegistration
    from kraft.metadata.image.topics_image import TopicImage
    from kraft.replication.partition import Partition as Replica

DATA_LEADER: Final = "data leader"
DATA_FOLLOWER: Final = "data follower"
ACTIVE_CONTROLLER: Final = "active controller"
STANDBY_CONTROLLER: Final = "standby controller"
COORDINATOR: Final = "coordinator"
ROLES: Final = (DATA_LEADER, DATA_FOLLOWER, ACTIVE_CONTROLLER, STANDBY_CONTROLLER, COORDINATOR)
IMAGES_ONE_IN: Final = 8
ALL_BYTES: Final = 1 << 30


class Observer:
    """Reads the state of the living nodes of a run. `lives` counts the lives of each node."""

    def __init__(
        self,
        universe: Universe,
        recorder: Recorder,
        nodes: Mapping[str, Node],
        lives: Mapping[str, int],
        places: tuple[Partition, ...],
    ) -> None:
        self._universe = universe
        self._recorder = recorder
        self._nodes = nodes
        self._lives = lives
        self._places = places
        self._snapshots = 0
        self._durability = QuorumDurability()

    def living(self) -> list[tuple[str, Node]]:
        return [(name, node) for name, node in sorted(self._nodes.items()) if self._universe.world_of(name).node.alive]

    def roles(self) -> dict[str, list[str]]:
        """The names of the living nodes in each role now."""
        found: dict[str, list[str]] = {role: [] for role in ROLES}
        for name, node in self.living():
            if node.controller is not None:
                found[ACTIVE_CONTROLLER if node.shared.raft.is_leader else STANDBY_CONTROLLER].append(name)
            if node.broker is None:
                continue
            hosted = [replica for place in self._places if (replica := node.broker.replicas.find(*place)) is not None]
            if any(replica.is_leader for replica in hosted):
                found[DATA_LEADER].append(name)
            if any(not replica.is_leader for replica in hosted):
                found[DATA_FOLLOWER].append(name)
            if any(replica.is_leader for replica in node.broker.replicas if replica.topic == OFFSETS_TOPIC):
                found[COORDINATOR].append(name)
        return found

    def is_spare(self, name: str) -> bool:
        """Whether each partition with a replica on the node has another living in-sync replica, by the newest image of
        the living nodes."""
        living = {other: node for other, node in self.living() if other != name}
        newest = max((node.shared.loader for node in living.values()), key=lambda loader: loader.offset, default=None)
        if newest is None:
            return False
        partitions = [
            each
            for topic in newest.image.topics.by_id.values()
            for each in topic.partitions.values()
            if int(name) in each.replicas
        ]
        return all(any(str(member) in living for member in each.isr) for each in partitions)

    def registration(self, place: Partition) -> PartitionRegistration | None:
        """The partition's registration in the newest image of the living nodes."""
        loaders = [node.shared.loader for _, node in self.living()]
        newest = max(loaders, key=lambda loader: loader.offset, default=None)
        topic = newest.image.topics.by_name(place[0]) if newest is not None else None
        return topic.partitions.get(place[1]) if topic is not None else None

    def is_deposed(self, host: str, group: str) -> bool:
        """Whether the node at `host` has an older leader epoch of the group's offsets partition than a living node."""
        return self._is_behind(host, OFFSETS_TOPIC, lambda count: partition_for(group, count))

    def share_state_epoch(self, group: str, place: Partition) -> int | None:
        """The leader epoch of the share coordinator of a group's partition. None while some living broker does not know
        the newest one: then a deposed share coordinator may answer."""
        epochs: set[int] = set()
        for _, node in self.living():
            if node.broker is None:
                continue
            topic, states = _topic(node, place[0]), _topic(node, SHARE_GROUP_STATE_TOPIC)
            if topic is None or states is None:
                return None
            key = coordinator_key(SharePartitionKey(group, bytes(topic.id), place[1]))
            index = partition_for(key, len(states.partitions))
            replica = node.broker.replicas.find(SHARE_GROUP_STATE_TOPIC, index)
            epochs.add(states.partitions[index].leader_epoch)
            if replica is not None and replica.is_leader:
                epochs.add(replica.leader_epoch)
        return max(epochs) if len(epochs) == 1 else None

    def leads_no_more(self, host: str, place: Partition) -> bool:
        """Whether the node at `host` has an older leader epoch of the partition than some living node, or has learned
        that another node leads. Its response may be older than what it knows now."""
        for node_name, node in self.living():
            topic = _topic(node, place[0])
            if (
                f"node-{node_name}" == host
                and topic is not None
                and place[1] in topic.partitions
                and str(topic.partitions[place[1]].leader) != node_name
            ):
                return True
        return self._is_behind(host, place[0], lambda count: place[1])

    def _is_behind(self, host: str, name: str, index: Callable[[int], int]) -> bool:
        epochs: dict[str, int] = {}
        for node_name, node in self.living():
            topic = _topic(node, name)
            if topic is not None:
                registration = topic.partitions.get(index(len(topic.partitions)))
                epochs[f"node-{node_name}"] = -1 if registration is None else registration.leader_epoch
        return bool(epochs.get(host, -1) < max(epochs.values(), default=-1))

    def taken_for(self, host: str, name: str) -> bytes | None:
        """The topic id to which the broker at `host` maps `name`; None if it has no such topic, or its replica still
        belongs to another one."""
        for node_name, node in self.living():
            if f"node-{node_name}" == host and node.broker is not None:
                topic, replica = node.broker.metadata.image.topics.by_name(name), node.broker.replicas.find(name, 0)
                if topic is not None and (replica is None or replica.topic_id == topic.id):
                    return bytes(topic.id)
        return None

    def acls_told(self, host: str) -> AclsImage | None:
        """The ACL entries that the broker at `host` has given to its authorizer, which may have newer ones by now. None
        if the broker is down."""
        node = self._broker_at(host)
        return None if node is None or node.broker is None else node.broker.metadata.image.acls

    def acls_read(self, host: str) -> AclsImage | None:
        """The newest ACL entries that the authorizer of the broker at `host` may have. None if the broker is down."""
        node = self._broker_at(host)
        return None if node is None else node.shared.loader.image.acls

    def _broker_at(self, host: str) -> Node | None:
        return next((node for name, node in self.living() if f"node-{name}" == host and node.broker), None)

    def snapshot(self) -> None:
        """Record the state of the cluster at this moment for the white-box rules."""
        now = self._recorder.now()
        self._snapshots += 1
        controllers = {
            name: node.shared.raft
            for name, node in self.living()
            if node.controller is not None and not self._universe.world_of(name).node.paused
        }
        down = {name: life for name, life in self._lives.items() if not self._universe.world_of(name).node.alive}
        brokers_only = {name for name, node in self.living() if node.controller is None}
        self._durability.look(
            controllers,
            down,
            hidden=any(
                name not in controllers and name not in down and name not in brokers_only for name in self._lives
            ),
        )
        for name, node in self.living():
            if node.broker is not None:
                for place in (*self._places, WIRE):
                    replica = node.broker.replicas.find(*place)
                    if replica is not None and replica.leader_epoch >= 0:
                        self._recorder.add(self._state(name, node, replica, now))
            if name in controllers:
                self._recorder.add(self._quorum(name, controllers[name], now))
            if self._snapshots % IMAGES_ONE_IN == 0:
                self.image(name, node)

    def _quorum(self, name: str, raft: RaftDriver, now: float) -> QuorumState:
        leader, voted = raft.leader_and_epoch, raft.election.voted
        state = QuorumState(
            process=name,
            began=now,
            life=self._lives[name],
            epoch=leader.epoch,
            leader=leader.leader_id,
            is_leader=raft.is_leader,
        )
        state.high_watermark, state.saved = raft.high_watermark, raft.election_is_saved
        state.voted = voted.id if voted is not None else state.voted
        if raft.is_leader and raft.voters_are_committed:
            state.voters, state.holders = len(raft.voters.voters), self._durability.holders(raft)
        return state

    def image(self, name: str, node: Node) -> None:
        loader = node.shared.loader
        if loader.offset < 0 or loader.transaction_is_open:
            return
        records = [(record.API_KEY, _plain(record)) for record in loader.image.write()]
        digest = hashlib.blake2b(repr(records).encode(), digest_size=8).hexdigest()
        self._recorder.add(ImageState(process=name, began=self._recorder.now(), offset=loader.offset, digest=digest))

    def _state(self, name: str, node: Node, replica: Replica, now: float) -> ReplicaState:
        assert node.broker is not None
        image = node.shared.loader.image
        registration = image.topics.partition(replica.topic_id, replica.index)
        recorded, fenced = None, list[int]()
        if registration is not None:
            if registration.partition_epoch == replica.partition_epoch:
                recorded = list(registration.isr)
            if len(registration.isr) > 1:
                fenced = [
                    member
                    for member in registration.isr
                    if (broker := image.cluster.brokers.get(member)) is None or broker.fenced
                ]
        return ReplicaState(
            process=name,
            began=now,
            topic=_name(replica),
            partition=replica.index,
            life=self._lives[name],
            is_leader=replica.is_leader,
            leader_epoch=replica.leader_epoch,
            partition_epoch=replica.partition_epoch,
            isr=list(replica.isr),
            isr_recorded=recorded,
            isr_fenced=fenced,
            log_start=replica.log.log_start_offset,
            high_watermark=replica.log.high_watermark,
            log_end=replica.log.log_end_offset,
        )

    def replicas(self, place: Partition) -> dict[str, Replica]:
        wire = WIRE if "/" in place[0] else place
        found = {name: node.broker.replicas.find(*wire) for name, node in self.living() if node.broker is not None}
        return {name: replica for name, replica in found.items() if replica is not None and _name(replica) == place[0]}

    def is_quiet(self, place: Partition) -> bool:
        """Whether every replica of the partition is up, in sync, and has the leader's log end offset."""
        found = self.replicas(place)
        leader = next((replica for replica in found.values() if replica.is_leader), None)
        if (
            leader is None
            or len(leader.isr) < len(leader.replicas)
            or sorted(found) != sorted(map(str, leader.replicas))
        ):
            return False
        ends = {(replica.log.log_end_offset, replica.log.high_watermark) for replica in found.values()}
        return len(ends) == 1

    def contents(self, place: Partition, digest: Digest = of_batches) -> None:
        """Record what the replicas of a quiet partition hold on disk, from the largest of their log start offsets on.
        The replicas may differ below it: a crash may undo a raised log start offset, as in Apache Kafka."""
        held = self.replicas(place)
        start = max(replica.log.local_log_start_offset for replica in held.values())
        for name, replica in held.items():
            log = replica.log
            data = log.read(start, ALL_BYTES).read()
            found = list(batches(data))
            content = ReplicaContent(
                process=name,
                began=self._recorder.now(),
                topic=place[0],
                partition=place[1],
                start=start,
                end=log.high_watermark,
                batches=digest(log, data),
                producers=_producers(replica),
            )
            self._recorder.add(content)
            cached = [
                log.leader_epoch_cache.epoch_for_offset(max(batch.base_offset, log.log_start_offset)) for batch in found
            ]
            written = [batch.partition_leader_epoch for batch in found]
            what = f"leader epochs of {place[0]}-{place[1]}"
            self._recorder.add(
                Rebuilt(process=name, began=self._recorder.now(), what=what, live=repr(cached), rebuilt=repr(written))
            )


def _topic(node: Node, name: str) -> TopicImage | None:
    """Find a topic by its name in the history."""
    topics = node.shared.loader.image.topics
    return topics.by_name(name) if "/" not in name else topics.by_id.get(uuid_from_text(name.partition("/")[2]))


def _name(replica: Replica) -> str:
    return name_in_history(replica.topic, replica.topic_id)


def _producers(replica: Replica) -> str:
    """The last batch of each producer, as text."""
    log = replica.log
    entries = sorted((entry.producer_id, entry) for entry in log.producers.producers.values())
    return repr(
        [
            (number, entry.producer_epoch, entry.batches[-1].last_sequence, entry.batches[-1].last_offset)
            for number, entry in entries
            if entry.batches
        ]
    )


def _plain(value: Any) -> Any:
    """Convert a record to nested tuples, its fields ordered by name."""
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    names = getattr(value, "__slots__", None)
    if names is None or isinstance(value, str | bytes | int):
        return value
    return tuple((name, _plain(getattr(value, name))) for name in names)
