"""The one transaction in which the driver writes a micro-batch.

Whoever begins a transaction under a transactional id ends the one before it, and fences its owner: the coordinator
gives out a new epoch, and what the old one had not committed is aborted. A (producer id, epoch) is thus used by one
process alone, so that a leader's answer "I have this sequence" is about its own rows and nobody else's.

The requests are those of producers from before transaction.version 2. Kafka serves them at every level, each batch
gets an epoch of its own all the same, and what such a producer may still do late is stopped by leaders, who ask the
coordinator (KIP-890).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from kraft.common.errors import KraftError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.spark.client.wire import RETRY_SECONDS, WireCluster, WireError
from kraft.spark.errors import batch_fenced
from kraft.spark.sink.batch_sender import DELIVERY_SECONDS_MAX, FENCED, BatchSender, Outgoing, Partition

log = logging.getLogger(__name__)
NEEDED = {22: "InitProducerId", 24: "AddPartitionsToTxn", 26: "EndTxn"}
"""What a broker that serves transactions serves."""
COORDINATOR_OF_TRANSACTION = 1
ABORT_SECONDS_MAX = 10.0


def missing_api(cluster: WireCluster) -> str | None:
    """What the cluster lacks of transactions. Asks whichever node answers. Raises ConnectionError."""
    served = cluster.served()
    return next((name for key, name in NEEDED.items() if key not in served), None)


class SinkTransaction:
    """Used once: `begin`, `add`, `write`, then `end`."""

    def __init__(self, cluster: WireCluster, transactional_id: str, timeout_ms: int) -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.sender = BatchSender(cluster, transactional_id)

    def begin(self) -> None:
        """Ends what is open under this id, whoever began it."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms)
        answer = self.ask_coordinator(request, lambda answer: answer.error_code)
        self.sender.become(answer.producer_id, answer.producer_epoch)

    def add(self, partitions: Iterable[Partition]) -> None:
        """Tell the coordinator where the transaction will write."""
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
        """Raises SourceError, WireError, OSError. The outcome is unknown then, and the next to begin finds it out."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.sender.producer_id,
            producer_epoch=self.sender.epoch,
            committed=is_commit,
        )
        self.ask_coordinator(request, lambda answer: answer.error_code, seconds_max)

    def abort(self) -> None:
        """Abort the transaction, without an error where that fails: then the next producer aborts it, or the
        coordinator after its timeout."""
        try:
            self.end(is_commit=False, seconds_max=ABORT_SECONDS_MAX)
        except (OSError, KraftError) as problem:
            log.warning("transaction %s is left to its coordinator: %s", self.transactional_id, problem)

    def write(self, outgoing: Iterable[Outgoing]) -> dict[Partition, int]:
        """All of it, in order within each partition. Answers the offset of each partition's last batch. Raises
        SourceError where another has taken over, WireError, OSError."""
        return self.sender.write(outgoing)

    def ask_coordinator(
        self, request: Any, code_of: Callable[[Any], int], seconds_max: float = DELIVERY_SECONDS_MAX
    ) -> Any:
        """Ask again what may pass. Raises SourceError where another has taken over, WireError, OSError."""
        deadline = time.monotonic() + seconds_max
        while True:
            try:
                address = self.coordinator()
                answer = self.cluster.call_at(address, request)
                code = code_of(answer)
                if not code:
                    return answer
                if code in FENCED:
                    raise batch_fenced(self.transactional_id)
                raise WireError(code, f"{type(request).__name__} of transactional id {self.transactional_id}")
            except (OSError, WireError) as problem:
                final = isinstance(problem, WireError) and not problem.is_retriable
                if final or time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_SECONDS)

    def coordinator(self) -> tuple[str, int]:
        answer = self.cluster.any_call(
            FindCoordinatorRequest(key=self.transactional_id, key_type=COORDINATOR_OF_TRANSACTION)
        )
        if answer.error_code:
            raise WireError(answer.error_code, f"the coordinator of transactional id {self.transactional_id}")
        return answer.host, answer.port
