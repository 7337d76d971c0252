"""The transaction coordinator: one method per API, over the shards of `__transaction_state` that this node leads.

It finds the shard, obtains producer ids, and has the markers of ended transactions written. The rules are in
`transaction/`. Callers are already authorized, and the topics they name exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol, TypeVar

import trio

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.common.internal_topics import TRANSACTION_STATE_TOPIC
from kraft.coordinator.coordinator_log import CoordinatorLog
from kraft.coordinator.partitioner import partition_for
from kraft.coordinator.regular_expression import RegularExpression
from kraft.coordinator.runtime import CoordinatorRuntime
from kraft.coordinator.transaction import inspection
from kraft.coordinator.transaction.activity import ABORTED, COMMITTED, TransactionActivity
from kraft.coordinator.transaction.config import TransactionConfig
from kraft.coordinator.transaction.ending import End, abort_timed_out, complete, end_transaction
from kraft.coordinator.transaction.init_producer import Claim, init_producer, keep_transaction
from kraft.coordinator.transaction.partitions import add_partitions, missing_partitions
from kraft.coordinator.transaction.shard import FreshId, TransactionDraft, TransactionShard, TransactionShardState
from kraft.coordinator.transaction.transaction import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Ending,
    ProducerIdNeeded,
    Transaction,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import describe_transactions_response as described
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse
from kraft.world.ports import World
from kraft.world.turns import Turn

IDS_A_TURN: Final = 500
TIME_OUT: Final = "transaction time-out"
"""Name of the work in health reports. Its items are transactional ids that exceed their timeout."""
RETRY_SECONDS: Final = 0.1
"""The pause between two attempts to complete a transaction while the log rejects appends."""

NO_PRODUCER: Final = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

R = TypeVar("R")


class ProducerIds(Protocol):
    async def next(self) -> int:
        """Return a producer id that was never used. Raises ApiError."""


class MarkerWriter(Protocol):
    async def write(self, ending: Ending, coordinator_epoch: int, is_current: Callable[[], bool]) -> bool:
        """Append the marker to every partition of the transaction, however long that takes. False if another
        coordinator has taken over, or `is_current` returns False."""


class Initialized(NamedTuple):
    """The answer to InitProducerId, as pairs of producer id and epoch. `ongoing` wrote the kept transaction, (-1, -1)
    if none is open (KIP-939)."""

    producer: tuple[int, int]
    ongoing: tuple[int, int]


class TransactionCoordinator:
    """The transaction coordinator of a broker. `partition_count` returns the number of partitions that
    `__transaction_state` has or would be created with, `level` the cluster's transaction.version."""

    def __init__(
        self,
        *,
        config: TransactionConfig,
        log: CoordinatorLog,
        producer_ids: ProducerIds,
        markers: MarkerWriter,
        partition_count: Callable[[], int],
        level: Callable[[], int],
        world: World,
    ) -> None:
        self._config = config
        self._producer_ids = producer_ids
        self._markers = markers
        self._partition_count = partition_count
        self._clock = world.clock
        self._threads = world.threads
        self._nursery: trio.Nursery | None = None
        self.activity = TransactionActivity()
        self._ending: set[tuple[int, int, Ending]] = set()
        """Transactions whose markers are being written, as (partition, leader epoch, transaction)."""
        self._ended: dict[str, trio.Event] = {}
        """By transactional id with markers in progress: set when the transaction is complete."""
        self.runtime: CoordinatorRuntime[TransactionShardState] = CoordinatorRuntime(
            TRANSACTION_STATE_TOPIC,
            TransactionShard(level),
            log=log,
            world=world,
            write_timeout_ms=config.request_timeout_ms,
            perform=self._end,
        )

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as coordinator_nursery:
            self._nursery = coordinator_nursery
            coordinator_nursery.start_soon(self._abort_timed_out)
            coordinator_nursery.start_soon(self._forget_unused)
            try:
                await self.runtime.run(task_status)
            finally:
                self._nursery = None

    def partition_for(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` whose leader coordinates the transactional id."""
        return partition_for(transactional_id, self._partition_count())

    def on_election(self, partition: int, leader_epoch: int) -> None:
        self.runtime.on_election(partition, leader_epoch)

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        self.runtime.on_resignation(partition, leader_epoch)

    # Producers.

    async def init_producer_id(self, transactional_id: str, timeout_ms: int, claim: Claim | None) -> tuple[int, int]:
        """Return the producer's new id and epoch. Raises ApiError: CONCURRENT_TRANSACTIONS while the previous
        producer's transaction is being ended."""
        return (await self.init_two_phase(transactional_id, timeout_ms, claim, has_timeout=True, keep=False)).producer

    async def init_two_phase(
        self, transactional_id: str, timeout_ms: int, claim: Claim | None, *, has_timeout: bool, keep: bool
    ) -> Initialized:
        """Return the producer's new id and epoch, with two-phase commit (KIP-939): unless `has_timeout`, the producer's
        transactions never time out, whatever `timeout_ms` is. With `keep` an open transaction is not aborted, and the
        new producer may end it. Raises ApiError."""
        _require_id(transactional_id)
        if not has_timeout and not self._config.two_phase_commit:
            raise ApiError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                f"transactional id {transactional_id}: two-phase commit is off (transaction.two.phase.commit.enable)",
            )
        if keep and not self._config.two_phase_commit:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"transactional id {transactional_id}: keepPreparedTxn is off (transaction.two.phase.commit.enable)",
            )
        if has_timeout and not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            raise ApiError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"transactional id {transactional_id}: the timeout of {timeout_ms} ms is not within 1 and "
                f"{self._config.transaction_max_timeout_ms} ms (transaction.max.timeout.ms)",
            )

        kept_ms = timeout_ms if has_timeout else NO_TIMEOUT_MS

        def decide(draft: TransactionDraft, fresh: FreshId) -> Transaction | None:
            if keep and (kept := keep_transaction(draft, transactional_id, kept_ms, claim, fresh)) is not None:
                return kept
            return init_producer(draft, transactional_id, kept_ms, claim, fresh)

        made = await self._decide(transactional_id, decide)
        if made is None:
            raise ApiError(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                f"transactional id {transactional_id}: its open transaction is being aborted; try again",
            )
        return Initialized(made.owner, (made.producer_id, made.producer_epoch) if made.is_kept else NO_PRODUCER)

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        version: int,
        patience_s: float = 0.0,
    ) -> None:
        """Add partitions to the producer's transaction. While the markers of its last transaction are being written,
        waits for them for at most `patience_s`, so that the producer need not retry. Raises ApiError."""
        _require_id(transactional_id)
        if patience_s and (ended := self._ended.get(transactional_id)) is not None:
            with self._clock.move_on_after(patience_s):
                await ended.wait()
        await self.runtime.write(
            self.partition_for(transactional_id),
            lambda draft: add_partitions(draft, transactional_id, producer_id, producer_epoch, partitions, version),
        )

    def missing_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
    ) -> set[TopicPartition]:
        """The partitions that are not in the producer's transaction. Raises ApiError."""
        _require_id(transactional_id)
        return self.runtime.read(
            self.partition_for(transactional_id),
            lambda state: missing_partitions(state, transactional_id, producer_id, producer_epoch, partitions),
        )

    async def end_transaction(self, end: End) -> tuple[int, int]:
        """End the transaction. Returns once the outcome is committed: the producer's new id and epoch, (-1, -1) for
        clients that keep theirs. The markers are written afterwards. Raises ApiError."""
        _require_id(end.transactional_id)

        def decide(draft: TransactionDraft, fresh: FreshId) -> tuple[int, int]:
            return end_transaction(draft, end, fresh)

        return await self._decide(end.transactional_id, decide)

    async def _decide(self, transactional_id: str, decide: Callable[[TransactionDraft, FreshId], R]) -> R:
        partition = self.partition_for(transactional_id)
        fresh = FreshId()
        while True:
            try:
                decided: R = await self.runtime.write(partition, lambda draft: decide(draft, fresh))  # noqa: B023 - awaited here.
            except ProducerIdNeeded:
                fresh = FreshId(await self._producer_ids.next())
            else:
                return decided

    # Administration.

    def describe(self, transactional_id: str) -> described.TransactionState:
        if not transactional_id:
            return described.TransactionState(error_code=ErrorCode.INVALID_REQUEST, transactional_id=transactional_id)
        try:
            return self.runtime.read(
                self.partition_for(transactional_id), lambda state: inspection.describe(state, transactional_id)
            )
        except ApiError as refused:
            return described.TransactionState(error_code=refused.code, transactional_id=transactional_id)

    async def list_transactions(
        self, state_names: Collection[str], producer_ids: Collection[int], duration_ms: int, id_pattern: str | None
    ) -> ListTransactionsResponse:
        """List the transactions of all shards of this broker. Fails while a shard is loading. `id_pattern` is a regular
        expression (KIP-1152)."""
        response = ListTransactionsResponse(
            unknown_state_filters=[name for name in state_names if name not in inspection.SHOWN_STATES]
        )
        states = {inspection.STATES[name] for name in state_names if name in inspection.STATES} if state_names else None
        open_since_ms = self._clock.wall_ms() - duration_ms if duration_ms >= 0 else None
        try:
            pattern = RegularExpression(id_pattern) if id_pattern else None
            shards = self.runtime.read_all(lambda state: state)
        except ApiError as refused:
            response.error_code = refused.code
            return response
        turn = Turn(IDS_A_TURN)
        for shard in shards:
            for found in inspection.matching(shard, states, frozenset(producer_ids), open_since_ms):
                if turn.is_over():
                    await turn.next()
                if found is not None:
                    response.transaction_states.append(found)
        if pattern is not None:
            listed, response.transaction_states = response.transaction_states, []
            for start in range(0, len(listed), IDS_A_TURN):
                response.transaction_states += await self._threads.run(
                    inspection.named, pattern, listed[start : start + IDS_A_TURN]
                )
        return response

    # The end of transactions.

    def _end(self, partition: int, leader_epoch: int, ending: Ending) -> None:
        """Start writing the markers of a committed outcome. The same effect may arrive again after a shard was
        reloaded."""
        key = (partition, leader_epoch, ending)
        if self._nursery is not None and key not in self._ending:
            self._ending.add(key)
            self._ended.setdefault(ending.transactional_id, trio.Event())
            self._nursery.start_soon(self._finish, *key)

    async def _finish(self, partition: int, leader_epoch: int, ending: Ending) -> None:
        def is_current() -> bool:
            return self.runtime.hosts(partition, leader_epoch)

        try:
            with self.runtime.set_aside.guard("end of a transaction", ending.transactional_id):
                if not await self._markers.write(ending, leader_epoch, is_current):
                    return
                while is_current():
                    try:
                        await self.runtime.write(partition, lambda draft: complete(draft, ending))
                    except ApiError:
                        await self._clock.sleep(RETRY_SECONDS)
                    else:
                        self.activity.ended[COMMITTED if ending.committed else ABORTED] += 1
                        return
        finally:
            self._ending.discard((partition, leader_epoch, ending))
            if (ended := self._ended.pop(ending.transactional_id, None)) is not None:
                ended.set()

    async def _abort_timed_out(self) -> None:
        while True:
            await self._clock.sleep(self._config.abort_timed_out_interval_ms / 1000)
            turn = Turn(IDS_A_TURN)
            found: set[str] = set()
            for state in self.runtime.read_loaded(lambda state: state):
                for transactional_id in inspection.timed_out(state, self._clock.wall_ms()):
                    if turn.is_over():
                        await turn.next()
                    if transactional_id is not None:
                        found.add(transactional_id)
                        with self.runtime.set_aside.guard(TIME_OUT, transactional_id):
                            await self._abort(transactional_id)
            self.runtime.set_aside.keep(TIME_OUT, found)

    async def _abort(self, transactional_id: str) -> None:
        def decide(draft: TransactionDraft, fresh: FreshId) -> bool:
            return abort_timed_out(draft, transactional_id, fresh)

        try:
            self.activity.timed_out += await self._decide(transactional_id, decide)
        except ApiError:
            return  # Sought again the next time, here or by the next leader.

    async def _forget_unused(self) -> None:
        walk = inspection.expiring(self._config.transactional_id_expiration_ms)
        while True:
            await self._clock.sleep(self._config.remove_expired_interval_ms / 1000)
            self.runtime.walk_all(walk)


def _require_id(transactional_id: str) -> None:
    if not transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
