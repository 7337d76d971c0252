"""A cluster in a thread whose start is interrupted."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
import trio

from kraft.testing.cluster_thread import ClusterThread


class Endless:
    """A cluster that takes for ever to start."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    async def __aenter__(self) -> None:
        self.begun.set()
        await trio.sleep_forever()

    async def __aexit__(self, *ignored: object) -> None:
        pass


def test_an_interrupted_start_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, endless = threading.active_count(), Endless()
    cluster = ClusterThread(1, tmp_path)
    monkeypatch.setattr(cluster, "_cluster", endless)

    class Interrupted(Future[object]):
        def result(self, timeout: float | None = None) -> object:
            endless.begun.wait(10)
            raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "_serving", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        cluster.__enter__()
    assert threading.active_count() == before
