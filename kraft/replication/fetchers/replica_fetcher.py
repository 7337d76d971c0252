"""Follows one leader: fetch, append, and acknowledge with the next fetch (KIP-101, KIP-279, KIP-595's diverging epochs,
KIP-903).

There is one task per leader. It fetches every partition that it follows there in one incremental fetch session, and
handles the partitions of a response one by one. A request names at most PARTITIONS_PER_REQUEST partitions, and the next
request names the rest: the leader closes the connection for a request of more than 65,536 elements
(`kraft.protocol.primitives`).

A diverging log is truncated by leader epochs, never to the high watermark. The high watermark may be lower than the
offsets already acknowledged (KIP-101).
"""

from __future__ import annotations

import math
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

import trio

from kraft.common.errors import ApiError, KraftError, ProtocolError
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages import fetch_response
from kraft.protocol.messages.fetch_request import ReplicaState
from kraft.replication.fetchers.following import (
    FIRST_BACKOFF_SECONDS,
    FetcherSettings,
    Following,
    Truncation,
    append_fetched,
    truncation_offset,
)
from kraft.replication.fetchers.leader_offsets import (
    EARLIEST,
    LATEST,
    LocalStart,
    leader_local_start,
    leader_offset,
)
from kraft.replication.partition import Partition
from kraft.replication.sessions.fetch_session_handler import FetchSessionHandler, Key, Wanted
from kraft.replication.tiers.partition_tier import tier_of
from kraft.rpc_client.connection import ClientConnection, Disconnected, UnsupportedApi, open_connection
from kraft.world.ports import ObjectError
from kraft.world.turns import PARTITIONS_A_TURN, Turn

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.replication.replica_manager import ReplicaManager
    from kraft.replication.tiers.remote_log_manager import RemoteLogManager
    from kraft.storage.tiered_log import RemoteStart


WORK: Final = "replication"
"""The name of this work in health reports."""
CONNECT_SECONDS_MAX: Final = 2.0
UNREACHABLE_SECONDS: Final = 0.1
PAUSE_SECONDS_MAX: Final = 1.0
"""Longest sleep of a fetcher that has no partition to fetch."""
REMOTE_BACKOFF_SECONDS_MAX: Final = 10.0
"""Longest back-off after errors of the remote tier. Each attempt costs the leader some requests."""
PARTITIONS_PER_REQUEST: Final = 10_000
"""Limit per request of the partitions to fetch, and of those to remove from the session. Each counts as at most three
elements: its topic, itself and a tag."""
REPLICA_STATE_VERSION: Final = 15
"""From this version on a Fetch carries the follower's broker epoch (KIP-903)."""
FETCH_VERSION_MAX: Final = 17
"""From version 18 on a leader responds immediately to a new high watermark. That is for metadata, not for records."""


class ReplicaFetcher:
    """The fetcher for one leader. Owned by the broker's loop; `run` is its only task."""

    def __init__(self, leader_id: int, replicas: ReplicaManager, settings: FetcherSettings, log: Logger) -> None:
        self.leader_id = leader_id
        self._replicas = replicas
        self._settings = settings
        self._log = log
        self._clock = replicas.world.clock
        self._following: dict[Key, Following] = {}
        self._due: dict[Key, None] = {}
        """Partitions that the next Fetch may have to name."""
        self._unasked: dict[Key, None] = {}
        """Partitions for which the last request had no room. The next one starts with them."""
        self._put_aside: dict[Key, Following] = {}
        """Partitions in back-off, or waiting for the remote tier."""
        self._left: dict[Key, None] = {}
        self._session = FetchSessionHandler()
        self._woken = trio.Event()
        self._waiting: trio.CancelScope | None = None
        self._unreachable = False
        self.cancel_scope = trio.CancelScope()

    def __len__(self) -> int:
        return len(self._following)

    # Called by the manager.

    def follow(self, partition: Partition) -> None:
        """Start fetching the partition in its current leader epoch. A Fetch in flight is cancelled, because it does not
        include the partition."""
        key = (partition.topic_id, partition.index)
        known = self._following.get(key)
        if known is not None and known.partition is partition and known.leader_epoch == partition.leader_epoch:
            return
        self._give_up_remote(known)
        self._following[key] = Following(partition)
        self._put_aside.pop(key, None)
        self._left.pop(key, None)
        self._due[key] = None
        self._wake()

    def leave(self, key: Key) -> None:
        known = self._following.pop(key, None)
        if known is not None:
            self._give_up_remote(known)
            self._put_aside.pop(key, None)
            self._due.pop(key, None)
            self._left[key] = None

    def _give_up_remote(self, known: Following | None) -> None:
        if known is not None and self._replicas.remote is not None:
            self._replicas.remote.starts.give_up(known)

    def put_aside(self) -> int:
        """The number of partitions in back-off or waiting for the remote tier."""
        now = self._clock.now()
        return sum(1 for following in self._put_aside.values() if following.not_before > now)

    @property
    def lag_max(self) -> int:
        """The largest lag of any followed partition, in records."""
        return max((following.lag for following in self._following.values()), default=0)

    def _wake(self) -> None:
        self._woken.set()
        if self._waiting is not None:
            self._waiting.cancel()

    # The task.

    async def run(self) -> None:
        """Follow the leader until cancelled through `cancel_scope`."""
        with self.cancel_scope:
            while True:
                try:
                    await self._follow_over_one_connection()
                    self._unreachable = False
                except (KraftError, OSError, TimeoutError) as problem:
                    if not self._unreachable:
                        self._log.warning(
                            "leader not reached",
                            leader=self.leader_id,
                            partitions=len(self._following),
                            reason=str(problem),
                        )
                    self._unreachable = True
                    await self._pause(UNREACHABLE_SECONDS)

    async def _pause(self, seconds: float) -> None:
        self._woken = trio.Event()
        with self._clock.move_on_after(seconds):
            await self._woken.wait()

    async def _follow_over_one_connection(self) -> None:
        """Open a connection and fetch over it until it fails. Raises the error that ended it."""
        endpoint = self._settings.endpoint(self.leader_id)
        if endpoint is None:
            raise Disconnected(f"no endpoint of broker {self.leader_id} is known")
        client_id = f"broker-{self._replicas.node_id}-fetcher"
        connection = await open_connection(
            self._replicas.world, *endpoint, client_id=client_id, timeout=CONNECT_SECONDS_MAX
        )
        self._session_broken()
        try:
            while True:
                await self._wait_for_something_to_ask()
                if not await self._fetch(connection):
                    return
        finally:
            connection.close()
            self._session_broken()

    def _session_broken(self) -> None:
        """Drop the fetch session: the next request names every partition again."""
        self._session.broken()
        self._due = dict.fromkeys(self._following)

    async def _wait_for_something_to_ask(self) -> None:
        """Wait while no partition can be fetched: none is followed, or all are in back-off."""
        while len(self._following) == len(self._put_aside):
            now = self._clock.now()
            pause = min((following.not_before - now for following in self._put_aside.values()), default=math.inf)
            if pause <= 0:
                return
            await self._pause(min(pause, PAUSE_SECONDS_MAX))

    async def _fetch(self, connection: ClientConnection) -> bool:
        """Send one Fetch and handle its response. Returns False if the Fetch was cancelled because more partitions can
        be fetched now."""
        await self._sync_due()
        asked = await self._ask()
        version = min(connection.version_of(ApiKey.FETCH), FETCH_VERSION_MAX, self._settings.fetch_version())
        replica = ReplicaState(replica_id=self._replicas.node_id, replica_epoch=self._settings.broker_epoch())
        left = list(islice(self._left, PARTITIONS_PER_REQUEST))
        request = self._session.build(asked, left, replica, self._settings.limits, self._wait_ms())
        if version < REPLICA_STATE_VERSION:
            request.replica_id, request.replica_state = replica.replica_id, ReplicaState()
        for key in left:
            del self._left[key]
        with trio.CancelScope() as scope:
            self._waiting = scope
            try:
                response, frame = await connection.exchange(
                    request, version=version, timeout=self._settings.socket_timeout_seconds
                )
            finally:
                self._waiting = None
        if scope.cancelled_caught:
            return False
        self._unreachable = False
        if response.error_code or not self._session.answered(response.session_id):
            self._session_broken()
        turn = Turn(PARTITIONS_A_TURN)
        for topic in response.responses:
            for data in topic.partitions:
                if turn.is_over():
                    await turn.next()
                key = (bytes(topic.topic_id), data.partition_index)
                following = self._following.get(key)
                if following is not None:
                    self._due[key] = None
                    await self._take_guarded(following, data, connection)
        connection.recycle(frame)  # All records are in the logs, or dropped.
        return True

    async def _sync_due(self) -> None:
        """Sync all logs for which flush.messages requires it, together. This precedes the Fetch, because a Fetch
        acknowledges the whole log."""
        self._end_waits(self._clock.now())
        due = [self._following[key] for key in self._due if key not in self._put_aside]
        unsynced = [(following, following.partition.log) for following in due if following.is_unsynced]
        if not unsynced:
            return
        failures = await self._replicas.flusher.flush_all(log for _, log in unsynced)
        for following, log in unsynced:
            # The disk failed and is offline by now, with the partition; or the log was deleted; or the error may
            # pass.
            if log in failures:
                self._put_off(following, str(failures[log]))

    def _end_waits(self, now: float) -> None:
        """Make partitions due whose back-off has ended, and remove from the session those whose back-off goes on."""
        for key, following in list(self._put_aside.items()):
            if following.not_before <= now:
                del self._put_aside[key]
                self._due[key] = None
            elif following.is_asked:
                following.is_asked = False
                self._left[key] = None

    async def _ask(self) -> dict[Key, Wanted]:
        """Return the partitions to name in the next Fetch: those that changed and are not in back-off, up to the limit
        of one request."""
        now = self._clock.now()
        self._end_waits(now)
        due, self._due, self._unasked = {**self._unasked, **self._due}, {}, {}
        asked: dict[Key, Wanted] = {}
        turn = Turn()
        for key in due:
            if turn.is_over():
                await turn.next()
            following = self._following.get(key)
            if following is None or key in self._put_aside:
                continue
            if len(asked) == PARTITIONS_PER_REQUEST:
                self._unasked[key] = None
                continue
            pause = self._replicas.serving.follower_waits(following.partition)
            if following.is_unsynced:  # Added, or given another log, during the sync.
                pause = max(pause, FIRST_BACKOFF_SECONDS)
            if pause:
                self._throttle(key, following, now + pause)
            else:
                following.is_asked = True
                asked[key] = following.wanted()
                self._left.pop(key, None)
        return asked

    def _throttle(self, key: Key, following: Following, until: float) -> None:
        """Do not fetch the partition before `until`: it is over its replication quota, needs a sync first, or waits for
        the remote tier."""
        following.not_before = until
        self._put_aside[key] = following
        if following.is_asked:
            following.is_asked = False
            self._left[key] = None

    def _wait_ms(self) -> int:
        """The max wait of the next Fetch in ms. It ends when the next back-off ends, and is 0 while more partitions
        remain to be named."""
        if self._unasked or len(self._left) > PARTITIONS_PER_REQUEST:
            return 0
        now = self._clock.now()
        due = min((following.not_before for following in self._put_aside.values()), default=math.inf)
        return int(min(self._settings.limits.wait_ms_max, max(1, (due - now) * 1000)))

    # Taking over.

    def _is_current(self, following: Following) -> bool:
        """Whether the partition still has the leader and leader epoch of the request. Both may change while a request
        is in flight."""
        partition = following.partition
        key = (partition.topic_id, partition.index)
        return (
            self._following.get(key) is following
            and partition.leader_id == self.leader_id
            and partition.leader_epoch == following.leader_epoch
        )

    async def _take_guarded(
        self, following: Following, data: fetch_response.PartitionData, connection: ClientConnection
    ) -> None:
        """Handle the response for one partition like `_take`. An internal error with one partition does not stop the
        others."""
        is_taken = False
        with self._replicas.set_aside.guard(WORK, str(following.partition), (KraftError, TimeoutError)):
            await self._take(following, data, connection)
            is_taken = True
        if not is_taken:
            self._put_off(following, "an unexpected error: see the node's log")

    async def _take(
        self, following: Following, data: fetch_response.PartitionData, connection: ClientConnection
    ) -> None:
        if not following.is_asked or not self._is_current(following):
            return
        partition = following.partition
        log = partition.log
        try:
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._start_where_the_leader_is(following, connection)
            elif data.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
                await self._start_behind_remote(following, connection)
            elif data.error_code:
                # Leader and follower have different metadata versions, and the older one will catch up. Whatever it
                # is, retry later.
                self._put_off(following, name_of(data.error_code))
            elif data.diverging_epoch is not None and data.diverging_epoch.epoch >= 0:
                epoch, end = data.diverging_epoch.epoch, data.diverging_epoch.end_offset
                await self._replicas.writer.until_free(log)  # This broker may have led until just now.
                if self._is_current(following):
                    log = partition.log
                    self._cut(
                        partition,
                        truncation_offset(log, epoch, end),
                        f"the leader's epoch {epoch} ends at {end}",
                    )
            else:
                following.leader_high_watermark = data.high_watermark
                self._replicas.serving.follower_took(partition, len(data.records or b""))
                await append_fetched(self._replicas, partition, data)
                following.failures = 0
        except (KraftError, OSError) as problem:
            # The leader did not respond. That is no error of the local disk.
            if isinstance(problem, Disconnected | UnsupportedApi | ProtocolError | TimeoutError):
                raise
            self._replicas.handle_storage_error(problem, partition.topic, partition.index, "replication", log)
            self._put_off(following, str(problem))

    def _put_off(self, following: Following, reason: str, backoff_seconds_max: float = 0.0) -> None:
        """Back off before the next fetch of the partition, for at most replica.fetch.backoff.ms, or
        `backoff_seconds_max` if given."""
        if not self._is_current(following):
            # The partition is no longer followed: a failed directory removes its replicas before the error gets here.
            return
        is_to_be_told = following.failed(self._clock.now(), backoff_seconds_max or self._settings.backoff_seconds)
        partition = following.partition
        self._put_aside[partition.topic_id, partition.index] = following
        report = self._log.info if is_to_be_told else self._log.debug
        report(
            "fetch put off",
            topic=partition.topic,
            partition=partition.index,
            leader=self.leader_id,
            epoch=following.leader_epoch,
            reason=reason,
        )

    def _cut(self, partition: Partition, offset: int, reason: str) -> None:
        log = partition.log
        cut = Truncation(
            offset, log.log_end_offset, log.high_watermark, log.leader_epoch_cache.epoch_for_offset(offset)
        )
        if offset < cut.end_offset:
            self._settings.truncations.truncating(partition, cut)
        self._replicas.logs.truncate_to(log, offset, now_ms=self._clock.wall_ms())
        # An epoch in which this broker led but wrote nothing leaves an entry at the end of the log. No truncation of
        # records removes it.
        log.leader_epoch_cache.truncate_from_end(offset)
        if offset < cut.end_offset:
            report = self._log.warning if offset < cut.high_watermark else self._log.info
            report("log truncated", topic=partition.topic, partition=partition.index, **cut._asdict(), reason=reason)
            self._settings.truncations.truncated(partition, cut)

    async def _start_behind_remote(self, following: Following, connection: ClientConnection) -> None:
        """Start the local log after the records that only the remote tier has.

        The remote tier is read in another task, and only this partition waits for it. Raises KraftError, TimeoutError,
        OSError.
        """
        partition, remote = following.partition, self._replicas.remote
        if remote is None:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{partition}: its records are in the remote tier, which is off on this broker: set "
                "remote.log.storage.system.enable=true",
            )
        leader = await leader_local_start(connection, following, self._settings.offset_request(self._replicas.node_id))
        if self._is_current(following):
            self._throttle((partition.topic_id, partition.index), following, math.inf)
            remote.starts.begin(following, partial(self._ask_remote_guarded, following, leader, remote))

    async def _ask_remote_guarded(self, following: Following, leader: LocalStart, remote: RemoteLogManager) -> None:
        """Run `_ask_remote` in its own task. Afterwards the partition is due, or in back-off after an error."""
        tier = tier_of(following.partition)
        tier.aux_state_builds += 1
        failure = "an unexpected error: see the node's log"
        try:
            with self._replicas.set_aside.guard(WORK, str(following.partition), (KraftError, ObjectError)):
                await self._ask_remote(following, leader, remote)
                failure = ""
        except (KraftError, ObjectError, OSError) as problem:
            failure = str(problem)
        if failure:
            tier.failed_aux_state_builds += 1
            self._put_off(following, failure, REMOTE_BACKOFF_SECONDS_MAX)
        elif self._is_current(following):
            following.not_before = self._clock.now()
        self._woken.set()

    async def _ask_remote(self, following: Following, leader: LocalStart, remote: RemoteLogManager) -> None:
        """Read the state from the remote tier, and start the local log after it if the partition still has the same
        leader and epoch. Raises KraftError, ObjectError, OSError."""
        partition = following.partition
        start = await remote.remote_start(partition, leader)
        await self._replicas.writer.until_free(partition.log)
        if self._is_current(following):
            log = partition.log
            try:
                self._begin_behind_remote(partition, start)
            except (KraftError, OSError) as problem:
                self._replicas.handle_storage_error(problem, partition.topic, partition.index, "replication", log)
                raise

    def _begin_behind_remote(self, partition: Partition, start: RemoteStart) -> None:
        log_facts = {"at": start.offset, "log_start": start.log_start_offset, "end": partition.log.log_end_offset}
        self._log.info(
            "log starts after the remote tier", topic=partition.topic, partition=partition.index, **log_facts
        )
        self._replicas.logs.begin_behind_remote(partition.log, start, now_ms=self._clock.wall_ms())

    async def _start_where_the_leader_is(self, following: Following, connection: ClientConnection) -> None:
        """Handle a log end offset outside the leader's log. It is beyond the leader's end after an unclean election. It
        is before the leader's start after retention, or on a new replica."""
        partition = following.partition
        leader_end = await leader_offset(
            connection, following, LATEST, self._settings.offset_request(self._replicas.node_id)
        )
        await self._replicas.writer.until_free(partition.log)
        if not self._is_current(following):
            return
        log = partition.log  # Read after every await: a move may have replaced the log.
        if leader_end < log.log_end_offset:
            self._cut(partition, leader_end, "the leader's log ends there")
            return
        leader_start = await leader_offset(
            connection, following, EARLIEST, self._settings.offset_request(self._replicas.node_id)
        )
        await self._replicas.writer.until_free(partition.log)
        if not self._is_current(following):
            return
        log = partition.log
        if leader_start > log.log_end_offset:
            self._log.info(
                "log restarted empty",
                topic=partition.topic,
                partition=partition.index,
                at=leader_start,
                end=log.log_end_offset,
            )
            self._replicas.logs.truncate_fully_and_start_at(log, leader_start, now_ms=self._clock.wall_ms())
        else:
            self._put_off(
                following,
                f"offset {log.log_end_offset} was out of range at the leader, which reports {leader_start} to "
                f"{leader_end}",
            )
