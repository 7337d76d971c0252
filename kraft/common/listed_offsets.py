"""Validity of offsets in responses to ListOffsets, also through other clients. Pure.

A client whose connection broke may report no error and a number that is not an offset: librdkafka returns -1001
(RD_KAFKA_OFFSET_INVALID). Two of them, as the start and the end of a partition, look like an empty partition.
"""

from __future__ import annotations

from typing import Final

from kraft.common.ids import NO_OFFSET  # No record is as late as the time that was asked for.

MAX_TIMESTAMP: Final = -3
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
MAY_BE_NONE: Final = frozenset((MAX_TIMESTAMP, LATEST_TIERED, EARLIEST_PENDING_UPLOAD))
"""Sentinels of ListOffsets that name a record which need not exist (KIP-734, KIP-1005, KIP-1023)."""


def is_offset_answer(offset: int, asked: int) -> bool:
    """Whether `offset` is a valid response for `asked`, a time in ms or a sentinel of ListOffsets. A log always has a
    start and an end, so -1 is no valid response for these."""
    return offset >= 0 or (offset == NO_OFFSET and (asked >= 0 or asked in MAY_BE_NONE))
