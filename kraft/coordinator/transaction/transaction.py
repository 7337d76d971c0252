"""One transactional id: its producer, and its open or last transaction."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from kraft.common.ids import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
EPOCH_MAX: Final = 2**15 - 1
"""Only for markers and logs. No producer has this epoch, so the coordinator can always fence one."""
NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of two-phase commit (KIP-939): the coordinator never aborts such a transaction. The log has no other mark
of it."""
EPOCHS_BUMPED_AT_END: Final = 2
"""From this transaction.version on, the end of each transaction bumps the producer's epoch (KIP-890)."""


class State(IntEnum):
    """The states of a transaction, as `TransactionLogValue` numbers them. Kafka's Dead and PrepareEpochFence are steps
    of one decision here. In Kafka they never reach the log either."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def shown(self) -> str:
        """The state's name as Kafka's tools print it."""
        return "".join(part.capitalize() for part in self.name.split("_"))


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: frozenset((State.EMPTY, State.ONGOING, State.PREPARE_ABORT)),
    State.ONGOING: frozenset((State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)),
    State.PREPARE_COMMIT: frozenset((State.COMPLETE_COMMIT,)),
    State.PREPARE_ABORT: frozenset((State.COMPLETE_ABORT,)),
    State.COMPLETE_COMMIT: frozenset((State.EMPTY, State.ONGOING, State.PREPARE_ABORT)),
    State.COMPLETE_ABORT: frozenset((State.EMPTY, State.ONGOING, State.PREPARE_ABORT)),
}
"""Valid next states. A transaction without partitions is aborted from EMPTY and COMPLETE_* (KIP-890)."""

PREPARED: Final = frozenset((State.PREPARE_COMMIT, State.PREPARE_ABORT))
OF_A_PRODUCER: Final = frozenset((State.EMPTY, State.ONGOING))
"""States that a producer causes. A producer never has the last epoch."""
AT_REST: Final = frozenset((State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT))


class Transaction(NamedTuple):
    """The producer of a transactional id, and its transaction.

    `previous_producer_id` is the producer id before this state. `next_producer_id` is the one used after the markers
    are written, if the epochs of this one are exhausted. `last_producer_epoch` allows a producer to retry after a lost
    response: it is not in the log, and is lost when the coordinator moves. `client_version` is the transaction.version
    of the client that made the last step.

    A kept transaction has a `next_producer_epoch` of 0 or more (KIP-939): the producer that wrote it is fenced, and the
    producer with the next id and epoch may end it. The two ids are equal unless the epochs were exhausted.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIMESTAMP
    updated_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    client_version: int = 0
    next_producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_exhausted(self) -> bool:
        """Whether the next epoch must not be given to a producer."""
        return is_exhausted(self.producer_epoch)

    @property
    def is_kept(self) -> bool:
        """Whether another producer than the one that wrote the open transaction may end it."""
        return self.state is State.ONGOING and self.next_producer_epoch != NO_PRODUCER_EPOCH

    @property
    def owner(self) -> tuple[int, int]:
        """The id and epoch of the producer that may make the next step."""
        if self.state is State.ONGOING and self.next_producer_epoch != NO_PRODUCER_EPOCH:
            return self.next_producer_id, self.next_producer_epoch
        return self.producer_id, self.producer_epoch


def is_exhausted(producer_epoch: int) -> bool:
    return producer_epoch >= EPOCH_MAX - 1


class Ending(NamedTuple):
    """A transaction whose outcome is committed: its markers must be written, then it is complete. An effect of
    `TransactionDraft`. Before transaction.version 2 only `started_ms` distinguishes it from the producer's next
    transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]
    started_ms: int


def ending_of(transactional_id: str, transaction: Transaction) -> Ending:
    assert transaction.state in PREPARED
    return Ending(
        transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state is State.PREPARE_COMMIT,
        transaction.client_version,
        transaction.partitions,
        transaction.started_ms,
    )


class ProducerIdNeeded(Exception):
    """Raised when the operation needs a new producer id: get one and run it again."""
