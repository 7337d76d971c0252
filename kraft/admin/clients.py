"""The clients that push their own metrics (KIP-714), as reported by the brokers to which they push."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kraft.admin.configs import BROKER, CLIENT_METRICS, Resource
from kraft.admin.status import ask_status
from kraft.admin.transport import AdminTransport
from kraft.common.status_keys import CLIENT, CLIENTS


@dataclass(frozen=True, slots=True)
class MeteredClient:
    """One client. `broker_id` is the broker to which it pushes, `nodes` are those to which it sends requests. Latencies
    and throttle are averages in ms. The rate is in records a second. Errors (in records) and rebalances are counted
    since the client's start. The lag is the largest one that the client reported, in records, or None. `idle_ms` is the
    time since its last request about metrics. `left_out` are numbers beyond a bound in its last push."""

    instance_id: str
    client_id: str
    software_name: str
    software_version: str
    address: str
    port: str
    broker_id: int
    nodes: tuple[int, ...]
    subscriptions: tuple[str, ...]
    interval_ms: int
    idle_ms: int
    pushes: int
    terminating: bool
    error_code: int
    metrics_count: int
    left_out: int
    latency_ms: float | None
    throttle_ms: float | None
    record_rate: float | None
    errors: float | None
    lag: float | None
    produce_latency_ms: float | None
    fetch_latency_ms: float | None
    rebalances: float | None
    rebalance_ms: float | None


@dataclass(frozen=True, slots=True)
class ClientMetric:
    """One number of a client. `type` is `counter` for a sum that only rises, else `gauge`."""

    name: str
    attributes: dict[str, str]
    value: float
    type: str


@dataclass(frozen=True, slots=True)
class ClientReport:
    """A client with all its numbers. `labels` are those that the client sent, such as its group."""

    client: MeteredClient
    labels: dict[str, str]
    metrics: tuple[ClientMetric, ...]


@dataclass(frozen=True, slots=True)
class MeteredClients:
    """The clients, in order of client id. `count` is the number of all clients. The list may be shorter: each broker
    returns only the thousand clients with the largest latency."""

    clients: tuple[MeteredClient, ...]
    count: int


async def list_clients(port: AdminTransport) -> MeteredClients | None:
    """The clients that brokers report. None if no broker reports any: brokers of Apache Kafka, or with
    `kraft.telemetry.enable=false`. Raises Refused."""
    documents = await _ask_brokers(port, CLIENTS, Resource(BROKER, ""))
    if not documents:
        return None
    found = [each for document in documents for each in document["clients"]]
    newest = _newest(_client(each) for each in found)
    ordered = sorted(newest, key=lambda each: (each.client_id, each.instance_id))
    repeated = len(found) - len(newest)
    return MeteredClients(tuple(ordered), sum(document["clients_count"] for document in documents) - repeated)


async def describe_client(port: AdminTransport, instance_id: str) -> ClientReport | None:
    """The client with this instance id, as reported by the broker to which it pushed last. None if no broker knows it.
    Raises Refused."""
    documents = await _ask_brokers(port, CLIENT, Resource(CLIENT_METRICS, instance_id))
    found = [each for document in documents for each in document["clients"]]
    if not found:
        return None
    last = min(found, key=lambda each: _age(_client(each)))
    return ClientReport(_client(last), last["labels"], tuple(ClientMetric(**each) for each in last["metrics"]))


def _newest(clients: Iterable[MeteredClient]) -> list[MeteredClient]:
    """The newest entry of each client. After a client moves to another broker, both list it for some time."""
    newest: dict[str, MeteredClient] = {}
    for each in clients:
        other = newest.get(each.instance_id)
        if other is None or _age(each) < _age(other):
            newest[each.instance_id] = each
    return list(newest.values())


def _age(client: MeteredClient) -> tuple[bool, int]:
    """The sort key of a client's entries, the best first. An entry without pushes has no numbers, so it is last."""
    return not client.pushes, client.idle_ms


def _client(entry: dict[str, Any]) -> MeteredClient:
    """Convert an entry. Fields that a broker of an earlier release does not report are None or empty."""
    fields: dict[str, Any] = {name: entry.get(name) for name in MeteredClient.__slots__}
    lists: dict[str, Any] = {"subscriptions": tuple(entry["subscriptions"]), "nodes": tuple(entry.get("nodes", ()))}
    return MeteredClient(**fields | lists)


async def _ask_brokers(port: AdminTransport, key: str, resource: Resource) -> list[Any]:
    async def ask(broker: int) -> list[Any]:
        return await ask_status(port, key, [resource], broker) or []

    return [document for found in await port.ask_brokers(ask, await port.broker_ids()) for document in found]
