"""The next producer id to allocate (KIP-730)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kraft.metadata.records.producer_ids_record import ProducerIdsRecord


@dataclass(frozen=True, slots=True)
class ProducerIdsImage:
    """The state of producer id allocation. `next_producer_id` is the first id of the next block, 0 before the first one
    is allocated. As in Kafka, it is not kept which broker got the last block."""

    next_producer_id: int = 0

    def write(self) -> Iterator[Any]:
        if self != ProducerIdsImage():
            yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)


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
        self._image = ProducerIdsImage(record.next_producer_id)
        self.changed = True

    def finish(self) -> ProducerIdsImage:
        return self._image
