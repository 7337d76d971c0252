"""What a switchboard tells of cuts."""

from __future__ import annotations

from kraft.testing.faults.switchboard import Switchboard


def test_a_majority_counts_fewer_partitioned_peers_than_a_minority() -> None:
    board = Switchboard()
    board.cut([1], [2, 3])
    board.cut([2, 3], [1])
    assert [board.cuts_of(node) for node in (1, 2, 3)] == [4, 2, 2]
    assert not board.is_calm
    board.heal()
    assert [board.cuts_of(node) for node in (1, 2, 3)] == [0, 0, 0]
    assert board.is_calm
