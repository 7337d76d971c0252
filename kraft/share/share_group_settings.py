"""A share group's settings, as the leaders of partitions use them."""

from __future__ import annotations

from typing import Final, NamedTuple

from kraft.replication.partition import READ_UNCOMMITTED
from kraft.share.share_partition import Limits

EARLIEST: Final = -2
LATEST: Final = -1


class ShareGroupSettings(NamedTuple):
    """The settings of one share group. `offset_reset` is where the group begins: EARLIEST, LATEST, or a duration in
    milliseconds (records not older than that). `isolation` is READ_UNCOMMITTED or READ_COMMITTED. `letter_topic` is the
    topic for dead letters; empty without one. `copies_records`: letters have the keys and values of their records."""

    limits: Limits = Limits()
    offset_reset: int = LATEST
    isolation: int = READ_UNCOMMITTED
    letter_topic: str = ""
    copies_records: bool = False
