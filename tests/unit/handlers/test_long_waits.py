"""Waits that are longer than an answer can tell."""

from __future__ import annotations

import math

import trio

from kraft.common.config.node.node_loader import load_node_config
from kraft.handlers.registry import RequestContext
from kraft.handlers.throttling import wait_ms
from kraft.metadata.image.client_quotas_image import ClientQuotasImage
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.quota_keys import CONTROLLER_MUTATION_RATE, PRODUCER_BYTE_RATE
from kraft.network.reply import Peer
from kraft.protocol.api_keys import ApiKey
from kraft.quota.client_quotas import ClientQuotas, MutationQuotas
from kraft.quota.throttle import WAIT_MS_MAX
from kraft.world.simulated import Universe
from tests.unit.server.brokers import simulate

PRODUCED_BYTES = 3 << 20


def limited(key: str, limit: float) -> ClientQuotasImage:
    return ClientQuotasImage(OrderedMap({(("user", True, "u"),): OrderedMap({key: limit})}))


def test_a_very_long_throttle_time_is_returned_as_the_largest_value() -> None:
    async def main(universe: Universe) -> None:
        quotas = ClientQuotas(load_node_config(), universe.world_for("a").clock)
        quotas.take_image(limited(PRODUCER_BYTE_RATE, 1.0))
        seconds = quotas.produced("u", "c", PRODUCED_BYTES)
        assert seconds * 1000 > WAIT_MS_MAX
        context = RequestContext(Peer("host", "CLIENT", ("host", 9092), "User:u"), ApiKey.PRODUCE, 9, 0, "c")
        assert wait_ms(context, quotas, seconds, PRODUCER_BYTE_RATE) == WAIT_MS_MAX == 2**31 - 1
        assert wait_ms(context, quotas, math.inf, PRODUCER_BYTE_RATE) == WAIT_MS_MAX
        await trio.lowlevel.checkpoint()

    simulate(main)


def test_a_very_long_throttle_time_of_new_partitions_is_returned_as_the_largest_value() -> None:
    async def main(universe: Universe) -> None:
        for limit in (1e-4, 5e-324):
            quotas = MutationQuotas(load_node_config(), universe.world_for("a").clock)
            quotas.take_image(limited(CONTROLLER_MUTATION_RATE, limit))
            charge = quotas.of_request("u", "c", is_strict=False)
            charge.charge(1000)
            assert charge.wait_ms == WAIT_MS_MAX
        await trio.lowlevel.checkpoint()

    simulate(main)
