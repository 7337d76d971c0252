"""States of share groups in a cluster of three nodes: any node reads and writes them, whichever node coordinates them,
and they outlive the coordinator."""

from __future__ import annotations

from collections import Counter

import pytest
import trio

from kraft.admin import features
from kraft.common.errors import ApiError
from kraft.common.features import SHARE_VERSION, serves_share_groups
from kraft.coordinator.share.share_state import SharePartitionKey, StateBatch
from kraft.coordinator.share.share_states import ReadState, ShareStates, StateSummary
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.cluster import Cluster
from kraft.server.broker_server import BrokerServer
from kraft.testing.local_cluster import LocalCluster
from kraft.world.real import RealWorld

PARTITIONS = 30
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "6",
    "offsets.topic.num.partitions": "1",
    "broker.session.timeout.ms": "3000",
}
SECONDS_MAX = 60


def broker_of(cluster: LocalCluster, node_id: int) -> BrokerServer:
    broker = cluster.node(node_id).broker
    assert broker is not None
    return broker


def states_of(cluster: LocalCluster, node_id: int) -> ShareStates:
    return broker_of(cluster, node_id).shares.states


async def turn_on(cluster: LocalCluster) -> None:
    world = RealWorld(log_sink=lambda event: None)
    addresses = [address.rpartition(":") for address in cluster.bootstrap.split(",")]
    nodes = {*cluster.node_ids}
    with trio.fail_after(SECONDS_MAX):  # The feature needs every controller, and controllers register by themselves.
        await broker_of(cluster, 1).metadata.wait_until(
            lambda image: nodes <= {*image.cluster.controllers}, SECONDS_MAX
        )
    async with Cluster(world, [(host, int(port)) for host, _, port in addresses]) as client:
        await features.update_features(client, {SHARE_VERSION: 2}, features.UPGRADE)
    with trio.fail_after(SECONDS_MAX):
        for node_id in cluster.node_ids:
            await broker_of(cluster, node_id).metadata.wait_until(
                lambda image: serves_share_groups(image.features), SECONDS_MAX
            )


async def write_states(cluster: LocalCluster, keys: list[SharePartitionKey]) -> None:
    """Initialize the states by one node and write them by another."""

    async def write(number: int, key: SharePartitionKey) -> None:
        await states_of(cluster, 1 + number % 3).initialize(key, 0, 5)
        batches = [StateBatch(10 + number, 10 + number, 2, 1)]
        await states_of(cluster, 1 + (number + 1) % 3).write(key, 0, 0, 6, 1, batches)

    async with trio.open_nursery() as writers:
        for number, key in enumerate(keys):
            writers.start_soon(write, number, key)


def test_share_states_are_written_by_any_node_and_survive_the_loss_of_their_coordinator() -> None:
    async def main() -> None:
        async with LocalCluster(3, settings=SETTINGS) as cluster:
            await turn_on(cluster)
            await cluster.create_topic("t", partitions=PARTITIONS)
            topic_id = broker_of(cluster, 1).metadata.image.topics.id_by_name["t"]
            keys = [SharePartitionKey(f"g{index % 4}", topic_id, index) for index in range(PARTITIONS)]
            with trio.fail_after(SECONDS_MAX):
                await write_states(cluster, keys)
            shares = broker_of(cluster, 1).shares
            leaders = Counter(shares._coordinator_of(key) for key in keys)
            assert set(leaders) == {1, 2, 3}, "there are states of every coordinator"
            await cluster.kill(3)
            states = states_of(cluster, 1)
            with trio.fail_after(SECONDS_MAX):
                for number, key in enumerate(keys):
                    assert await states.read(key, 1) == ReadState(0, 6, [StateBatch(10 + number, 10 + number, 2, 1)])
                    assert await states.read_summary(key) == StateSummary(0, 1, 6, 1)
                    with pytest.raises(ApiError) as fenced:
                        await states.write(key, 0, 0, 7, 1, [])
                    assert fenced.value.code == ErrorCode.FENCED_LEADER_EPOCH
                    await states_of(cluster, 2).delete(key)
                    assert (await states.read_summary(key)).start_offset == -1

    trio.run(main)
