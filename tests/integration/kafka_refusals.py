"""Records that a topic has twice because a leader of Apache Kafka refused a batch as out of order.

When Kafka begins to lead, a batch may reach it before the batch in front of it, which the former leader has refused.
Kafka answers OUT_OF_ORDER_SEQUENCE_NUMBER. librdkafka then takes a new producer epoch and sends everything again that
is not acknowledged, also what the former leader has stored. A second copy is Kafka's if its log names the refusal, with
an end that includes the first copy. A refusal by a node of ours is in no log of Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kraft.protocol.records.record_batch import batches

REFUSAL: Final = re.compile(
    r"Out of order sequence number for producer (\d+) at offset \d+ in partition (\S+): "
    r"\d+ \(incoming seq. number\), (\d+) \(current end sequence number\)"
)
LOG: Final = "server.log"
"""Of a node of Apache Kafka, in its directory."""


class Copy(NamedTuple):
    """The producer of a record, its epoch, and the record's sequence number in that epoch."""

    producer_id: int
    epoch: int
    sequence: int


class Refusal(NamedTuple):
    """What Kafka's leader of a partition refused, and the last sequence that it had of the producer."""

    producer_id: int
    partition: str
    end: int


def refusals(logs: Iterable[str]) -> set[Refusal]:
    """Every refusal that these logs name."""
    return {
        Refusal(int(producer), partition, int(end)) for log in logs for producer, partition, end in REFUSAL.findall(log)
    }


def is_kafkas(copies: list[Copy], partition: str, refused: set[Refusal]) -> bool:
    """Whether the second of two copies follows from such a refusal: one producer wrote both, the second in its next
    epoch, and the refusing leader had the first."""
    if len(copies) != 2:
        return False
    first, second = copies
    return (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 1) and any(
        each.producer_id == first.producer_id and each.partition == partition and each.end >= first.sequence
        for each in refused
    )


def kafkas_copies(directory: Path, topic: str, numbers: Iterable[int]) -> set[int]:
    """The numbers whose second copies are Kafka's. `directory` has the nodes' directories."""
    refused = refusals(path.read_text(errors="replace") for path in directory.glob(f"node*/{LOG}"))
    found = set()
    for number in numbers:
        for partition, copies in _copies(directory, topic, number):
            if is_kafkas(copies, partition, refused):
                found.add(number)
    return found


def _copies(directory: Path, topic: str, number: int) -> Iterator[tuple[str, list[Copy]]]:
    """The copies of a record in each partition, from one of its replicas."""
    replicas = {path.name: path for path in directory.glob(f"node*/*/{topic}-*") if path.is_dir()}
    for partition, path in replicas.items():
        copies = [
            Copy(batch.producer_id, batch.producer_epoch, batch.base_sequence + record.offset - batch.base_offset)
            for segment in sorted(path.glob("*.log"))
            for batch in batches(segment.read_bytes(), partial_tail=True)
            for record in batch.records()
            if record.value is not None and bytes(record.value) == b"%d" % number
        ]
        if copies:
            yield partition, copies
