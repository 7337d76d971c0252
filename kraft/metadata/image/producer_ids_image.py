"""The next producer id to allocate, and the broker that got the last block (KIP-730)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kraft.metadata.records.producer_ids_record import ProducerIdsRecord


@dataclass(frozen=True, slots=True)
class ProducerIdsImage:
    """`next_producer_id` is the first id of the next block. Broker -1 means that no block was allocated yet."""

    next_producer_id: int = 0
    broker_id: int = -1
    broker_epoch: int = -1

    def write(self) -> Iterator[Any]:
        if self != ProducerIdsImage():
            yield ProducerIdsRecord(
                broker_id=self.broker_id, broker_epoch=self.broker_epoch, next_producer_id=self.next_producer_id
            )


class ProducerIdsDraft:
    __slots__ = ("_image", "changed")

    def __init__(self, base: ProducerIdsImage) -> None:
        self._image = base
        self.changed = False

    def producer_ids(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id <= self._image.next_producer_id:
            raise ValueError(
                f"a record moves the next producer id from {self._image.next_producer_id} back to "
                f"{record.next_producer_id}"
            )
        self._image = ProducerIdsImage(record.next_producer_id, record.broker_id, record.broker_epoch)
        self.changed = True

    def finish(self) -> ProducerIdsImage:
        return self._image
