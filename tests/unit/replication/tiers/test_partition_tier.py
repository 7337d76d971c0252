"""How long a segment has waited for its copy, and whether a round was put off."""

from __future__ import annotations

from typing import NamedTuple

from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.remote_retention import Expiry
from kraft.replication.tiers.partition_tier import PartitionTier


class Waiting(NamedTuple):
    base_offset: int
    size: int = 100


def test_the_backoff_of_a_tiered_partition_depends_only_on_its_next_segment() -> None:
    tier = PartitionTier()

    def measure(now: float, *waiting: int) -> None:
        nothing = Expiry(log_start_offset=0, segments=())
        tier.measure([Waiting(each) for each in waiting], nothing, RemoteLogMetadataCache(), now)  # type: ignore[misc]

    measure(10, 0)
    measure(20, 0, 50)
    assert tier.copy_wait(25) == 15
    measure(30, 50)
    assert tier.copy_wait(37) == 7, "the one before was copied meanwhile"
    measure(40)
    assert tier.copy_wait(50) == 0
    measure(60, 50)
    assert tier.copy_wait(61) == 1, "it is not known to have waited all the time"


def test_a_tiering_round_that_fails_without_an_exception_is_backed_off() -> None:
    tier = PartitionTier()
    tier.failed(str(ConnectionResetError()), 5)
    assert (tier.put_off, tier.last_error_ms) == (1, 5)
    tier.succeeded()
    assert tier.put_off == 0
