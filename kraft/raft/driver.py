"""`RaftDriver`: one replica of the metadata quorum under trio. It carries out the core's decisions, in the order of
`Effects`, and makes none itself.

Every event (a request, a response, an append, the clock) is stepped through the core immediately, on the loop, and its
effects are queued. One task takes all queued effects, merges them and carries them out: election state and log are
written and synced once for all of them (the group commit), then messages are sent, then listeners are woken. During a
sync, the next effects are queued.

Nothing else writes the files. A failed write or sync ends the node, because only reading the disk again shows what
reached it. Only a full disk is waited for (`disk_space.py`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import trio

from kraft.common.disk_times import DiskTimes
from kraft.common.errors import CorruptData, OutOfResources
from kraft.common.ids import OffsetAndEpoch, uuid_to_text
from kraft.common.logging import Logger
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.schema import Message
from kraft.raft.append_batches import Appended, encode_batch, split
from kraft.raft.core import events
from kraft.raft.core import messages as core
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
from kraft.raft.core.raft_node import RaftNode
from kraft.raft.core.roles import Leader
from kraft.raft.core.voter_set import VoterSet
from kraft.raft.disk_space import DiskSpaceMonitor, full_disk_explained
from kraft.raft.listener_feed import ListenerFeed
from kraft.raft.log_retention import should_roll, trim
from kraft.raft.peer_exchange import PeerExchange, choose
from kraft.raft.ports import CommittedBatch, LeaderAndEpoch, RaftChannel, RaftListener, RecordSerde
from kraft.raft.quorum_description import describe_quorum
from kraft.raft.quorum_requests import LATEST, QuorumRequests, Waiter
from kraft.raft.quorum_storage import QuorumStorage
from kraft.raft.quorum_warnings import QuorumWarnings
from kraft.raft.raft_config import RaftConfig
from kraft.raft.raft_metrics import RaftMetrics
from kraft.raft.snapshot.snapshot_answer import with_bytes, with_records
from kraft.raft.snapshot.snapshot_reader import SnapshotReader
from kraft.raft.snapshot.snapshot_writer import SnapshotWriter
from kraft.raft.start_checks import refuse_impossible_election, replaced_voter
from kraft.world.ports import World

CLEAN_INTERVAL_S = 60.0


class RaftDriver:
    """One replica of the quorum; see the module. The constructor blocks, because it reads the whole log. The replica is
    active inside `run`."""

    def __init__(self, config: RaftConfig, world: World, channel: RaftChannel, serde: RecordSerde, log: Logger) -> None:
        """Opens the log. Raises CorruptData, OSError; OutOfResources if the disk is full; ConfigurationError if no
        leader can ever be elected."""
        self.config = config
        self._world = world
        self._serde = serde
        self._logger = log
        with full_disk_explained(world.files, config.metadata_log_directory):
            self._storage = QuorumStorage(
                world.files, config.metadata_log_directory, serde, segment_bytes=config.segment_bytes
            )
            state = self._storage.recover(config.static_voters, is_controller=config.quorum.can_be_voter)
        self._disk_space = DiskSpaceMonitor(world, self._storage.directory, config.reserve_bytes, log)
        self.disks = DiskTimes(world.clock)
        self._synced_end = state.end_offset
        refuse_impossible_election(config.quorum, state.voters, self._storage.directory)
        self._node = RaftNode(
            config.quorum,
            state,
            self._storage.state.load(state.last_epoch),
            world.random.stream("raft"),
            self._now_ms(),
        )
        self._warnings = QuorumWarnings(self._node, self._disk_space, self.voter_endpoints, world.clock, log)
        self._queued: list[Effects] = []
        self._recent: dict[int, CommittedBatch] = {}
        self._feeds: list[ListenerFeed] = []
        self._nursery: trio.Nursery | None = None
        self._applied = state.high_watermark
        self._high_watermark_known = self._clean_wanted = False
        self._exchange = PeerExchange(
            channel, world.clock, config.listener_name, config.quorum.request_timeout_ms / 1000, self._step, log
        )
        self.requests = QuorumRequests(self._step)
        self._work, self._shut_down = trio.Event(), trio.Event()
        self.metrics = RaftMetrics(world.clock)
        if self._storage.log.cut_bytes:
            log.warning("metadata log had a torn tail", bytes=self._storage.log.cut_bytes, end_offset=state.end_offset)
        replaced = replaced_voter(config.quorum, state.voters)
        if replaced is not None and config.quorum.can_be_voter and not config.quorum.auto_join:
            log.warning(
                "this node does not vote: the voter of its id has another disk",
                voter_directory_id=uuid_to_text(replaced.directory_id),
                remedy=f"kraft quorum remove-voter {replaced.id}, then kraft quorum add-voter {replaced.id}",
            )

    # Start and stop

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take part in the quorum until `shutdown` has finished or the task is cancelled. Raises the exception of a
        listener, and OSError of the metadata disk."""
        try:
            self._disk_space.fill()
            async with trio.open_nursery() as raft_nursery:
                self._nursery = raft_nursery
                for feed in self._feeds:
                    raft_nursery.start_soon(feed.run, self._forget_delivered)
                raft_nursery.start_soon(self._clean_periodically)
                raft_nursery.start_soon(self._disk_space.keep_reserve)
                raft_nursery.start_soon(self._warnings.watch_for_leader)
                self._step(events.Tick())
                task_status.started()
                try:
                    await self._carry_out()
                finally:
                    self._nursery = None
                raft_nursery.cancel_scope.cancel()
        finally:
            self.requests.refuse_all()
            self._storage.close()

    async def _carry_out(self) -> None:
        """Carry out the queued effects. The only task that writes and sends."""
        clock = self._world.clock
        while not self._node.is_shut_down:
            if self._clean_wanted:
                with contextlib.suppress(OutOfResources):  # Rolling and deletion can wait.
                    await self._clean()
            if not self._queued:
                self._work = trio.Event()
                with clock.move_on_at(self._node.deadline_ms / 1000) as scope:
                    await self._work.wait()
                if scope.cancelled_caught:
                    self._step(events.Tick())
                continue
            taken = len(
                self._queued
            )  # Effects stay queued until they are carried out: `election_is_saved` checks the queue.
            done = await self._perform(Effects.merge(self._queued))
            del self._queued[:taken]
            for event in done:
                self._step(event)
        self._shut_down.set()

    async def shutdown(self) -> None:
        """Leave the quorum gracefully: a leader resigns and notifies the voters, then `run` returns."""
        self._step(events.ShutdownRequested())
        self._work.set()
        with self._world.clock.move_on_after(self.config.shutdown_timeout_s):
            await self._shut_down.wait()
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def _now_ms(self) -> int:
        return int(self._world.clock.now() * 1000)

    def _step(self, event: events.Event) -> None:
        self._queue(self._node.step(event, self._now_ms()))
        self._warnings.look_for_refused_epochs()

    def _queue(self, effects: Effects) -> None:
        if effects:
            self._queued.append(effects)
        self._work.set()
        for feed in self._feeds:
            feed.wake()

    # State of the quorum as this node knows it

    @property
    def node_id(self) -> int:
        return self.config.quorum.local.id

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """The leader that this node knows now. Listeners are notified later, in order with committed records."""
        hint = self._node.leader
        return LeaderAndEpoch(hint.leader_id, hint.epoch)

    def require_room(self, *, grows: bool) -> None:
        """Raises ApiError KAFKA_STORAGE_ERROR while the disk is too full for `append`. `grows`: the records make the
        metadata larger."""
        self._disk_space.require(grows=grows)

    @property
    def is_leader(self) -> bool:
        return self._node.is_leader

    @property
    def election(self) -> ElectionState:
        """Epoch, vote and leader as decided by this node. A new state may not be on disk yet."""
        return self._node.election

    @property
    def election_is_saved(self) -> bool:
        """Whether the `election` is on disk. Until then no message that depends on it has been sent."""
        return all(effects.election is None for effects in self._queued)

    @property
    def high_watermark(self) -> int:
        """The offset after the last record known to be committed."""
        return self._node.log.high_watermark

    def known_high_watermark(self) -> int | None:
        """The high watermark once a leader has reported it since this node started; None before."""
        return self._node.log.high_watermark if self._high_watermark_known else None

    @property
    def log_end_offset(self) -> int:
        return self._node.log.end_offset

    @property
    def log_durable_end(self) -> int:
        """The offset after the last record known to be synced."""
        return self._node.log.flushed_end

    @property
    def log_end_epoch(self) -> int:
        """The epoch of the last record; 0 for an empty log."""
        return self._node.log.last_epoch

    @property
    def log_start_offset(self) -> int:
        return self._node.log.start_offset

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self._node.log.latest_snapshot

    @property
    def voters(self) -> VoterSet:
        return self._node.voters

    @property
    def voters_are_committed(self) -> bool:
        """Whether the voter set in effect is from a committed record."""
        return self._node.log.history.latest_offset < self._node.log.high_watermark

    @property
    def kraft_version(self) -> int:
        return self._node.log.history.kraft_version

    def voter_endpoints(self) -> list[tuple[int, str, int]]:
        """(node id, host, port) of every voter that has an endpoint."""
        found = []
        for voter in self._node.voters.voters:
            endpoint = choose(voter.endpoints, self.config.listener_name)
            if endpoint is not None:
                found.append((voter.key.id, endpoint[0], endpoint[1]))
        return found

    def leader_endpoint(self) -> tuple[int, str, int] | None:
        """(node id, host, port) of the leader, even if only the leader itself has reported its endpoint."""
        hint = self._node.leader
        endpoint = choose(hint.endpoints, self.config.listener_name)
        return None if hint.leader_id < 0 or endpoint is None else (hint.leader_id, *endpoint)

    # For the state machine

    def register(self, listener: RaftListener) -> None:
        """Deliver the latest snapshot and everything committed, from the start, to `listener`."""
        feed = ListenerFeed(listener, self, self._serde, self._recent, self._world.clock)
        self._feeds.append(feed)
        if self._nursery is not None:
            self._nursery.start_soon(feed.run, self._forget_delivered)

    def encode(self, records: Sequence[Any], level: int | None) -> list[bytes]:
        """Return the records as encoded in the log at this level of metadata.version, for `append`. A caller with
        thousands of records encodes them in pieces."""
        return [self._serde.encode(record, level) for record in records]

    def append(
        self, epoch: int, records: Sequence[Any], *, atomic: bool = True, encoded: Sequence[bytes] | None = None
    ) -> int:
        """Append `records` in `epoch`. Returns the offset of the last record.

        They are committed when a listener receives them, or never. `encoded` is the result of `encode` for all records.
        Without it they are encoded for the lowest level. With `atomic` they are one batch, committed or lost together.
        Raises NotLeader; ApiError if they are too large for one batch.
        """
        values = self.encode(records, None) if encoded is None else encoded
        timestamp_ms, last_offset, position = self._world.clock.wall_ms(), -1, 0
        for chunk in split(values, self.config.batch_bytes_max, atomic):
            base, effects = self._node.append(epoch, len(chunk), Appended(tuple(chunk), timestamp_ms), self._now_ms())
            last_offset = base + len(chunk) - 1
            taken = tuple(records[position : position + len(chunk)])
            self._recent[base] = CommittedBatch(base, last_offset, epoch, timestamp_ms, taken, sum(map(len, chunk)))
            position += len(chunk)
            self._queue(effects)
        return last_offset

    def resign(self, epoch: int) -> None:
        """Step down: the state machine cannot lead `epoch` any longer."""
        self._step(events.ResignRequested(epoch))

    def create_snapshot(self, snapshot: OffsetAndEpoch, last_contained_timestamp_ms: int) -> SnapshotWriter | None:
        """Start a snapshot of everything before `snapshot.offset`, which must be committed. None if there is one at
        least as new, or the log starts after it."""
        log = self._node.log
        newest = log.latest_snapshot
        if (
            snapshot.offset <= log.start_offset
            or snapshot.offset > self._applied
            or (newest is not None and newest.offset >= snapshot.offset)
        ):
            return None
        return self._storage.begin_snapshot(
            snapshot, log.history, last_contained_timestamp_ms, self._world, self._on_frozen
        )

    def _on_frozen(self, snapshot: OffsetAndEpoch) -> None:
        newest = self._node.log.latest_snapshot
        if newest is None or snapshot.offset > newest.offset:
            self._step(events.SnapshotCreated(snapshot))
            self._logger.info("metadata snapshot written", end_offset=snapshot.offset, epoch=snapshot.epoch)
        self.clean()

    def clean(self) -> None:
        """Request that log and snapshots are trimmed to their limits soon, by the task that owns the files."""
        self._clean_wanted = True
        self._work.set()

    # For the feeds

    @property
    def applied_offset(self) -> int:
        return self._applied

    @property
    def leader_to_tell(self) -> tuple[LeaderAndEpoch, int]:
        role = self._node.role
        return self.leader_and_epoch, role.epoch_start + 1 if isinstance(role, Leader) else 0

    def open_snapshot(self, snapshot: OffsetAndEpoch) -> SnapshotReader:
        return self._storage.open_snapshot(snapshot)

    def read_committed(self, offset: int, max_bytes: int) -> bytes:
        return self._storage.log.read(offset, self._applied, max_bytes)

    def _forget_delivered(self) -> None:
        delivered = min(feed.next_offset for feed in self._feeds)
        for base in [base for base in self._recent if base < delivered]:
            del self._recent[base]

    # Carrying out effects

    async def _perform(self, effects: Effects) -> list[events.Event]:
        """Carry out each stage in order. Returns the events to report to the core."""
        done: list[events.Event] = []
        self.metrics.saw(self._node.role)
        for stage in effects.stages():
            if isinstance(stage, Send | Reply):
                self._send(stage) if isinstance(stage, Send) else self._reply(stage)
            else:
                await self._disk_space.until_written(self._write, stage, done)
        return done

    async def _write(self, stage: Stage, done: list[events.Event]) -> None:
        run, storage = self._world.threads.run, self._storage
        if isinstance(stage, ElectionState):
            await run(storage.state.save, stage, self._node.voters, self.kraft_version)
            self._logger.info(
                "quorum state", epoch=stage.epoch, leader=stage.leader_id, voted=stage.voted.id if stage.voted else None
            )
        elif isinstance(stage, Append):
            storage.log.append(
                [encode_batch(batch, self._world.clock.wall_ms()) for batch in stage.batches],
                stage.batches[-1].end_offset,
            )
            self.metrics.wrote(stage.batches, self._node.is_leader)
        elif isinstance(stage, Flush):
            with self.disks.measure(storage.log.directory.rpartition("/")[0]):
                await run(storage.log.sync)
            self._synced_end = stage.end_offset
            done.append(events.LogFlushed(stage.end_offset, stage.generation))
        elif isinstance(stage, Truncate):
            storage.log.truncate_to(stage.end_offset)
            self._synced_end = min(self._synced_end, stage.end_offset)
            for base in [base for base in self._recent if base >= stage.end_offset]:
                del self._recent[base]
            self._logger.warning("metadata log truncated", end_offset=stage.end_offset)
            await run(storage.log.sync)  # Later appends must not be mixed with the truncated records after a crash.
        elif isinstance(stage, SnapshotChunk):
            await run(storage.write_chunk, stage)
            if stage.last:
                done.append(await self._finish_download(stage.snapshot))
        elif isinstance(stage, StartFromSnapshot):
            storage.log.start_at(stage.snapshot.offset)  # On the loop and not in a thread: listeners read the log.
            self._recent.clear()
        elif isinstance(stage, Apply):
            self._applied = max(self._applied, stage.high_watermark)
            if self.config.quorum.can_be_voter:
                storage.committed_end.advance(min(self._applied, self._synced_end))
            self.metrics.committed(stage.high_watermark)
            self._high_watermark_known = True
            for feed in self._feeds:
                feed.wake()

    async def _finish_download(self, snapshot: OffsetAndEpoch) -> events.Event:
        try:
            voters, kraft_version = await self._world.threads.run(self._storage.finish_download, snapshot)
        except (CorruptData, OutOfResources) as problem:
            self._logger.error(
                "downloaded snapshot cannot be used",
                end_offset=snapshot.offset,
                epoch=snapshot.epoch,
                problem=str(problem),
            )
            return events.SnapshotDownloadFailed(snapshot)
        return events.SnapshotDownloaded(snapshot, voters, kraft_version)

    def _send(self, message: Send) -> None:
        assert self._nursery is not None, "messages leave only inside run"
        self._nursery.start_soon(self._exchange.run, message)

    # Requests of other nodes

    async def describe_quorum(self, request: Message, version: int = LATEST) -> Message:
        """Respond to DescribeQuorum immediately, from the leader's current state."""
        return describe_quorum(
            self._node,
            self.config.quorum.local,
            version,
            now_ms=self._now_ms(),
            wall_ms=self._world.clock.wall_ms(),
            observer_expiry_ms=self.config.quorum.observer_expiry_ms,
        )

    def _reply(self, reply: Reply) -> None:
        waiter, response = reply.token, reply.response
        assert isinstance(waiter, Waiter), "tokens are our waiters"
        if reply.epoch >= 0 and (self._node.epoch != reply.epoch or not self._node.is_leader):
            # A read now would no longer return that leader's log.
            response = response._replace(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif isinstance(response, core.FetchResponse) and response.offset >= 0:
            response, waiter.records = with_records(response, self._storage.log)
        elif isinstance(response, core.FetchSnapshotResponse):
            response = with_bytes(response, self._storage, self._node.log.snapshots)
        waiter.response = response
        waiter.answered.set()

    # Retention

    async def _clean_periodically(self) -> None:
        while True:
            await self._world.clock.sleep(CLEAN_INTERVAL_S)
            self.clean()

    async def _clean(self) -> None:
        self._clean_wanted = False
        state, storage = self._node.log, self._storage
        if should_roll(state, storage):
            await self._world.threads.run(storage.log.sync)
            storage.log.roll()
        position = min((feed.next_offset for feed in self._feeds), default=math.inf)
        if trim(
            self.config,
            state,
            storage,
            position,
            self._world.clock.wall_ms(),
            lambda snapshot: self._step(events.LogStartAdvanced(snapshot)),
        ):
            self._logger.info("metadata log start advanced", start_offset=state.start_offset)
