"""The client for Python programs: `connect` for trio, `kraft.clients.aio.connect` for asyncio, for clusters of kraft
and of Apache Kafka.

    async with connect("127.0.0.1:9092") as cluster:
        async with open_producer(cluster) as producer:
            await producer.send("flights", b"LH 400", key=b"FRA")

This package parses the cluster's address and login (Kafka's client keys), and adapts the client to asyncio. Producers,
consumers, members of groups and share groups, and transactions are implemented in `kraft.rpc_client`, administration in
`kraft.admin`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraft.admin.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from kraft.common.config.endpoints import bootstrap_addresses
from kraft.common.ids import TopicPartition
from kraft.rpc_client.client_keys import security_of
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.consumer import ConsumedRecord, Consumer, start_positions
from kraft.rpc_client.group_consumer import CLASSIC, CONSUMER, GroupConsumer, open_group_consumer
from kraft.rpc_client.producer import Producer, open_producer
from kraft.rpc_client.share_consumer import ShareConsumer, open_share_consumer
from kraft.rpc_client.share_membership import ShareGroupsOff
from kraft.rpc_client.share_record import AcknowledgementsFailed, ShareRecord
from kraft.rpc_client.transactions import TransactionalProducer, open_transactional_producer
from kraft.world.real import RealWorld

__all__ = [
    "CLASSIC",
    "CONSUMER",
    "EARLIEST",
    "LATEST",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "AcknowledgementsFailed",
    "Cluster",
    "ConsumedRecord",
    "Consumer",
    "GroupConsumer",
    "Producer",
    "ShareConsumer",
    "ShareGroupsOff",
    "ShareRecord",
    "TopicPartition",
    "TransactionalProducer",
    "connect",
    "open_group_consumer",
    "open_producer",
    "open_share_consumer",
    "open_transactional_producer",
    "start_positions",
]

ABSENT_SECONDS = 3.0
"""How long refused connections are retried, if no address was ever reached."""


def connect(
    bootstrap: str | Sequence[str] = "127.0.0.1:9092",
    *,
    config: Mapping[str, str] | None = None,
    client_id: str = "kraft-python",
    timeout: float = 30.0,
) -> Cluster:
    """Return a cluster, to be used as an asynchronous context manager. It connects at the first operation.

    `bootstrap` are nodes, of which one must answer: HOST:PORT each, as a list or separated by commas. `config` has
    Kafka's client keys (security.protocol, sasl.mechanism, sasl.jaas.config, ssl.truststore.location ...). `timeout`
    limits an operation with all its attempts, in seconds. Operations raise NoBroker earlier if no address was ever
    reached: after ABSENT_SECONDS if all refuse connections, and immediately if no name resolves. Raises ValueError for
    invalid addresses, and ConfigurationError for invalid keys.
    """
    security = security_of("config", dict(config or {}))
    return Cluster(
        RealWorld(tls=security.tls, login=security.login),
        bootstrap_addresses(bootstrap),
        client_id=client_id,
        operation_seconds=timeout,
        absent_seconds=ABSENT_SECONDS,
    )
