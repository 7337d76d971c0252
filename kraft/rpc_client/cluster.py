"""A client's view of a cluster: discovery through any node, routing of requests, and retries.

Every request goes to one of three places: any node (which forwards requests for the controller), the leader of a
partition, or the coordinator of a group. Addresses, leaders and coordinators are cached. A cached entry is dropped when
a response or a broken connection shows that it is stale; topics also expire after some minutes. `retrying` is the only
retry loop. It retries after broken connections, timeouts and Kafka's retriable codes, with a growing pause, until a
deadline.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

import trio

from kraft.admin.errors import UNKNOWN_TOPIC, check
from kraft.admin.metadata import ClusterMetadata, Topic, read_metadata
from kraft.admin.transport import AT_ONCE_MAX, COORDINATOR_OF_GROUP
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.schema import Message
from kraft.rpc_client.backoff import Backoff
from kraft.rpc_client.connection import ClientConnection, Disconnected, open_connection
from kraft.rpc_client.errors import DeadlinePassed, NoBroker
from kraft.rpc_client.partition_backoff import is_worth_waiting, may_pass
from kraft.rpc_client.pending_call import PendingCall
from kraft.security.scram_credentials import SALT_BYTES, ScramMechanism, salted_password
from kraft.world.hosts import UnknownHost
from kraft.world.ports import World

R = TypeVar("R", bound=Message)
T = TypeVar("T")
K = TypeVar("K")

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 30.0
OPERATION_SECONDS = 60.0
ANOTHER_SECONDS = 1.0
"""The timeout for connecting to another node, when the current one may be stale."""
UNKNOWN_SECONDS, UNKNOWN_PAUSE_SECONDS = 2.0, 0.05
METADATA_SECONDS = 300.0
"""metadata.max.age.ms: topics are requested again after this time, to find new partitions."""
_asked_once: ContextVar[int | None] = ContextVar("broker_asked_once", default=None)
"""The broker that `ask_brokers` asks in this task. `retrying` does not ask it a second time."""


class SilentBroker(KraftError):
    """Raised when a broker did not answer the single attempt of `ask_brokers`. The cause is the original error."""


class Cluster:
    """A client of one cluster. Any number of tasks of one trio loop may use it. Close it at the end, or use `async
    with`."""

    def __init__(
        self,
        world: World,
        bootstrap: Sequence[tuple[str, int]],
        *,
        client_id: str = "kraft",
        connect_seconds: float = CONNECT_SECONDS,
        request_seconds: float = REQUEST_SECONDS,
        operation_seconds: float = OPERATION_SECONDS,
        absent_seconds: float = math.inf,
    ) -> None:
        """`bootstrap` are addresses, of which one must answer. `operation_seconds` limits a call with all its attempts,
        and `request_seconds` one attempt. If no address was ever reached, `absent_seconds` limits how long refused
        connections are retried. Host names that do not resolve are then reported immediately."""
        assert bootstrap, "at least one bootstrap server"
        self.world = world
        self.bootstrap = tuple(bootstrap)
        self.client_id = client_id
        self.connect_seconds = connect_seconds
        self.request_seconds = request_seconds
        self.operation_seconds = operation_seconds
        self.absent_seconds = absent_seconds
        self._was_reached = False
        self._refused_since: float | None = None
        self._chance = world.random.stream(f"client {client_id}")
        self._connections: dict[tuple[str, int], ClientConnection] = {}
        self._opening: dict[tuple[object, tuple[str, int]], trio.Lock] = {}
        self._lanes: dict[object, dict[tuple[str, int], ClientConnection]] = {}
        """By lane, the separate connections for requests whose responses come late."""
        self._any: tuple[str, int] | None = None
        """The node that gets the requests that any node can answer. Another node is chosen once `_is_doubted`: its
        metadata may be stale."""
        self._is_doubted = False
        self._known: ClusterMetadata | None = None
        self._topics: dict[str, Topic] = {}
        self._topics_end = world.clock.now() + METADATA_SECONDS
        self._coordinators: dict[tuple[int, str], int] = {}
        self.silent: dict[int, str] = {}
        """Brokers that did not answer their last `ask_brokers`, with the reason."""

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for lane in list(self._lanes):
            self.close_lane(lane)
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def close_lane(self, lane: object) -> None:
        """Close the connections that `begin` opened for this lane."""
        for address, connection in self._lanes.pop(lane, {}).items():
            connection.close()
            self._opening.pop((lane, address), None)

    def apart(self) -> Cluster:
        """Return a client of the same cluster with its own connections. Use it for requests that a node answers late,
        because the node reads no other request from that connection until then."""
        other = Cluster(
            self.world,
            tuple(dict.fromkeys(self._addresses())),
            client_id=self.client_id,
            connect_seconds=self.connect_seconds,
            request_seconds=self.request_seconds,
            operation_seconds=self.operation_seconds,
            absent_seconds=self.absent_seconds,
        )
        other._was_reached = self._was_reached
        return other

    # Asking

    async def call(
        self, request: Any, *, node_id: int | None = None, version: int | None = None, seconds: float | None = None
    ) -> Any:
        """Make one attempt, at node `node_id` or at any node. Raises Disconnected, TimeoutError, NoBroker,
        UnsupportedApi, ProtocolError; SilentBroker within `ask_brokers`."""
        try:
            return await self._call(request, node_id=node_id, version=version, seconds=seconds)
        except (Disconnected, TimeoutError, NoBroker) as problem:
            if node_id is None or _asked_once.get() != node_id or not may_pass(problem):
                raise
            raise SilentBroker(str(problem)) from problem

    async def _call(self, request: Any, *, node_id: int | None, version: int | None, seconds: float | None) -> Any:
        connection = await (self._any_connection() if node_id is None else self._connection_to(node_id))
        try:
            return await connection.call(
                request, version=version, timeout=self.request_seconds if seconds is None else seconds
            )
        except TimeoutError:
            # The connection may be half-open: the peer has gone without closing it. The next attempt opens another one.
            connection.close()
            raise

    async def ask(
        self,
        request: Message,
        answer: type[R],
        *,
        node_id: int | None = None,
        version: int | None = None,
        seconds: float | None = None,
    ) -> R:
        """Call as `call` does, with a checked response type. Used by the operations of `kraft.admin`."""
        response = await self.call(request, node_id=node_id, version=version, seconds=seconds)
        assert isinstance(response, answer)
        return response

    async def of_each(self, ask: Callable[[K], Awaitable[T]], items: Iterable[K]) -> list[T]:
        """Run `ask` for each item, AT_ONCE_MAX at a time, and return the results in order. The first failure cancels
        the others and is raised."""
        room = trio.Semaphore(AT_ONCE_MAX)
        answers: dict[int, T] = {}
        failures: list[KraftError | TimeoutError] = []

        async def one(index: int, item: K) -> None:
            async with room:
                try:
                    answers[index] = await ask(item)
                except (KraftError, TimeoutError) as problem:
                    failures.append(problem)
                    asking_nursery.cancel_scope.cancel()

        async with trio.open_nursery() as asking_nursery:
            for index, item in enumerate(items):
                asking_nursery.start_soon(one, index, item)
        if failures:
            raise failures[0]
        return [answers[index] for index in sorted(answers)]

    async def ask_brokers(self, ask: Callable[[int], Awaitable[T]], broker_ids: Iterable[int]) -> list[T]:
        """Run `ask` for each broker as `of_each` does, but leave out brokers that do not answer. Each has one attempt,
        also within `retrying`. Afterwards `silent` holds the brokers without an answer. Raises NotAdmitted."""

        async def one(broker_id: int) -> list[T]:
            _asked_once.set(broker_id)  # `of_each` runs this in a task of its own.
            self.silent.pop(broker_id, None)
            try:
                return [await ask(broker_id)]
            except (Disconnected, TimeoutError, NoBroker, SilentBroker) as problem:
                if not isinstance(problem, SilentBroker) and not may_pass(problem):
                    raise
                self.silent[broker_id] = str(problem) or "it did not answer in time"
                return []

        return [answer for answers in await self.of_each(one, broker_ids) for answer in answers]

    async def begin(self, request: Any, *, node_id: int, seconds: float, lane: object) -> PendingCall:
        """Send a request to a node, and return the call to await. `seconds` limits the time spent waiting for the
        response. Until the node answers, it reads nothing else from that connection, so each `lane` has its own. Raises
        Disconnected, TimeoutError, NoBroker, UnsupportedApi."""
        connection = await self._connection_to(node_id, lane)
        return PendingCall(connection, await connection.begin(request), self.world.clock, seconds)

    async def send_only(self, request: Any, *, node_id: int) -> None:
        """Send a request that has no response (Produce with acks=0). Raises Disconnected, TimeoutError, NoBroker,
        UnsupportedApi."""
        await (await self._connection_to(node_id)).send_only(request)

    async def version_of(self, key: int, *, node_id: int | None = None) -> int:
        """Return the version in which `call` would send this API. Raises as `call`."""
        connection = await (self._any_connection() if node_id is None else self._connection_to(node_id))
        return connection.version_of(key)

    async def versions(self, node_id: int) -> dict[int, tuple[int, int]]:
        """Return the APIs that a node serves: API key to first and last version. Raises Disconnected, TimeoutError,
        NoBroker."""
        return dict((await self._connection_to(node_id)).versions)

    async def features(self) -> dict[str, int]:
        """Return the finalized features and their levels. Raises Disconnected, TimeoutError, NoBroker."""
        return dict((await self._any_connection()).features)

    async def call_coordinator(self, group_id: str, request: Any, *, seconds: float | None = None) -> Any:
        """Make one attempt at the coordinator of a group. Raises as `call`, and ApiError if that is unknown."""
        return await self.call(request, node_id=await self.coordinator(group_id), seconds=seconds)

    async def retrying(
        self, operation: Callable[[], Awaitable[T]], *, seconds: float | None = None, final: Iterable[int] = ()
    ) -> T:
        """Return the result of the first attempt of `operation` that succeeds.

        Raises the operation's error if a retry cannot help, if its code is in `final`, or if it `is_hopeless`. Raises
        DeadlinePassed after `seconds`, with the last failure as its cause.
        """
        backoff = Backoff(self._chance)
        seconds = self.operation_seconds if seconds is None else seconds
        last: KraftError | TimeoutError | None = None
        with self.world.clock.move_on_after(seconds):
            while True:
                try:
                    return await operation()
                except (Disconnected, TimeoutError, NoBroker, ApiError) as problem:
                    is_final = isinstance(problem, ApiError) and problem.code in final
                    if is_final or not is_worth_waiting(problem) or self.is_hopeless(problem):
                        raise
                    last = problem
                self.forget()
                await self.world.clock.sleep(backoff.next())
        raise DeadlinePassed(
            f"not done within {seconds:g} s" + (f"; the last attempt: {last}" if last is not None else "")
        ) from last

    def is_hopeless(self, problem: BaseException | None) -> bool:
        """Whether waiting for the cluster is useless: no address was ever reached, and either no name resolves, or all
        addresses have refused connections for `absent_seconds`."""
        if isinstance(problem, DeadlinePassed):
            problem = problem.__cause__
        if self._was_reached or self.absent_seconds == math.inf or not isinstance(problem, NoBroker):
            return False
        causes = [each.__cause__ for each in problem.reasons]
        if causes and all(isinstance(each, UnknownHost) for each in causes):
            return True
        if not causes or not all(isinstance(each, UnknownHost | ConnectionRefusedError) for each in causes):
            self._refused_since = None
            return False
        now = self.world.clock.now()
        if self._refused_since is None:
            self._refused_since = now
        return now - self._refused_since >= self.absent_seconds

    # Knowing

    def forget(self) -> None:
        """Drop the cached leaders and coordinators, which may be stale. The next metadata request goes to another node
        if possible, because a node that is cut off keeps its old metadata."""
        self._is_doubted = True
        self._topics.clear()
        self._coordinators.clear()

    def forget_topics(self, names: Iterable[str]) -> None:
        """Drop the cached entries of these topics. A deleted topic may have been recreated with another id."""
        self._is_doubted = True
        for name in names:
            self._topics.pop(name, None)

    async def metadata(self, topics: Sequence[str] | None = (), *, create: bool = False) -> ClusterMetadata:
        """Request metadata from any node. `topics` None means all. With `create`, the cluster may create missing
        topics, if it is configured to. Raises as `call`."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        found = read_metadata(await self.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=create)))
        self._known = found
        self._topics.update(found.topics)
        return found

    def cached_topic(self, name: str) -> Topic | None:
        now = self.world.clock.now()
        if now >= self._topics_end:
            self._topics.clear()
            self._topics_end = now + METADATA_SECONDS
        return self._topics.get(name)

    async def topic(self, name: str, *, create: bool = False) -> Topic:
        """Return a topic from the cache, or else from any node. Raises as `call`, and ApiError, such as
        UNKNOWN_TOPIC_OR_PARTITION for a missing topic."""
        topic = self.cached_topic(name)
        return (await self.metadata((name,), create=create)).topic(name) if topic is None else topic

    async def topic_made_lately(self, name: str, *, seconds: float | None = None) -> Topic:
        """Return the topic, and let brokers with automatic creation create it. If the node does not know the topic,
        retry for two seconds: another node may just have created it. `seconds` limits the wait for brokers that are
        unreachable. Raises as `topic` and `retrying`."""

        async def attempt() -> Topic:
            return await self.topic(name, create=True)

        deadline = self.world.clock.now() + UNKNOWN_SECONDS
        while True:
            try:
                return await self.retrying(attempt, seconds=seconds, final=UNKNOWN_TOPIC)
            except ApiError as problem:
                if problem.code not in UNKNOWN_TOPIC or self.world.clock.now() >= deadline:
                    raise
            await self.world.clock.sleep(UNKNOWN_PAUSE_SECONDS)

    async def by_leader(
        self, partitions: Iterable[TopicPartition], unled: dict[TopicPartition, ApiError] | None = None
    ) -> dict[int, list[TopicPartition]]:
        """Group the partitions by their leader's node id, sorted by node. Raises as `call`.

        Also raises ApiError for the first partition without a leader (LEADER_NOT_AVAILABLE) or that does not exist. If
        `unled` is given, such partitions are added to it instead.
        """
        wanted = sorted(partitions)
        known = {partition.topic: self.cached_topic(partition.topic) for partition in wanted}
        missing = [name for name, topic in known.items() if topic is None]
        found = await self.metadata(missing) if missing else None
        grouped: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            try:
                topic = (
                    known[partition.topic] if found is None else known[partition.topic] or found.topic(partition.topic)
                )
                assert topic is not None, "what was not known has been asked for"
                grouped.setdefault(topic.leader(partition.partition), []).append(partition)
            except ApiError as problem:
                if unled is None:
                    raise
                unled[partition] = problem
        return dict(sorted(grouped.items()))

    async def coordinator(self, key: str, kind: int = COORDINATOR_OF_GROUP) -> int:
        """Return the node id of the coordinator of a group or transactional id. Raises as `call`, and ApiError
        COORDINATOR_NOT_AVAILABLE."""
        node_id = self._coordinators.get((kind, key))
        if node_id is None:
            response = await self.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]))
            found = response.coordinators[0]
            noun = "group" if kind == COORDINATOR_OF_GROUP else "transactional id"
            check(found.error_code, f"coordinator of {noun} {key}", found.error_message)
            node_id = self._coordinators[kind, key] = found.node_id
        return node_id

    async def broker_ids(self) -> list[int]:
        """Return the ids of all live brokers, from a new request. Raises as `call`."""
        return sorted((await self.metadata()).brokers)

    async def give_way(self) -> None:
        """Yield to other tasks."""
        await trio.lowlevel.checkpoint()

    async def salted_password(self, mechanism: ScramMechanism, password: str, iterations: int) -> tuple[bytes, bytes]:
        """Return a new salt, and the password salted with it, as SCRAM stores it. Blocks the caller's loop for
        milliseconds."""
        salt = self.world.random.stream("scram-salt").randbytes(SALT_BYTES)
        return salt, salted_password(mechanism, password, salt, iterations)

    # Connections

    def _addresses(self) -> tuple[tuple[str, int], ...]:
        """Return all known addresses of nodes, possibly with duplicates."""
        known = () if self._known is None else self._known.brokers.values()
        return (*self.bootstrap, *((broker.host, broker.port) for broker in known))

    async def _any_connection(self) -> ClientConnection:
        """Return a connection to any node. Raises NoBroker; NotAdmitted if a node rejects this client and none accepts
        it."""
        opened = [address for address, connection in self._connections.items() if connection.is_open]
        addresses = list(dict.fromkeys((*opened, *self._addresses())))
        if self._any in opened:
            if self._is_doubted:
                await self._choose_another([address for address in addresses if address != self._any], opened)
            addresses = list(dict.fromkeys((self._any, *addresses)))
        failures: list[Exception] = []
        for address in addresses:
            try:
                connection = await self._connection_at(address)
            except (Disconnected, TimeoutError) as problem:
                failures.append(problem)
            else:
                self._any, self._is_doubted = address, False
                return connection
        for failure in failures:
            if not may_pass(failure):
                raise failure
        raise NoBroker("; ".join(str(each) for each in failures), failures)

    async def _choose_another(self, others: Sequence[tuple[str, int]], opened: Sequence[tuple[str, int]]) -> None:
        """Choose another node: a connected one, or else make one short attempt to connect."""
        self._is_doubted = False
        near = [address for address in others if address in opened]
        if near:
            self._any = self._chance.choice(near)
        elif others:
            candidate = self._chance.choice(others)
            with self.world.clock.move_on_after(ANOTHER_SECONDS):
                try:
                    await self._connection_at(candidate)
                except (Disconnected, TimeoutError):
                    return  # Then the one in doubt is asked again.
                self._any = candidate

    async def _connection_to(self, node_id: int, lane: object = None) -> ClientConnection:
        broker = None if self._known is None else self._known.brokers.get(node_id)
        if broker is None:
            broker = (await self.metadata()).brokers.get(node_id)
        if broker is None:
            raise NoBroker(f"broker {node_id} is not among the live brokers")
        try:
            return await self._connection_at((broker.host, broker.port), lane)
        except (Disconnected, TimeoutError):
            self._known = None  # It may have moved.
            raise

    async def _connection_at(self, address: tuple[str, int], lane: object = None) -> ClientConnection:
        pool = self._connections if lane is None else self._lanes.setdefault(lane, {})
        connection = pool.get(address)
        if connection is not None and connection.is_open:
            return connection
        async with self._opening.setdefault((lane, address), trio.Lock()):
            connection = pool.get(address)
            if connection is None or not connection.is_open:
                connection = await open_connection(
                    self.world, *address, client_id=self.client_id, timeout=self.connect_seconds
                )
                pool[address] = connection
                self._was_reached = True
            return connection
