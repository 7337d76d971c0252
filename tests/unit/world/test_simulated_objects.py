"""Simulated object stores fail in the ways that real ones do."""

from __future__ import annotations

import pytest

from kraft.world.ports import ObjectMissing, ObjectRefused, ObjectStore, ObjectUnreachable
from kraft.world.simulated import SimulatedWorld, Universe
from kraft.world.simulated.objects import ObjectFaults, ObjectServer

URI = "s3://bucket"


def run(faults: ObjectFaults, body) -> Universe:  # type: ignore[no-untyped-def]
    """`body(store, server, universe)` on a node, with a time limit of two seconds."""

    async def main(universe: Universe) -> None:
        server = universe.object_servers.at(URI)
        server.faults = faults

        async def alive(world: SimulatedWorld) -> None:
            await body(world.objects.open(URI, timeout_seconds=2.0), server, universe)

        await universe.live(universe.world_for(1), alive)

    universe = Universe(1)
    universe.run(main, seconds_max=1000)
    return universe


async def put_in_vain(store: ObjectStore) -> None:
    with pytest.raises(ObjectUnreachable):
        await store.put("a", b"x")


def test_a_failed_object_store_request_has_no_effect() -> None:
    async def body(store: ObjectStore, server: ObjectServer, universe: Universe) -> None:
        await put_in_vain(store)
        await universe.sleep(100)
        assert server.objects == {}

    assert run(ObjectFaults(failure_rate=1.0), body).object_servers.at(URI).bites["failure"] == 1


def test_a_lost_response_hides_a_completed_request() -> None:
    async def body(store: ObjectStore, server: ObjectServer, universe: Universe) -> None:
        await put_in_vain(store)
        assert server.objects == {"a": b"x"}

    run(ObjectFaults(lost_answer_rate=1.0), body)


def test_a_delayed_request_takes_effect_after_its_sender_timed_out() -> None:
    async def body(store: ObjectStore, server: ObjectServer, universe: Universe) -> None:
        await put_in_vain(store)
        assert server.objects == {}
        await universe.sleep(100)
        assert server.objects == {"a": b"x"}

    run(ObjectFaults(late_rate=1.0), body)


def test_a_caller_that_waits_for_a_lost_answer_gets_a_connection_error() -> None:
    async def body(store: ObjectStore, server: ObjectServer, universe: Universe) -> None:
        universe.time.call_after(1.0, server.break_connections)
        began = universe.time.now
        await put_in_vain(store)
        assert universe.time.now - began < 1.5
        assert server.objects == {"a": b"x"}

    run(ObjectFaults(lost_answer_rate=1.0), body)


def test_a_refusal_is_counted() -> None:
    async def body(store: ObjectStore, server: ObjectServer, universe: Universe) -> None:
        with pytest.raises(ObjectRefused):
            await store.put("a", b"x")
        assert server.bites["refusal"] == 1

    run(ObjectFaults(refuses=True), body)


def test_a_request_under_way_takes_effect_though_its_sender_died() -> None:
    async def main(universe: Universe) -> None:
        async def alive(world: SimulatedWorld) -> None:
            await world.objects.open(URI, timeout_seconds=2.0).put("a", b"x")

        universe.world_for(1)
        universe.time.call_after(0.001, lambda: universe.kill(1))
        assert not await universe.live(universe.world_for(1), alive)
        await universe.sleep(10)
        assert universe.object_servers.at(URI).objects == {"a": b"x"}

    Universe(1).run(main, seconds_max=1000)


def test_damage_shows_in_the_digest() -> None:
    async def body(store: ObjectStore, server: ObjectServer, universe: Universe) -> None:
        sent = await store.put("a", b"hello")
        assert (await store.digest("a")).size == sent.size
        assert await store.digest("a") != sent

    run(ObjectFaults(damage_rate=1.0), body)


def test_a_store_may_refuse() -> None:
    async def body(store: ObjectStore, server: ObjectServer, universe: Universe) -> None:
        with pytest.raises(ObjectRefused):
            await store.put("a", b"x")
        server.faults = ObjectFaults()
        with pytest.raises(ObjectMissing):
            await store.digest("a")

    run(ObjectFaults(refuses=True), body)
