"""Which disk a command means that names a node only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from kraft.admin.cluster import Quorum, QuorumReplica
from kraft.cli.admin.cluster.quorum import FETCHES_STILL_MS, _directory_of, _only_directory
from kraft.cli.admin.running import NotFound


def replica(node_id: int, disk: bytes, last_fetch_ms: int) -> QuorumReplica:
    return QuorumReplica(
        node_id=node_id, directory_id=disk, log_end_offset=1, lag=0, last_fetch_ms=last_fetch_ms, last_caught_up_ms=0
    )


def test_of_a_replaced_directory_and_its_successor_the_successor_is_chosen() -> None:
    old, new = replica(2, b"old", 5_000), replica(2, b"new", 5_000 + FETCHES_STILL_MS)
    assert _only_directory((new, old, replica(3, b"other", 9_000)), 2, "observer") == b"new"


def test_two_directories_that_both_fetch_are_ambiguous() -> None:
    first, second = replica(2, b"first", 5_000), replica(2, b"second", 5_000 + FETCHES_STILL_MS - 1)
    with pytest.raises(NotFound, match="2 directories"):
        _only_directory((first, second), 2, "observer")
    with pytest.raises(NotFound, match="no observer 4"):
        _only_directory((first, second), 4, "observer")


def directory_of(monkeypatch: pytest.MonkeyPatch, *, is_gone: bool) -> bytes:
    """Which of two disks is meant, the first of which fetched a moment before the second began to, and may be gone."""
    cluster: Any = SimpleNamespace(
        world=SimpleNamespace(clock=SimpleNamespace(now=trio.current_time, sleep=trio.sleep))
    )

    async def describe(asked: Any) -> Quorum:
        assert asked is cluster
        now_ms = int(trio.current_time() * 1000)
        old = replica(2, b"old", started_ms if is_gone else now_ms)
        return Quorum(1, 1, 1, (), (old, replica(2, b"new", now_ms)), ())

    async def ask() -> bytes:
        nonlocal started_ms
        started_ms = int(trio.current_time() * 1000)
        return await _directory_of(cluster, 2, "observer")

    started_ms = 0
    monkeypatch.setattr("kraft.admin.cluster.describe_quorum", describe)
    return trio.run(ask, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_recently_replaced_directory_is_recognized_by_its_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert directory_of(monkeypatch, is_gone=True) == b"new"


def test_directories_that_both_keep_fetching_are_named_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match="2 directories"):
        directory_of(monkeypatch, is_gone=False)
