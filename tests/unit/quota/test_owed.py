"""What a share owes for what it has produced: by its user and client id, whatever the connection."""

from __future__ import annotations

import trio

from kraft.common.config.node.node_loader import load_node_config
from kraft.metadata.image.client_quotas_image import ClientQuotasImage
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.quota_keys import PRODUCER_BYTE_RATE
from kraft.quota.client_quotas import HELD_BYTES_MAX, HELD_SECONDS_MAX, ClientQuotas
from kraft.world.simulated import SimulatedWorld, Universe
from tests.unit.server.brokers import simulate

LIMIT = 1000.0
SPAN = 10.0
"""Seconds that samples cover: a share that was quiet may use so much at once."""


def limited(limit: float) -> ClientQuotasImage:
    return ClientQuotasImage(OrderedMap({(("user", True, "u"),): OrderedMap({PRODUCER_BYTE_RATE: limit})}))


def quotas_of(world: SimulatedWorld) -> ClientQuotas:
    quotas = ClientQuotas(load_node_config(), world.clock)
    quotas.take_image(limited(LIMIT))
    return quotas


def test_a_client_owes_its_throttle_time_until_it_has_passed() -> None:
    async def main(universe: Universe) -> None:
        world = universe.world_for("a")
        quotas = quotas_of(world)
        assert quotas.producer_owes("u", "c", 1) == 0
        assert quotas.produced("u", "c", int(LIMIT * SPAN)) == 0
        assert quotas.producer_owes("u", "c", 1) == 0
        told = quotas.produced("u", "c", int(5 * LIMIT))
        assert told == quotas.producer_owes("u", "c", 1) == quotas.producer_owes("u", "other", 1) == 5
        assert quotas.producer_owes("another", "c", 1) == 0
        await world.clock.sleep(3)
        assert round(quotas.producer_owes("u", "c", 1), 3) == 2
        await world.clock.sleep(3)
        assert quotas.producer_owes("u", "c", 1) == 0

    simulate(main)


def test_a_long_throttle_time_is_owed_after_its_samples_expired() -> None:
    async def main(universe: Universe) -> None:
        world = universe.world_for("a")
        quotas = quotas_of(world)
        assert quotas.produced("u", "c", int(LIMIT * (SPAN + 60))) == 60
        assert quotas.producer_owes("u", "c", 1) == HELD_SECONDS_MAX
        await world.clock.sleep(50)
        assert quotas.produced("u", "c", 1) == 0
        assert round(quotas.producer_owes("u", "c", 1)) == 10

    simulate(main)


def test_a_removed_limit_leaves_no_debt() -> None:
    async def main(universe: Universe) -> None:
        quotas = quotas_of(universe.world_for("a"))
        quotas.produced("u", "c", int(LIMIT * 2 * SPAN))
        quotas.take_image(limited(5 * LIMIT))
        assert quotas.producer_owes("u", "c", 1) == 0
        await trio.lowlevel.checkpoint()

    simulate(main)


def test_the_bytes_of_waiting_requests_are_bounded() -> None:
    async def main(universe: Universe) -> None:
        quotas = quotas_of(universe.world_for("a"))
        quotas.produced("u", "c", int(LIMIT * 2 * SPAN))
        quotas.held_bytes = HELD_BYTES_MAX - 100
        assert quotas.producer_owes("u", "c", 100) > 0
        assert quotas.producer_owes("u", "c", 101) == 0
        await trio.lowlevel.checkpoint()

    simulate(main)
