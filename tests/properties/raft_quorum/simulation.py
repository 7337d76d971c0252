"""A quorum of cores under a seeded heap of events: a network that loses, repeats, reorders and cuts one way, disks
that lose what is not synced, crashes between any two effects, restarts, changes of voters, snapshots. No trio, no
clock: two thousand events take some fifty milliseconds.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from kraft.common.errors import NotLeader
from kraft.common.ids import OffsetAndEpoch
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
    Stage,
    StartFromSnapshot,
    Truncate,
)
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.epoch_allowance import ANSWERED_EPOCH_MAX, CLAIMED_RISE_MAX, EPOCH_MAX
from kraft.raft.core.raft_node import RaftNode
from kraft.raft.core.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from tests.properties.raft_quorum.disk import Disk, StoredSnapshot
from tests.properties.raft_quorum.invariants import Invariants, require

EVENTS = 2_000
"""Of a run that counts."""
READ_BATCHES = 6
CHUNK_BYTES = 3
STRANGER = (99, (0, 0), None)
"""Who asked, where a request came with no token."""


class Crash(Exception):
    """The replica died in the middle of its effects."""


def voter_of(node_id: int) -> Voter:
    return Voter(key_of(node_id), (Endpoint("CONTROLLER", f"host{node_id}", 9093),), 0, 1)


def key_of(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, bytes(15) + bytes([100 + node_id]))


class Replica:
    """One node: a core, its disk, and the effects it has not carried out yet."""

    def __init__(self, simulation: Simulation, node_id: int) -> None:
        self.simulation = simulation
        self.id = node_id
        self.disk = Disk(simulation.bootstrap)
        self.incarnation = 0
        self.alive = False
        self.start()

    def start(self) -> None:
        simulation = self.simulation
        self.incarnation += 1
        simulation.incarnations += 1
        self.alive = True
        self.busy = False
        self.queue: list[Effects] = []
        config = QuorumConfig(
            local=key_of(self.id),
            endpoints=voter_of(self.id).endpoints,
            bootstrap=tuple(voter.endpoints for voter in simulation.bootstrap.voters),
            auto_join=simulation.auto_join,
            election_timeout_ms=100,
            fetch_timeout_ms=200,
            election_backoff_ms_max=100,
            request_timeout_ms=150,
            retry_backoff_ms=10,
            fetch_wait_ms_max=60,
            haste_ms_max=15,
        )
        self.node = RaftNode(
            config, self.disk.recover(), self.disk.election, random.Random(simulation.rng.random()), simulation.now
        )
        self.epoch_seen = self.disk.election.epoch
        self.applied = self.node.log.high_watermark
        self.high_watermark_seen = self.node.log.high_watermark
        self.majority_seen = -1
        self.tick_at = simulation.now
        self.downloads: dict[OffsetAndEpoch, int] = {}
        simulation.schedule(0, self.tick, self.incarnation, simulation.now)

    def tick(self, incarnation: int, at: int) -> None:
        if self.alive and incarnation == self.incarnation and at == self.tick_at:
            self.tick_at = -1
            self.step(events.Tick())

    def step(self, event: events.Event) -> None:
        self.take(self.node.step(event, self.simulation.now))

    def take(self, effects: Effects) -> None:
        simulation = self.simulation
        simulation.invariants.after_step(self)
        deadline = max(self.node.deadline_ms, simulation.now + 1)
        if self.tick_at < 0 or deadline < self.tick_at:
            self.tick_at = deadline
            simulation.schedule(deadline - simulation.now, self.tick, self.incarnation, deadline)
        if not effects:
            return
        if not self.busy and effects.election is None and not effects.log:
            self.perform(effects)
            return
        self.queue.append(effects)
        if not self.busy:
            self.busy = True
            simulation.schedule(simulation.rng.randrange(4), self.perform_queued, self.incarnation)

    def perform_queued(self, incarnation: int) -> None:
        if not self.alive or incarnation != self.incarnation:
            return
        effects, self.queue = Effects.merge(self.queue), []
        done = self.perform(effects)
        if not self.alive:
            return
        self.busy = bool(self.queue)
        if self.busy:
            self.simulation.schedule(self.simulation.rng.randrange(4), self.perform_queued, self.incarnation)
        for event in done:
            self.step(event)

    def perform(self, effects: Effects) -> list[events.Event]:
        done: list[events.Event] = []
        doomed = (
            self.simulation.chaos
            and bool(effects.log or effects.election)
            and self.simulation.rng.random() < self.simulation.crash_rate
        )
        try:
            for stage in effects.stages():
                if doomed and self.simulation.rng.random() < 0.4:
                    raise Crash
                self.perform_stage(stage, done)
        except Crash:
            self.simulation.crash(self)
        return done

    def perform_stage(self, stage: Stage, done: list[events.Event]) -> None:
        if isinstance(stage, Send):
            self.simulation.invariants.before_send(self, stage)
            self.simulation.transmit(self, stage)
        elif isinstance(stage, Reply):
            self.answer(stage)
        elif isinstance(stage, ElectionState):
            require(stage.epoch >= self.disk.election.epoch, "a stored epoch never falls")
            self.disk.election = stage
        elif isinstance(stage, Append):
            self.disk.append(stage.batches)
        elif isinstance(stage, Flush):
            self.disk.sync()
            done.append(events.LogFlushed(stage.end_offset, stage.generation))
        elif isinstance(stage, Truncate):
            self.disk.truncate(stage.end_offset)
        elif isinstance(stage, SnapshotChunk):
            self.write_chunk(stage, done)
        elif isinstance(stage, StartFromSnapshot):
            self.disk.start_from(stage.snapshot)
            self.applied = max(self.applied, stage.snapshot.offset)
        elif isinstance(stage, Apply):
            self.apply(stage.high_watermark)

    def write_chunk(self, chunk: SnapshotChunk, done: list[events.Event]) -> None:
        require(
            self.downloads.get(chunk.snapshot, 0) == chunk.position or chunk.position == 0, "a download has no holes"
        )
        self.downloads[chunk.snapshot] = chunk.position + len(chunk.data)
        if chunk.last:
            stored = self.simulation.snapshot_contents[chunk.snapshot]
            require(
                stored.digest == self.simulation.invariants.digests[chunk.snapshot.offset],
                "a snapshot holds the committed prefix",
            )
            self.disk.snapshots[chunk.snapshot] = stored
            done.append(events.SnapshotDownloaded(chunk.snapshot, stored.voters, stored.kraft_version))

    def answer(self, reply: Reply) -> None:
        response = reply.response
        node = self.node
        if reply.epoch >= 0 and (node.epoch != reply.epoch or not node.is_leader):
            return  # What would be read now is no longer that leader's log.
        if isinstance(response, messages.FetchResponse) and response.offset >= 0:
            response = response._replace(batches=self.disk.read(response.offset, response.end_offset, READ_BATCHES))
        elif isinstance(response, messages.FetchSnapshotResponse) and response.error == 0:
            size = 3 * CHUNK_BYTES
            response = response._replace(size=size, data=bytes(CHUNK_BYTES) if response.position < size else b"")
        elif isinstance(response, messages.VoteResponse) and response.granted:
            requester, _, request = reply.token or STRANGER  # type: ignore[misc]  # The simulation's own token.
            if request is not None and not request.pre_vote:
                self.simulation.invariants.vote_is_kept(self, request.epoch, requester)
        self.simulation.transmit_response(self, reply.token, response)

    def apply(self, high_watermark: int) -> None:
        if high_watermark <= self.applied:
            return
        for batch in self.disk.read(self.applied, high_watermark, 1 << 30):
            self.simulation.invariants.applied(self, batch)
            self.applied = batch.end_offset

    def snapshot(self) -> None:
        """Freeze what is applied, and sometimes drop the log before it."""
        offset = self.applied
        log = self.node.log
        if self.busy or offset <= log.start_offset or any(kept.offset >= offset for kept in log.snapshots):
            return
        taken = OffsetAndEpoch(offset, log.epoch_at(offset - 1))
        stored = StoredSnapshot(self.simulation.invariants.digests[offset], *log.history.at(offset))
        self.simulation.snapshot_contents[taken] = stored
        self.disk.snapshots[taken] = stored
        self.step(events.SnapshotCreated(taken))
        if self.alive and not self.busy and self.simulation.rng.random() < 0.7:
            before = self.disk.start_offset
            self.disk.advance_start(taken)
            if self.disk.start_offset != before:
                self.step(events.LogStartAdvanced(taken))


class Simulation:
    """One run. `run(count)` pops `count` events; everything is drawn from `seed`."""

    def __init__(self, seed: int, *, strangers: bool = False) -> None:
        """With `strangers`, requests also come from somebody who is no member."""
        self.rng = rng = random.Random(seed)
        self.strangers = strangers
        self.seed = seed
        self.auto_join = seed % 4 == 3  # Observers, and voters that were removed, add themselves.
        self.now = 0
        self.chaos = True
        self.heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.sequence = 0
        self.popped = 0
        self.cuts: set[tuple[int, int]] = set()
        self.snapshot_contents: dict[OffsetAndEpoch, StoredSnapshot] = {}
        count = rng.choice((1, 2, 3, 3, 3, 4, 5, 5))
        voters = count if rng.random() < 0.6 else rng.randint(1, count)
        self.bootstrap = VoterSet(voter_of(node_id) for node_id in range(1, voters + 1))
        self.loss = rng.choice((0.0, 0.02, 0.1))
        self.repeat = rng.choice((0.0, 0.05))
        self.slow = rng.choice((0.0, 0.05, 0.2))
        self.crash_rate = rng.choice((0.0, 0.01, 0.05))
        self.invariants = Invariants(self)
        self.replicas: dict[int, Replica] = {}
        self.appended = 0
        self.incarnations = 0
        for node_id in range(1, count + 1):
            self.replicas[node_id] = Replica(self, node_id)
        self.schedule(30, self.client)
        self.schedule(200, self.fault)
        if strangers:
            self.schedule(50, self.strange_request)

    def schedule(self, delay: int, action: Callable[..., None], *args: Any) -> None:
        self.sequence += 1
        heapq.heappush(self.heap, (self.now + delay, self.sequence, action, args))

    def run(self, count: int) -> None:
        heap = self.heap
        for _ in range(count):
            self.now, _, action, args = heapq.heappop(heap)
            self.popped += 1
            action(*args)

    # Network

    def delay(self) -> int | None:
        """Milliseconds on the way; None if lost."""
        rng = self.rng
        draw = rng.random()
        if not self.chaos:
            return 1 + int(draw * 4)
        if draw < self.loss:
            return None
        if draw < self.loss + self.slow:
            return rng.randrange(10, 300)
        return 1 + int(draw * 8)

    def transmit(self, source: Replica, message: Send) -> None:
        target = message.to if message.to > 0 else self.bootstrap.ids[-message.to - 2]
        copies = 2 if self.chaos and self.rng.random() < self.repeat else 1
        for _ in range(copies):
            delay = self.delay()
            if delay is not None:
                token = (source.id, (source.incarnation, message.correlation), message.request)
                self.schedule(delay, self.deliver, source.id, target, token)

    def deliver(self, source: int, target: int, token: tuple[int, tuple[int, int], Any]) -> None:
        if (source, target) in self.cuts:
            return
        replica = self.replicas[target]
        if not replica.alive:
            if (target, source) not in self.cuts and self.rng.random() < 0.7:
                self.refuse(source, token[1])
        elif isinstance(token[2], messages.ProbeVersionsRequest):
            self.transmit_response(replica, token, messages.ProbeVersionsResponse(0, 1))
        else:
            replica.step(events.RequestReceived(token, token[2]))

    def refuse(self, source: int, correlation: tuple[int, int]) -> None:
        replica = self.replicas[source]
        if replica.alive and replica.incarnation == correlation[0]:
            replica.step(events.RequestFailed(correlation[1], refused=True))

    def transmit_response(self, source: Replica, token: Any, response: messages.Response) -> None:
        if token is None:
            return
        delay = self.delay()
        if delay is not None:
            self.schedule(delay, self.deliver_response, source.id, token[0], token[1], response)

    def deliver_response(
        self, source: int, target: int, correlation: tuple[int, int], response: messages.Response
    ) -> None:
        replica = self.replicas[target]
        if (source, target) not in self.cuts and replica.alive and replica.incarnation == correlation[0]:
            replica.step(events.ResponseReceived(correlation[1], response))

    # Who uses the quorum

    def client(self) -> None:
        """Append through everybody who believes to lead."""
        self.schedule(self.rng.randrange(5, 60), self.client)
        for replica in self.leaders():
            self.appended += 1
            try:
                _, effects = replica.node.append(
                    replica.node.epoch, self.rng.choice((1, 1, 3)), (replica.id, self.appended), self.now
                )
            except NotLeader:
                continue
            replica.take(effects)

    def leaders(self) -> list[Replica]:
        return [replica for replica in self.replicas.values() if replica.alive and replica.node.is_leader]

    # Faults

    def fault(self) -> None:
        if not self.chaos:
            return
        self.schedule(self.rng.randrange(20, 300), self.fault)
        disturb = (
            self.fault_crash,
            self.fault_cut,
            self.fault_isolate_leader,
            self.fault_voters,
            self.fault_voters,
            self.fault_snapshot,
        )
        mend = (self.fault_restart, self.fault_restart, self.fault_heal)
        self.rng.choice((*disturb, *mend))()

    def fault_crash(self) -> None:
        self.crash(self.rng.choice(list(self.replicas.values())))

    def crash(self, replica: Replica) -> None:
        if replica.alive:
            replica.alive = False
            replica.disk.crash(self.rng, power=self.rng.random() < 0.7)

    def fault_restart(self) -> None:
        for replica in self.replicas.values():
            if not replica.alive:
                replica.start()
                return

    def fault_cut(self) -> None:
        a, b = self.rng.choice(list(self.replicas)), self.rng.choice(list(self.replicas))
        self.cuts.add((a, b))
        if self.rng.random() < 0.5:
            self.cuts.add((b, a))

    def fault_isolate_leader(self) -> None:
        for leader in self.leaders()[:1]:
            for other in self.replicas:
                if other != leader.id:
                    self.cuts.add((leader.id, other))
                    self.cuts.add((other, leader.id))

    def fault_heal(self) -> None:
        self.cuts.clear()

    def fault_voters(self) -> None:
        for leader in self.leaders():
            node_id = self.rng.choice(list(self.replicas))
            request: messages.Request
            if leader.node.voters.get(node_id) is None:
                request = messages.AddVoterRequest(voter_of(node_id), 500)
            else:
                request = messages.RemoveVoterRequest(key_of(node_id), 500)
            leader.step(events.RequestReceived(None, request))

    def fault_snapshot(self) -> None:
        replica = self.rng.choice(list(self.replicas.values()))
        if replica.alive:
            replica.snapshot()

    def strange_request(self) -> None:
        """What anybody who reaches the port can send: a Vote for a stranger, or a word of any other kind in an epoch
        that no election can have reached."""
        if self.chaos:
            self.schedule(self.rng.randrange(20, 100), self.strange_request)
        replica = self.rng.choice(list(self.replicas.values()))
        if not replica.alive:
            return
        near = replica.node.epoch + self.rng.choice((1, 50, 4_000))
        far = self.rng.choice((replica.node.epoch + CLAIMED_RISE_MAX + 1, ANSWERED_EPOCH_MAX, EPOCH_MAX - 1, EPOCH_MAX))
        log = replica.node.log
        stranger, leader_id = key_of(99), next(key for key in (1, 2) if key != replica.id)
        vote = messages.VoteRequest(near, stranger, min(log.last_epoch, near - 1), log.end_offset)
        request = self.rng.choice(
            (
                vote,
                vote._replace(epoch=far),
                vote._replace(epoch=far, pre_vote=True),
                messages.BeginQuorumEpochRequest(far, leader_id),
                messages.EndQuorumEpochRequest(far, leader_id),
            )
        )
        replica.step(events.RequestReceived(None, request))

    # The end

    def settle(self, limit: int) -> None:
        """No more faults: within `limit` events every replica applies a record appended from now on.

        Beside strangers only voters are waited for: one that a stranger has told of an epoch beyond the leader's, and
        that the leader has no reason to address, hears of the quorum with its next elections.
        """
        self.chaos = False
        self.cuts.clear()
        for replica in self.replicas.values():
            if not replica.alive:
                replica.start()
        target = len(self.invariants.committed) + 5
        for _ in range(limit // 50):
            self.run(50)
            voters = self.invariants.committed_voters.ids
            awaited = [self.replicas[node_id] for node_id in voters] if self.strangers else self.replicas.values()
            if all(replica.applied >= target for replica in awaited):
                return
        state = {
            r.id: (r.node.role.name, r.node.epoch, r.node.log.end_offset, r.applied, str(r.node.voters))
            for r in self.replicas.values()
        }
        raise AssertionError(f"seed {self.seed}: no progress to {target} after the faults: {state}")
