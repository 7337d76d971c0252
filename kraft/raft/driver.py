"""`RaftDriver`: one replica of the metadata quorum under trio. It carries out what the core decides, in the order
that `Effects` demands; it decides nothing.

Whatever happens (a request, an answer, an append, the clock) is stepped through the core at once, on the loop; the
effects queue up. One task takes all that has queued, merges it, and carries it out: election state and log are
written and synced once for all that waits (the group commit), then messages leave, then listeners are woken. While a
sync runs, the next effects gather. Nothing else writes the files. A failed write or sync ends the node: what reached
the disk is found out by reading it afresh. Only a full disk is waited for (`room.py`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import trio

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
from kraft.raft.listener_feed import ListenerFeed
from kraft.raft.log_retention import should_roll, trim
from kraft.raft.peer_exchange import PeerExchange
from kraft.raft.ports import CommittedBatch, LeaderAndEpoch, RaftChannel, RaftListener, RecordSerde
from kraft.raft.quorum_description import describe_quorum
from kraft.raft.quorum_storage import QuorumStorage
from kraft.raft.quorum_view import QuorumView
from kraft.raft.raft_config import RaftConfig
from kraft.raft.raft_metrics import RaftMetrics
from kraft.raft.request_entries import LATEST, RequestEntries, Waiter
from kraft.raft.room import Room
from kraft.raft.snapshot.snapshot_answer import with_bytes, with_records
from kraft.raft.snapshot.snapshot_reader import SnapshotReader
from kraft.raft.snapshot.snapshot_writer import SnapshotWriter
from kraft.raft.start_checks import refuse_impossible_election, replaced_voter
from kraft.world.ports import World

CLEAN_INTERVAL_S = 60.0
REFUSED_EPOCHS_INTERVAL_S = 60.0
LEADER_MISSING_INTERVAL_S = 10.0


class RaftDriver(QuorumView, RequestEntries):
    """See the module. Opened by the constructor (blocking: reads the whole log); alive inside `run`."""

    def __init__(self, config: RaftConfig, world: World, channel: RaftChannel, serde: RecordSerde, log: Logger) -> None:
        """Raises CorruptData, OSError, and ConfigurationError where no leader can ever be elected."""
        super().__init__()
        self.config = config
        self._world = world
        self._serde = serde
        self._logger = log
        self._storage = QuorumStorage(
            world.files, config.metadata_log_directory, serde, segment_bytes=config.segment_bytes
        )
        self._room = Room(world, self._storage.directory, log)
        state = self._storage.recover(config.static_voters, is_controller=config.quorum.can_be_voter)
        self._synced_end = state.end_offset
        refuse_impossible_election(config.quorum, state.voters, self._storage.directory)
        self._node = RaftNode(
            config.quorum,
            state,
            self._storage.state.load(state.last_epoch),
            world.random.stream("raft"),
            self._now_ms(),
        )
        self._refused_epochs_told, self._refused_epochs_tell_at = 0, -math.inf
        self._queued: list[Effects] = []
        self._recent: dict[int, CommittedBatch] = {}
        self._feeds: list[ListenerFeed] = []
        self._nursery: trio.Nursery | None = None
        self._applied = state.high_watermark
        self._high_watermark_known = self._clean_wanted = False
        self._exchange = PeerExchange(
            channel, world.clock, config.listener_name, config.quorum.request_timeout_ms / 1000, self._step, log
        )
        self._work, self._shut_down = trio.Event(), trio.Event()
        self.metrics = RaftMetrics(world.clock)
        if self._storage.log.cut_bytes:
            log.warning("metadata log had a torn tail", bytes=self._storage.log.cut_bytes, end_offset=state.end_offset)
        replaced = replaced_voter(config.quorum, state.voters)
        if replaced is not None and config.quorum.can_be_voter:
            log.warning(
                "this node does not vote: the voter of its id has another disk",
                voter_directory_id=uuid_to_text(replaced.directory_id),
                remedy=f"kraft quorum remove-voter {replaced.id}, then kraft quorum add-voter {replaced.id}",
            )

    # Life

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take part in the quorum until `shutdown` has finished or the task is cancelled. Raises what a listener
        raised, and OSError of the metadata disk."""
        try:
            async with trio.open_nursery() as raft_nursery:
                self._nursery = raft_nursery
                for feed in self._feeds:
                    raft_nursery.start_soon(feed.run, self._forget_delivered)
                raft_nursery.start_soon(self._clean_periodically)
                raft_nursery.start_soon(self._tell_of_missing_leader)
                self._step(events.Tick())
                task_status.started()
                await self._carry_out()
                raft_nursery.cancel_scope.cancel()
        finally:
            self._nursery = None
            self.refuse_requests()
            self._storage.close()

    async def _carry_out(self) -> None:
        """The one task that writes and sends."""
        clock = self._world.clock
        while not self._node.is_shut_down:
            if self._clean_wanted:
                with contextlib.suppress(OutOfResources):  # A new segment, or what may go, can wait.
                    await self._clean()
            if not self._queued:
                self._work = trio.Event()
                with clock.move_on_at(self._node.deadline_ms / 1000) as scope:
                    await self._work.wait()
                if scope.cancelled_caught:
                    self._step(events.Tick())
                continue
            taken = len(self._queued)  # They stay queued until they are carried out: `election_is_saved` looks there.
            done = await self._perform(Effects.merge(self._queued))
            del self._queued[:taken]
            for event in done:
                self._step(event)
        self._shut_down.set()

    async def shutdown(self) -> None:
        """Leave gracefully: a leader resigns and tells the voters; then `run` returns."""
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
        if self._node.refused_epochs > self._refused_epochs_told:
            self._tell_refused_epochs()

    def _tell_refused_epochs(self) -> None:
        """At most once in `REFUSED_EPOCHS_INTERVAL_S`: whoever sends them can send many."""
        now, refused = self._world.clock.now(), self._node.refused_epochs
        if now >= self._refused_epochs_tell_at:
            self._logger.warning(
                "a peer named an epoch that elections cannot have reached, and was refused",
                epoch=self._node.epoch,
                refused=refused - self._refused_epochs_told,
            )
            self._refused_epochs_told = refused
            self._refused_epochs_tell_at = now + REFUSED_EPOCHS_INTERVAL_S

    def _queue(self, effects: Effects) -> None:
        if effects:
            self._queued.append(effects)
        self._work.set()
        for feed in self._feeds:
            feed.wake()

    async def _tell_of_missing_leader(self) -> None:
        """One line every `LEADER_MISSING_INTERVAL_S` in which there is none: who waits for it knows no reason."""
        missing_since: float | None = None
        while True:
            await self._world.clock.sleep(LEADER_MISSING_INTERVAL_S)
            if self._node.leader.leader_id >= 0 or self._room.is_missing:  # That is told by `Room`.
                missing_since = None
                continue
            now = self._world.clock.now()
            if missing_since is not None:
                self._logger.warning(
                    "the quorum has no leader that this node can reach",
                    seconds=int(now - missing_since),
                    voters=",".join(f"{node}@{host}:{port}" for node, host, port in self.voter_endpoints())
                    or "unknown",
                    remedy="docs/operations/lost-quorum.md",
                )
            else:
                missing_since = now

    # For the state machine

    def register(self, listener: RaftListener) -> None:
        """From now on `listener` is given the latest snapshot and everything committed, from the start."""
        feed = ListenerFeed(listener, self, self._serde, self._recent, self._world.clock)
        self._feeds.append(feed)
        if self._nursery is not None:
            self._nursery.start_soon(feed.run, self._forget_delivered)

    def append(self, epoch: int, records: Sequence[Any], *, atomic: bool = True) -> int:
        """Append `records` in `epoch`; returns the offset of the last. They are committed when a listener gets them,
        or never.

        With `atomic` they are one batch, committed or lost together. Raises NotLeader; ApiError when they are too
        large for one batch.
        """
        values = [self._serde.encode(record) for record in records]
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
        """The state machine cannot lead `epoch` any longer."""
        self._step(events.ResignRequested(epoch))

    def create_snapshot(self, snapshot: OffsetAndEpoch, last_contained_timestamp_ms: int) -> SnapshotWriter | None:
        """Begin a snapshot of everything before `snapshot.offset`, which must be committed; None if there is one as
        new, or the log has moved past it."""
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
        """Have log and snapshots trimmed to their bounds soon, by the task that owns the files."""
        self._clean_wanted = True
        self._work.set()

    # What a feed asks for

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
        """Each stage in order. Returns what the core must hear of it."""
        done: list[events.Event] = []
        self.metrics.saw(self._node.role)
        for stage in effects.stages():
            if isinstance(stage, Send | Reply):
                self._send(stage) if isinstance(stage, Send) else self._reply(stage)
            else:
                await self._room.until_written(self._write, stage, done)
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
            await run(storage.log.sync)
            self._synced_end = stage.end_offset
            done.append(events.LogFlushed(stage.end_offset, stage.generation))
        elif isinstance(stage, Truncate):
            storage.log.truncate_to(stage.end_offset)
            self._synced_end = min(self._synced_end, stage.end_offset)
            for base in [base for base in self._recent if base >= stage.end_offset]:
                del self._recent[base]
            self._logger.warning("metadata log truncated", end_offset=stage.end_offset)
            await run(storage.log.sync)  # What is appended next must not be found among what was cut.
        elif isinstance(stage, SnapshotChunk):
            await run(storage.write_chunk, stage)
            if stage.last:
                done.append(await self._finish_download(stage.snapshot))
        elif isinstance(stage, StartFromSnapshot):
            storage.log.start_at(stage.snapshot.offset)  # Here and not in a thread: listeners read the log.
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

    # Requests of others

    async def describe_quorum(self, request: Message, version: int = LATEST) -> Message:
        """Answered at once, from what the leader knows now."""
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
            # What would be read now is no longer that leader's log.
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
