"""Where a follower's log is cut: by leader epochs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraft.replication.fetchers.following import truncation_offset
from kraft.storage.leader_epoch_cache import LeaderEpochCache


def log(end: int, *epochs: tuple[int, int]) -> Any:
    """A log that ends at `end`, whose epochs (epoch, start offset) are those."""
    cache = LeaderEpochCache(epochs)
    return SimpleNamespace(log_end_offset=end, end_offset_for_epoch=lambda epoch: cache.end_offset_for(epoch, end))


@pytest.mark.parametrize(
    ("own", "leader_epoch", "leader_end", "offset"),
    [
        pytest.param(log(10, (1, 0)), 1, 7, 7, id="the leader's part of a shared epoch is shorter"),
        pytest.param(log(10, (1, 0), (2, 6)), 1, 8, 6, id="our part of a shared epoch is shorter"),
        pytest.param(
            log(10, (1, 0), (3, 6)),
            2,
            8,
            6,
            id="an epoch of the leader's that we never had: what follows the last shared one goes",
        ),
        pytest.param(log(10, (3, 0)), 1, 4, 0, id="all we have is of later epochs"),
        pytest.param(log(10), 1, 4, 4, id="we know no epochs"),
        pytest.param(log(10, (1, 0), (2, 10)), 1, 12, 10, id="we led an epoch in which we wrote nothing"),
    ],
)
def test_a_log_is_cut_where_it_stops_agreeing_with_its_leader(
    own: Any, leader_epoch: int, leader_end: int, offset: int
) -> None:
    assert truncation_offset(own, leader_epoch, leader_end) == offset
