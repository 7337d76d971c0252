"""Connections of clients, one at a time, to a fixed node or to the leader or coordinator. A request has any version
that both sides support."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from jepsen.checker.operations import Partition
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.rpc_client.connection import ClientConnection, Disconnected, open_connection
from kraft.world.ports import World

REQUEST_SECONDS: Final = 10.0
ASTRAY_RATE: Final = 0.05
"""Probability of a request to a random node instead of the known leader."""

TRY_AGAIN: Final = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
}


class Unanswered(Exception):
    """Raised when a request got no response: it may have had its effect, or not, or may still have it."""


class Refused(Exception):
    """Raised when the node answered with an error code that the caller did not expect."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: {name_of(code)}")
        self.code = code


class Session:
    """One connection at a time to one node, used by one task. The version of each request is drawn at random."""

    def __init__(self, world: World, host: str, port: int, name: str) -> None:
        self.world = world
        self.name = name
        self.chance: random.Random = world.random.stream(f"session {name}")
        self._host = host
        self._port = port
        self._connection: ClientConnection | None = None
        self.request_seconds = REQUEST_SECONDS
        """Timeout of one call."""
        self.topic_id: bytes | None = None
        """The topic whose leaders are looked up, if several topics have had its name. Leaders and epochs of the others
        are ignored."""

    async def call(self, request: Any, low: int, high: int) -> Any:
        """Send `request` in a version drawn from `low` to `high` that the node supports. Raises Unanswered."""
        try:
            connection = await self._connected()
            version = self._version(connection, request, low, high)
            return await connection.call(request, version=version, timeout=self.request_seconds)
        except (Disconnected, TimeoutError) as problem:
            self._disconnect()
            raise Unanswered(str(problem)) from problem

    async def call_all(self, requests: Sequence[Any], low: int, high: int) -> list[Any]:
        """Send all `requests` over one connection before waiting for the first response.

        Returns the responses in order. There are fewer than requests if the connection ended or a response was late.
        """
        answers: list[Any] = []
        try:
            connection = await self._connected()
            with self.world.clock.move_on_after(REQUEST_SECONDS) as limit:
                begun = [
                    await connection.begin(request, version=self._version(connection, request, low, high))
                    for request in requests
                ]
                for pending in begun:
                    answers += [await connection.finish(pending)]
            if limit.cancelled_caught:
                self._disconnect()
        except (Disconnected, TimeoutError):
            self._disconnect()
        return answers

    async def send_all(self, requests: Sequence[Any], low: int, high: int) -> bool:
        """Send `requests` that get no response: Produce with acks=0. False if the connection ended; requests sent
        before may still have arrived."""
        try:
            connection = await self._connected()
            with self.world.clock.move_on_after(REQUEST_SECONDS) as limit:
                for request in requests:
                    await connection.send_only(request, version=self._version(connection, request, low, high))
            if not limit.cancelled_caught:
                return True
        except (Disconnected, TimeoutError):
            pass
        self._disconnect()
        return False

    async def _connected(self) -> ClientConnection:
        """Return an open connection. Raises Disconnected, TimeoutError."""
        if self._connection is None or not self._connection.is_open:
            self._connection = await open_connection(
                self.world, self._host, self._port, client_id=self.name, timeout=REQUEST_SECONDS
            )
        return self._connection

    def _version(self, connection: ClientConnection, request: Any, low: int, high: int) -> int:
        least, most = connection.versions[request.API_KEY]
        return self.chance.randint(max(low, least), min(high, most))

    async def aim(self, place: Partition) -> int:
        """Point the session at the leader of a partition. Returns the leader epoch if it is known, else -1. Raises
        Unanswered."""
        del place
        return -1

    async def aim_at_coordinator(self, host: str) -> None:
        """Point the session at `host`, the reported coordinator of a group."""

    @property
    def host(self) -> str:
        """The host to which requests are sent now."""
        return self._host

    @property
    def present_connection(self) -> object:
        """The open connection, or None if the next request opens one."""
        return self._connection

    def close(self) -> None:
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    async def pause(self, seconds_most: float) -> None:
        await self.world.clock.sleep(self.chance.uniform(0.0, seconds_most))


class RoamingSession(Session):
    """A session to the partition's leader, as far as it is known. It moves to another node if the present one does not
    answer or is not the leader."""

    def __init__(self, world: World, hosts: Sequence[str], port: int, name: str) -> None:
        super().__init__(world, "", port, name)
        self._hosts = tuple(hosts)
        self._leaders: dict[Partition, tuple[str, int]] = {}
        self._links: dict[str, Session] = {}
        self.roam()

    async def call(self, request: Any, low: int, high: int) -> Any:
        try:
            response = await super().call(request, low, high)
        except Unanswered:
            self.roam()
            raise
        if any(code in TRY_AGAIN for code in error_codes(response)):
            self.roam()
        return response

    def close(self) -> None:
        super().close()
        for each in self._links.values():
            each.close()

    def session_to(self, host: str) -> Session:
        """A separate session to one node, which is kept while this session moves."""
        if host not in self._links:
            self._links[host] = Session(self.world, host, self._port, f"{self.name} to {host}")
        return self._links[host]

    async def leaders(self, places: Sequence[Partition]) -> dict[str, dict[Partition, int]]:
        """The partitions of `places` whose leader is known, with their leader epochs, by the leader's host. Raises
        Unanswered."""
        for place in places:
            if place not in self._leaders:
                await self._learn(place)
        found: dict[str, dict[Partition, int]] = {}
        for place in places:
            if place in self._leaders:
                host, epoch = self._leaders[place]
                found.setdefault(host, {})[place] = epoch
        return found

    def forget(self, places: Iterable[Partition]) -> None:
        """Drop the cached leaders of these partitions."""
        for place in places:
            self._leaders.pop(place, None)

    def roam(self) -> None:
        """Move to a random node, and drop all cached leaders."""
        self._leaders.clear()
        self._turn_to(self.chance.choice(self._hosts))

    def _turn_to(self, host: str) -> None:
        if host != self._host:
            self._disconnect()
            self._host = host

    async def aim(self, place: Partition) -> int:
        if self.chance.random() < ASTRAY_RATE:
            self.roam()
            return -1
        if place not in self._leaders:
            await self._learn(place)
        host, epoch = self._leaders.get(place, (self._host, -1))
        self._turn_to(host)
        return epoch

    async def _learn(self, place: Partition) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=place[0])], allow_auto_topic_creation=False)
        response = await self.call(request, 7 if self.topic_id is None else 10, 12)
        hosts = {broker.node_id: broker.host for broker in response.brokers}
        for topic in response.topics:
            if self.topic_id not in (None, topic.topic_id):
                continue
            for partition in topic.partitions:
                if partition.leader_id in hosts:
                    self._leaders[(place[0], partition.partition_index)] = (
                        hosts[partition.leader_id],
                        partition.leader_epoch,
                    )

    async def aim_at_coordinator(self, host: str) -> None:
        if host in self._hosts:
            self._turn_to(host)


def error_codes(message: Any) -> Iterator[int]:
    """Every nonzero error code in a response, at any depth."""
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name)
        if name == "error_code" and value:
            yield value
        elif isinstance(value, list) and value and hasattr(value[0], "__slots__"):
            for item in value:
                yield from error_codes(item)
