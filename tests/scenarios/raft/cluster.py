"""A quorum of cores that a script moves by hand. Messages are delivered at once and in order, nodes have clocks of
their own, and nothing happens by itself."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from kraft.common.errors import NotLeader
from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import name_of
from kraft.raft.core import events, messages
from kraft.raft.core.config import QuorumConfig
from kraft.raft.core.effects import (
    Append,
    Apply,
    Effects,
    Flush,
    Reply,
    Send,
    SnapshotChunk,
    StartFromSnapshot,
    Truncate,
)
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.raft_node import RaftNode
from kraft.raft.core.roles import Follower
from kraft.raft.core.voter_set import VoterSet
from tests.properties.raft_quorum.disk import Disk, StoredSnapshot
from tests.properties.raft_quorum.simulation import key_of, voter_of

FETCH_TIMEOUT_MS = 2_000
SNAPSHOT_BYTES = b"snapshot"


class ScriptedNode:
    """A core, its disk, its clock."""

    def __init__(self, cluster: ScriptedCluster, node_id: int) -> None:
        self.cluster = cluster
        self.id = node_id
        self.disk = Disk(cluster.bootstrap)
        self.now_ms = 0
        self.applied: list[str] = []
        self.applied_end = 0
        self.syncs = True  # `hold N`: the disk takes writes but never finishes a sync.
        self.answers: list[messages.Response] = []
        self.start()

    def start(self) -> None:
        config = QuorumConfig(local=key_of(self.id), endpoints=voter_of(self.id).endpoints, fetch_wait_ms_max=500)
        self.alive = True
        self.node = RaftNode(config, self.disk.recover(), self.disk.election, random.Random(self.id), self.now_ms)
        self.applied_end = self.node.log.high_watermark
        self.step(events.Tick())

    def step(self, event: events.Event) -> None:
        if self.alive:
            self.carry_out(self.node.step(event, self.now_ms))

    def carry_out(self, effects: Effects) -> None:
        for stage in effects.stages():
            if isinstance(stage, Send):
                self.cluster.wire.append((self.id, stage.to, stage.correlation, stage.request))
            elif isinstance(stage, Reply):
                self.reply(stage)
            elif isinstance(stage, ElectionState):
                self.disk.election = stage
            elif isinstance(stage, Append):
                self.disk.append(stage.batches)
            elif isinstance(stage, Truncate):
                self.disk.truncate(stage.end_offset)
            elif isinstance(stage, Flush):
                if not self.syncs:
                    return
                self.disk.sync()
                self.cluster.later.append((self, events.LogFlushed(stage.end_offset, stage.generation)))
            elif isinstance(stage, SnapshotChunk):
                stored = self.cluster.snapshots[stage.snapshot]
                self.disk.snapshots[stage.snapshot] = stored[0]
                self.cluster.later.append((self, events.SnapshotDownloaded(stage.snapshot, stored[0].voters, 1)))
            elif isinstance(stage, StartFromSnapshot):
                self.disk.start_from(stage.snapshot)
                self.applied, self.applied_end = list(self.cluster.snapshots[stage.snapshot][1]), stage.snapshot.offset
            elif isinstance(stage, Apply):
                self.apply(stage.high_watermark)

    def apply(self, high_watermark: int) -> None:
        for batch in self.disk.read(self.applied_end, high_watermark, 1 << 30):
            if isinstance(batch.payload, str):
                self.applied.append(batch.payload)
            self.applied_end = batch.end_offset

    def reply(self, reply: Reply) -> None:
        response: Any = reply.response
        if isinstance(response, messages.FetchResponse) and response.offset >= 0:
            response = response._replace(batches=self.disk.read(response.offset, response.end_offset, 1 << 30))
        elif isinstance(response, messages.FetchSnapshotResponse) and response.error == 0:
            response = response._replace(size=len(SNAPSHOT_BYTES), data=SNAPSHOT_BYTES)
        if isinstance(reply.token, tuple):
            self.cluster.wire.append((self.id, reply.token[0], reply.token[1], response))
        else:
            self.answers.append(response)

    def log(self) -> list[str]:
        return [batch.payload for batch in self.disk.entries if isinstance(batch.payload, str)]

    def describe(self) -> str:
        if not self.alive:
            return f"{self.id} down"
        return f"{self.id} {self.node.role.name.lower()} epoch {self.node.epoch}"


class ScriptedCluster:
    """One method a verb; each returns what the script expects behind its arrow."""

    def __init__(self) -> None:
        self.nodes: dict[int, ScriptedNode] = {}
        self.wire: deque[tuple[int, int, int, Any]] = deque()
        self.later: deque[tuple[ScriptedNode, events.Event]] = deque()
        self.cuts: set[tuple[int, int]] = set()
        self.snapshots: dict[OffsetAndEpoch, tuple[StoredSnapshot, list[str]]] = {}
        self.bootstrap = VoterSet()

    # Verbs

    def voters(self, *ids: int) -> str:
        """Begin: these nodes vote."""
        self.bootstrap = VoterSet(voter_of(node_id) for node_id in ids)
        for node_id in ids:
            self.nodes[node_id] = ScriptedNode(self, node_id)
        self.settle()
        return ""

    def observers(self, *ids: int) -> str:
        for node_id in ids:
            self.nodes[node_id] = ScriptedNode(self, node_id)
        self.settle()
        return ""

    def elect(self, node_id: int) -> str:
        """Let `node_id` time out, and everybody whom it reaches forget that they hear of a leader."""
        for _ in range(2):  # A resigned leader first leaves its epoch.
            for other in self.nodes.values():
                if isinstance(other.node.role, Follower) and (node_id, other.id) not in self.cuts:
                    other.node.role.has_fetched = False
            if not self.nodes[node_id].node.is_leader:
                self.wait(node_id, 2 * FETCH_TIMEOUT_MS)
        return self.leader(node_id)

    def leader(self, node_id: int) -> str:
        found = self.nodes[node_id].node
        return f"leader {node_id} epoch {found.epoch}" if found.is_leader else self.nodes[node_id].describe()

    def wait(self, node_id: int, ms: int) -> str:
        """Time passes for one node."""
        node = self.nodes[node_id]
        node.now_ms += ms
        node.step(events.Tick())
        self.settle()
        return node.describe()

    def append(self, node_id: int, text: str) -> str:
        node = self.nodes[node_id]
        try:
            offset, effects = node.node.append(node.node.epoch, 1, text, node.now_ms)
        except NotLeader:
            return "not leader"
        node.carry_out(effects)
        self.settle()
        return f"offset {offset} {'committed' if node.node.log.high_watermark > offset else 'uncommitted'}"

    def cut(self, node_id: int, *others: int) -> str:
        self.cuts |= {pair for other in others for pair in ((node_id, other), (other, node_id))}
        return ""

    def heal(self) -> str:
        """Everybody reaches everybody again, and has had time to notice."""
        self.cuts.clear()
        for _ in range(6):
            for node in self.nodes.values():
                node.now_ms += 700
                node.step(events.Tick())
                self.settle()
        return self.state()

    def hold(self, node_id: int) -> str:
        self.nodes[node_id].syncs = False
        return ""

    def crash(self, node_id: int) -> str:
        """Power fails: what is not synced is gone."""
        node = self.nodes[node_id]
        node.alive = False
        del node.disk.entries[node.disk.synced :]
        node.disk.sync()
        return node.describe()

    def restart(self, node_id: int) -> str:
        node = self.nodes[node_id]
        node.syncs = True
        node.start()
        started = node.describe()
        self.settle()
        return started

    def add(self, leader_id: int, node_id: int) -> str:
        return self.change(leader_id, messages.AddVoterRequest(voter_of(node_id)))

    def remove(self, leader_id: int, node_id: int) -> str:
        return self.change(leader_id, messages.RemoveVoterRequest(key_of(node_id)))

    def change(self, leader_id: int, request: messages.Request) -> str:
        leader = self.nodes[leader_id]
        leader.answers.clear()
        leader.step(events.RequestReceived("script", request))
        self.settle()
        return name_of(leader.answers[0].error).lower() if leader.answers else "pending"  # type: ignore[union-attr]

    def snapshot(self, node_id: int) -> str:
        """Freeze what is applied and drop the log before it."""
        node = self.nodes[node_id]
        log, end = node.node.log, node.applied_end
        taken = OffsetAndEpoch(end, log.epoch_at(end - 1))
        stored = StoredSnapshot(0, *log.history.at(end))
        self.snapshots[taken] = (stored, list(node.applied))
        node.disk.snapshots[taken] = stored
        node.step(events.SnapshotCreated(taken))
        node.disk.advance_start(taken)
        node.step(events.LogStartAdvanced(taken))
        return f"{taken.offset}-{taken.epoch}"

    def shutdown(self, node_id: int) -> str:
        self.nodes[node_id].step(events.ShutdownRequested())
        self.settle()
        self.nodes[node_id].alive = False
        return self.state()

    def log(self, *ids: int) -> str:
        logs = [self.nodes[node_id].log() for node_id in ids]
        assert all(found == logs[0] for found in logs), f"logs differ: {logs}"
        return " ".join(f'"{text}"' for text in logs[0])

    def applied(self, *ids: int) -> str:
        return " | ".join(
            f"{node_id} " + " ".join(f'"{text}"' for text in self.nodes[node_id].applied) for node_id in ids
        )

    def state(self) -> str:
        return ", ".join(node.describe() for node in self.nodes.values())

    def set_of(self, *ids: int) -> str:
        return " | ".join(" ".join(map(str, self.nodes[node_id].node.voters.ids)) for node_id in ids)

    # The network

    def settle(self) -> None:
        """Deliver until nobody has anything to say."""
        for _ in range(10_000):
            if self.later:
                node, event = self.later.popleft()
                node.step(event)
            elif self.wire:
                self.deliver(*self.wire.popleft())
            else:
                return
        raise AssertionError("the nodes never fall silent")

    def deliver(self, source: int, target: int, correlation: int, message: Any) -> None:
        node = self.nodes.get(target)
        if (source, target) in self.cuts or node is None or not node.alive:
            if isinstance(message, messages.Request) and (source, target) not in self.cuts:
                self.later.append((self.nodes[source], events.RequestFailed(correlation)))
        elif isinstance(message, messages.ProbeVersionsRequest):
            self.wire.append((target, source, correlation, messages.ProbeVersionsResponse(0, 1)))
        elif isinstance(message, messages.Request):
            node.step(events.RequestReceived((source, correlation), message))
        else:
            node.step(events.ResponseReceived(correlation, message))
