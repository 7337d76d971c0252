"""Whom a broker follows, as it ends."""

from __future__ import annotations

import pytest
import trio

from kraft.replication.fetchers.replica_fetcher_manager import ReplicaFetcherManager
from kraft.world.simulated import Universe
from tests.unit.replication.followers import follower
from tests.unit.server.brokers import simulate


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("turns", [1, 2])
def test_a_stopping_broker_starts_no_new_fetcher(turns: int, seed: int) -> None:
    """The last news of the metadata may come at any turn of the loop as it ends, also when all fetchers are gone."""

    async def play(universe: Universe) -> None:
        async with follower(universe) as it:
            log = it.made.server.services.loggers.get("fetcher")
            manager = ReplicaFetcherManager(it.made.replicas, it.fetcher._settings, log)
            it.follow()
            async with trio.open_nursery() as nursery:
                await nursery.start(manager.run)
                nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True):
                    for _ in range(turns):
                        await trio.lowlevel.checkpoint()
                    it.made.change(it.topic_id, leader=3)
                    manager.follow_changed()

    simulate(play, seed)
