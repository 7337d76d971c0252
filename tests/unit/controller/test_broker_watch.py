"""The probe over a network: a killed process refuses, a living one accepts, a cut link proves nothing."""

from __future__ import annotations

import trio

from kraft.controller.brokers.broker_watch import BrokerWatch, connect_probe
from kraft.controller.brokers.heartbeat_manager import BrokerHeartbeatManager
from kraft.controller.controller_view import ControllerSettings
from kraft.metadata.image.cluster_image import BrokerRegistration, Endpoint
from kraft.world.simulated import SimulatedWorld, Universe


def test_only_a_refused_connection_proves_that_a_broker_died() -> None:
    async def fate(universe: Universe) -> None:
        here, there = universe.world_for("controller"), universe.world_for("broker")

        async def serve(world: SimulatedWorld) -> None:
            for port in (9001, 9002):
                await world.network.listen("node-broker", port)
            await trio.sleep_forever()

        async def write(operation: object) -> None:
            raise AssertionError("a probe writes nothing")

        heartbeats = BrokerHeartbeatManager(here.clock.now, 9_000)
        settings = ControllerSettings(node_id=1, cluster_id="c", probe_timeout_ms=500)
        watch = BrokerWatch(settings, heartbeats, here.clock, connect_probe(here.network), write, None)
        endpoints = (Endpoint("A", "node-broker", 9001, 0), Endpoint("B", "node-broker", 9002, 0))
        broker = BrokerRegistration(id=2, epoch=1, incarnation_id=bytes(16), endpoints=endpoints)
        half = BrokerRegistration(
            id=2, epoch=1, incarnation_id=bytes(16), endpoints=(Endpoint("C", "node-broker", 9009, 0), *endpoints)
        )
        async with trio.open_nursery() as broker_nursery:
            broker_nursery.start_soon(universe.live, there, serve)
            await universe.sleep(0.1)
            assert not await watch.is_proven_dead(broker)
            assert not await watch.is_proven_dead(half), "one port that is closed proves nothing"
            universe.cut("controller", "broker")
            before = here.clock.now()
            assert not await watch.is_proven_dead(broker)
            assert here.clock.now() - before < 0.6
            universe.heal()
            universe.kill("broker")
        await universe.sleep(0.1)
        assert await watch.is_proven_dead(broker)
        assert not await watch.is_proven_dead(BrokerRegistration(id=3, epoch=1, incarnation_id=bytes(16)))

    Universe(3).run(fate, seconds_max=100)
