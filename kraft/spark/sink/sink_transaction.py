"""The transaction in which the driver writes a micro-batch.

Starting a transaction under a transactional id aborts the open one before it and fences its producer: the coordinator
assigns a new epoch. So each (producer id, epoch) is used by one process only. If a leader responds that it already has
a sequence, the sequence is of this process's own rows.

The requests are those of producers before transaction.version 2. Kafka accepts them at every feature level, and each
batch still gets its own epoch. Late writes of such a producer are rejected by leaders, which ask the coordinator
(KIP-890).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from kraft.common.errors import KraftError
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.spark.client.wire import RETRY_SECONDS, WireCluster, WireError
from kraft.spark.errors import batch_fenced
from kraft.spark.sink.batch_sender import DELIVERY_SECONDS_MAX, FENCED, BatchSender, Outgoing, Partition

T = TypeVar("T")

log = logging.getLogger(__name__)
NEEDED = {22: "InitProducerId", 24: "AddPartitionsToTxn", 26: "EndTxn"}
"""The APIs of a broker that supports transactions."""
COORDINATOR_OF_TRANSACTION = 1
ABORT_SECONDS_MAX = 10.0
TWO_PHASE_VERSIONS: Mapping[int, int] = MappingProxyType({ApiKey.INIT_PRODUCER_ID: 6, ApiKey.END_TXN: 5})
"""Request versions of a transaction of two-phase commit (KIP-939)."""
IMPLICIT_PRODUCE = 12
"""The version of Produce that adds a partition to the transaction (KIP-890)."""
TRANSACTION_VERSION = "transaction.version"
EPOCHS_BUMPED_AT_END = 2
"""The level of this feature from which on EndTxn fences its producer's late requests."""


def missing_api(cluster: WireCluster) -> str | None:
    """Return the name of a transaction API that the cluster lacks; None if it has all. Asks any node that answers.
    Raises ConnectionError."""
    served = cluster.served()
    return next((name for key, name in NEEDED.items() if key not in served), None)


class SinkTransaction:
    """One transaction. Call `begin`, `add`, `write`, then `end`, once each.

    With `two_phase` it has no timeout (KIP-939), partitions need not be added, and its end fences late requests. The
    coordinator must offer it (`offers_two_phase`).
    """

    def __init__(
        self, cluster: WireCluster, transactional_id: str, timeout_ms: int, *, two_phase: bool = False
    ) -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.two_phase = two_phase
        self.versions = TWO_PHASE_VERSIONS if two_phase else {}
        self.sender = BatchSender(cluster, transactional_id, IMPLICIT_PRODUCE if two_phase else None)

    def begin(self) -> None:
        """Start the transaction. Aborts any open transaction under this id, and fences its producer."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            enable2_pc=self.two_phase,
        )
        answer = self.ask_coordinator(request, lambda answer: answer.error_code)
        self.sender.become(answer.producer_id, answer.producer_epoch)

    def add(self, partitions: Iterable[Partition]) -> None:
        """Add the partitions to the transaction at its coordinator."""
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(set(partitions)):
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.sender.producer_id,
            v3_and_below_producer_epoch=self.sender.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()
            ],
        )

        def code_of(answer: Any) -> int:
            codes = [
                each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            ]
            # Beside the one that is at fault, others are only said to be left out.
            return next((code for code in codes if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)), 0)

        self.ask_coordinator(request, code_of)

    def end(self, *, is_commit: bool, seconds_max: float = DELIVERY_SECONDS_MAX) -> None:
        """Commit or abort. Raises SourceError, WireError, OSError: then the outcome is unknown, and the next `begin`
        settles it."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.sender.producer_id,
            producer_epoch=self.sender.epoch,
            committed=is_commit,
        )
        self.ask_coordinator(request, lambda answer: answer.error_code, seconds_max)

    def abort(self) -> None:
        """Abort the transaction. A failure is only logged: the next producer aborts it, or the coordinator after its
        timeout."""
        try:
            self.end(is_commit=False, seconds_max=ABORT_SECONDS_MAX)
        except (OSError, KraftError) as problem:
            log.warning(
                "transaction %s could not be aborted; its coordinator aborts it after the transaction timeout: %s",
                self.transactional_id,
                problem,
            )

    def write(self, outgoing: Iterable[Outgoing]) -> dict[Partition, int]:
        """Send all batches, in order within each partition. Returns the offset of each partition's last batch. Raises
        SourceError if another producer fenced this one, WireError, OSError."""
        return self.sender.write(outgoing)

    def ask_coordinator(
        self, request: Any, code_of: Callable[[Any], int], seconds_max: float = DELIVERY_SECONDS_MAX
    ) -> Any:
        """Call the coordinator and retry retriable errors. Raises SourceError if another producer fenced this one,
        WireError, OSError."""

        def asked() -> Any:
            answer = self.cluster.call_at(self.coordinator(), request, self.versions.get(request.API_KEY))
            code = code_of(answer)
            if code in FENCED:
                raise batch_fenced(self.transactional_id)
            if code:
                raise WireError(code, f"{type(request).__name__} of transactional id {self.transactional_id}")
            return answer

        return retried(asked, seconds_max)

    def coordinator(self) -> tuple[str, int]:
        answer = self.cluster.any_call(
            FindCoordinatorRequest(key=self.transactional_id, key_type=COORDINATOR_OF_TRANSACTION)
        )
        if answer.error_code:
            raise WireError(answer.error_code, f"the coordinator of transactional id {self.transactional_id}")
        return answer.host, answer.port

    def offers_two_phase(self) -> bool:
        """Whether the coordinator serves two-phase commit, and the cluster the transaction.version for it. Raises
        WireError, OSError."""

        def asked() -> bool:
            connection = self.cluster.connection(self.coordinator())
            _, newest = connection.versions.get(ApiKey.INIT_PRODUCER_ID, (0, 0))
            level = connection.features.get(TRANSACTION_VERSION, 0)
            return newest >= TWO_PHASE_VERSIONS[ApiKey.INIT_PRODUCER_ID] and level >= EPOCHS_BUMPED_AT_END

        return retried(asked)


def retried(ask: Callable[[], T], seconds_max: float = DELIVERY_SECONDS_MAX) -> T:
    """Call until the answer is no retriable error. Raises the last error, WireError or OSError."""
    deadline = time.monotonic() + seconds_max
    while True:
        try:
            return ask()
        except (OSError, WireError) as problem:
            if time.monotonic() > deadline or (isinstance(problem, WireError) and not problem.is_retriable):
                raise
        time.sleep(RETRY_SECONDS)
