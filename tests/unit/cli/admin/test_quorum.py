"""Which disk a command means that names a node only."""

from __future__ import annotations

import pytest

from kraft.cli.admin.quorum import FETCHES_STILL_MS, _only_directory
from kraft.cli.admin.running import NotFound
from kraft.client.admin.cluster import QuorumReplica


def replica(node_id: int, disk: bytes, last_fetch_ms: int) -> QuorumReplica:
    return QuorumReplica(
        node_id=node_id, directory_id=disk, log_end_offset=1, lag=0, last_fetch_ms=last_fetch_ms, last_caught_up_ms=0
    )


def test_of_a_replaced_disk_and_the_new_one_the_new_one_is_meant() -> None:
    old, new = replica(2, b"old", 5_000), replica(2, b"new", 5_000 + FETCHES_STILL_MS)
    assert _only_directory((new, old, replica(3, b"other", 9_000)), 2, "observer") == b"new"


def test_two_disks_that_both_fetch_are_not_chosen_between() -> None:
    first, second = replica(2, b"first", 5_000), replica(2, b"second", 5_000 + FETCHES_STILL_MS - 1)
    with pytest.raises(NotFound, match="2 directories"):
        _only_directory((first, second), 2, "observer")
    with pytest.raises(NotFound, match="no observer 4"):
        _only_directory((first, second), 4, "observer")
