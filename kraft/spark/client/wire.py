"""Kafka's protocol over plain sockets, for features that librdkafka does not offer a Spark task: batches as bytes,
chosen producer ids, producer state.

Blocking by design: a task has its own process and has nothing else to do while it waits. The request versions name
topics, not topic ids. Each node has one connection, opened on first use. A broken connection is dropped. After an error
about leadership, the leaders are looked up again at another node. The leader of an older epoch is never used again.
Read requests carry the leader epoch, so that a deposed leader refuses them.
"""

from __future__ import annotations

import math
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from kraft.common.errors import KraftError
from kraft.common.listed_offsets import is_offset_answer
from kraft.protocol import api_keys
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode, is_retriable, name_of
from kraft.protocol.framing import encode_request
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.primitives import skip_tagged_fields
from kraft.security.sasl.errors import SaslRefused
from kraft.spark.client.node_turns import NodeTurns
from kraft.spark.client.wire_security import PLAINTEXT, WireSecurity, context_of, log_in
from kraft.spark.source.leadership import Leader, TopicLeaders, Views, leaders_of, merged
from kraft.spark.source.options import EARLIEST, LATEST
from kraft.world.ports import Login


class ClusterView:
    """The nodes and partition leaders of a cluster, learned from Metadata responses. A response with an older leader
    epoch changes neither the leaders nor the nodes."""

    def __init__(self) -> None:
        self.nodes: dict[int, tuple[str, int]] = {}
        self.topics: dict[str, TopicLeaders] = {}
        self.current: set[str] = set()  # topics that need not be asked for again

    def learn(self, topic: str, answer: Any) -> Any:
        """Apply what is new in a Metadata response, and return its entry of the topic."""
        return self.learn_all(answer)[topic]

    def learn_all(self, answer: Any) -> dict[str, Any]:
        """Apply what is new in a Metadata response, and return its topics by name."""
        is_older = False
        for found in answer.topics:
            if not found.error_code:
                told = leaders_of(found)
                self.topics[found.name] = merged(self.topics.get(found.name), told)
                is_older |= self.topics[found.name].partitions != told.partitions
        if answer.brokers and (not is_older or not self.nodes):
            self.nodes = {each.node_id: (each.host, each.port) for each in answer.brokers}
        return {found.name: found for found in answer.topics}

    def leader(self, topic: str, partition: int) -> Leader | None:
        """Return the leader of the newest epoch that any node has reported; None if the partition is unknown."""
        return self.topics[topic].partitions.get(partition) if topic in self.topics else None

    def epoch(self, topic: str, partition: int) -> int:
        """Return the newest known leader epoch for read requests; -1 if unknown."""
        leader = self.leader(topic, partition)
        return -1 if leader is None else leader.epoch


T = TypeVar("T")

# The last version that names topics instead of topic ids; an API that is not here is asked in the newest version that
# both sides know.
# Of transactions (10, 22, 24, 26) it is the last version for producers from before transaction.version 2.
VERSION_MAX: Mapping[int, int] = {0: 11, 1: 12, 2: 9, 3: 12, 8: 9, 10: 3, 22: 5, 24: 3, 26: 4}
FETCH_BY_ID_VERSION = 13
CONNECT_SECONDS_MAX = 10.0
RECEIVE_BUFFER_BYTES = 4 << 20
FRAME_BYTES_MAX = 1 << 30
RETRY_SECONDS = 0.1
LIFETIME_SHARE = 0.8
"""The share of the session lifetime after which a connection is replaced."""
UNKNOWN_TOPIC = frozenset((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID))
STALE = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    )
)


RIGHTS = " (this user lacks a permission for it; `kraft acls add` grants permissions)"
DENIED = dict.fromkeys(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ),
    RIGHTS,
)


class WireError(KraftError):
    """Raised when a broker returns an error. `code` is Kafka's error code."""

    def __init__(self, code: int, what: str) -> None:
        super().__init__(f"{what}: {name_of(code)}{DENIED.get(code, '')}")
        self.code = code

    @property
    def is_retriable(self) -> bool:
        return self.code in STALE or is_retriable(self.code)

    def __reduce__(self) -> tuple[type[RuntimeError], tuple[str]]:
        return RuntimeError, (str(self),)


class TlsRefused(WireError):
    """Raised when one side rejected the other's certificate, or they share no TLS version or cipher. Not retriable."""

    def __init__(self, address: tuple[str, int], problem: ssl.SSLError) -> None:
        what = problem.verify_message if isinstance(problem, ssl.SSLCertVerificationError) else problem.reason
        KraftError.__init__(
            self,
            f"{address[0]}:{address[1]} and this client do not agree on TLS ({what}): check kafka.security.protocol, "
            "kafka.ssl.truststore.location and, where nodes want a client's certificate, kafka.ssl.keystore.location",
        )
        self.code = ErrorCode.NETWORK_EXCEPTION

    @property
    def is_retriable(self) -> bool:
        return False


class WireConnection:
    """One socket to a node. Several users may send requests without waiting; each receives the response to its own.
    Raises OSError when the connection breaks. It cannot be used after that."""

    def __init__(
        self, address: tuple[str, int], client_id: str, timeout_s: float, security: WireSecurity = PLAINTEXT
    ) -> None:
        self.socket = connected(address, min(timeout_s, CONNECT_SECONDS_MAX), security)
        self.socket.settimeout(timeout_s)
        self.client_id = client_id
        # correlation id, key, version of each request without a response so far
        self.waiting: list[tuple[int, int, int]] = []
        self.arrived: dict[int, Any] = {}  # By correlation id: responses read before their receiver.
        self.correlation_id = 0
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        """Finalized feature levels of the cluster by name, when the connection was opened."""
        with closed_on_failure(self, address):
            # With TLS 1.3, that our certificate is refused comes with the first answer.
            answer = self.call(
                ApiVersionsRequest(client_software_name="kraft-spark", client_software_version="1"), version=3
            )
            self.versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
            self.features = {each.name: each.max_version_level for each in answer.finalized_features}
            self.ends_s = self.log_in(security.login)

    def close(self) -> None:
        self.socket.close()

    def log_in(self, login: Login | None) -> float:
        """Authenticate. Returns when the session expires (monotonic, in seconds). Raises WireError, OSError."""
        if login is None:
            return math.inf
        try:
            lifetime_ms = log_in(self.call, login)
        except SaslRefused as problem:
            raise WireError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"login as {login.username}: {problem}") from problem
        return time.monotonic() + LIFETIME_SHARE * lifetime_ms / 1000 if lifetime_ms else math.inf

    @property
    def is_over(self) -> bool:
        """Whether the login expires soon and no response is outstanding, so that the connection should be replaced."""
        return time.monotonic() >= self.ends_s and not self.waiting and not self.arrived

    def version_of(self, key: int) -> int:
        ours, theirs = api_keys.request_class(key).VALID_VERSIONS, self.versions.get(key)
        if theirs is None or min(ours[1], theirs[1]) < max(ours[0], theirs[0]):
            raise WireError(
                ErrorCode.UNSUPPORTED_VERSION, f"the broker serves {api_keys.name_of(key)} in {theirs or 'no version'}"
            )
        return min(ours[1], theirs[1], VERSION_MAX.get(key, ours[1]))

    @property
    def fetches_by_id(self) -> bool:
        """Whether the broker accepts topic ids in Fetch (KIP-516)."""
        return self.versions.get(ApiKey.FETCH, (0, 0))[1] >= FETCH_BY_ID_VERSION

    def send(self, request: Any, version: int | None = None) -> int:
        """Send a request. Returns the correlation id for `receive`. The caller must receive the response."""
        key = request.API_KEY
        version = self.version_of(key) if version is None else version
        self.correlation_id = (self.correlation_id + 1) & 0x7FFFFFFF
        self.socket.sendall(encode_request(key, version, self.correlation_id, self.client_id, request))
        self.waiting.append((self.correlation_id, key, version))
        return self.correlation_id

    def receive(self, wanted: int | None = None) -> Any:
        """Return the response with this correlation id, or the oldest outstanding one. Its bytes fields are views of a
        buffer that no other response uses."""
        while wanted not in self.arrived:
            if not self.waiting:
                raise ConnectionError("the connection closed before the response")
            wanted = self.waiting[0][0] if wanted is None else wanted
            self.next_answer()
        return self.arrived.pop(wanted)

    def next_answer(self) -> None:
        """Read the next response and keep it for its receiver."""
        correlation_id, key, version = self.waiting.pop(0)
        (size,) = struct.unpack(">i", self.exactly(4))
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise ConnectionError(f"the broker sent a response of {size} bytes; the limit is {FRAME_BYTES_MAX}")
        frame = memoryview(self.exactly(size))
        if struct.unpack_from(">i", frame)[0] != correlation_id:
            raise ConnectionError("the broker sent the responses in another order than the requests")
        position = 4 if api_keys.response_header_version(key, version) == 0 else skip_tagged_fields(frame, 4)
        self.arrived[correlation_id] = api_keys.response_class(key).decode(frame[position:], version)

    def call(self, request: Any, version: int | None = None) -> Any:
        return self.receive(self.send(request, version))

    def exactly(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view, position = memoryview(buffer), 0
        while position < size:
            count = self.socket.recv_into(view[position:], min(size - position, RECEIVE_BUFFER_BYTES))
            if count == 0:
                raise ConnectionError("the broker closed the connection")
            position += count
        return buffer


class WireCluster:
    """Connections to the nodes of a cluster, and its partition leaders. Not shared between threads."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str = "kraft-spark",
        timeout_s: float = 30.0,
        security: WireSecurity = PLAINTEXT,
    ) -> None:
        self.security = security
        self.bootstrap = [address_of(each) for each in bootstrap.split(",") if each.strip()]
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.connections: dict[tuple[str, int], WireConnection] = {}
        self.view = ClusterView()
        self.turns = NodeTurns()

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()

    def connection(self, address: tuple[str, int]) -> WireConnection:
        if address in self.connections and self.connections[address].is_over:
            self.forget(address)
        if address not in self.connections:
            self.connections[address] = WireConnection(address, self.client_id, self.timeout_s, self.security)
        return self.connections[address]

    def forget(self, address: tuple[str, int]) -> None:
        connection = self.connections.pop(address, None)
        if connection is not None:
            connection.close()

    def call_at(self, address: tuple[str, int], request: Any, version: int | None = None) -> Any:
        """Call one node. If a reused connection is broken, call again over a new one. Raises OSError."""
        if address in self.connections and not self.connections[address].is_over:
            try:
                return self.connections[address].call(request, version)
            except OSError:
                self.forget(address)
        try:
            return self.connection(address).call(request, version)
        except OSError:
            self.forget(address)
            raise

    def any_call(self, request: Any, version: int | None = None) -> Any:
        """Call any node that answers: connected nodes first, then all nodes, then the bootstrap servers. After `stale`,
        another node comes first. Raises ConnectionError."""
        problems = []
        for address in self.turns.order(
            [*self.connections, *self.view.nodes.values(), *self.bootstrap], time.monotonic()
        ):
            try:
                answer = self.call_at(address, request, version)
            except OSError as problem:
                problems.append(f"{address[0]}:{address[1]}: {problem}")
                self.turns.unreachable(address, time.monotonic())
            else:
                self.turns.answered(address)
                return answer
        raise ConnectionError("no broker can be reached: " + "; ".join(problems))

    def partitions(self, topic: str, *, fresh: bool = False) -> dict[int, int]:
        """Return the leader's node id by partition; -1 without a leader. Raises WireError for a topic that does not
        exist."""
        if fresh or topic not in self.view.current:
            found = self.view.learn(topic, self.any_call(metadata_request(topic)))
            if found.error_code:
                self.view.current.discard(topic)
                raise WireError(found.error_code, f"topic {topic}")
            self.view.current.add(topic)
        return {partition: leader.node for partition, leader in self.view.topics[topic].partitions.items()}

    def metadata(self, topics: Sequence[str] | None) -> dict[str, Any]:
        """Return a broker's Metadata response for these topics (None means all), by name. Raises ConnectionError,
        WireError."""
        wanted = None if topics is None else [MetadataRequestTopic(name=each) for each in topics]
        return self.view.learn_all(self.any_call(MetadataRequest(topics=wanted, allow_auto_topic_creation=False)))

    def create(self, topic: str) -> None:
        """Create the topic, if the brokers allow automatic creation. Raises ConnectionError."""
        self.any_call(metadata_request(topic, create=True))

    def served(self) -> frozenset[int]:
        """Return the API keys that one answering node serves. Raises ConnectionError."""
        self.any_call(MetadataRequest(topics=[]))
        return frozenset(next(iter(self.connections.values())).versions)

    def views(self, topic: str, partition: int, topic_id: bytes | None = None) -> Views:
        """Ask every node for the leader of a partition, and learn newer leaders. With `topic_id`, a recreated topic of
        the same name counts as unknown."""
        told: dict[int, Leader | None] = {}
        for node, address in sorted(self.view.nodes.items()):
            try:
                found = self.view.learn(topic, self.call_at(address, metadata_request(topic)))
            except OSError:
                continue
            if not found.error_code:
                is_other = topic_id is not None and found.topic_id != topic_id
                told[node] = None if is_other else leaders_of(found).partitions.get(partition)
            elif found.error_code in UNKNOWN_TOPIC:
                told[node] = None
        return Views(len(self.view.nodes), {node: view for node, view in told.items() if node in self.view.nodes})

    def leader(self, topic: str, partition: int) -> WireConnection:
        """Return a connection to the partition's leader. Raises WireError, OSError."""
        node = self.partitions(topic).get(partition)
        if node is None:
            raise WireError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
        if node not in self.view.nodes:
            raise WireError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition}")
        return self.connection(self.view.nodes[node])

    def stale(self, topic: str, broken: WireConnection | None = None) -> None:
        """Look up the leaders again, at another node, before the next use. The connection `broken` is dropped."""
        self.view.current.discard(topic)
        self.turns.another()
        for address, connection in list(self.connections.items()):
            if connection is broken:
                self.forget(address)

    def call_leader(self, topic: str, partition: int, request: Any, deadline: float) -> Any:
        """Call the leader. Retries until `deadline` (monotonic) as `ask_leader` does."""
        return self.ask_leader(topic, partition, deadline, lambda connection: connection.call(request))

    def ask_leader(self, topic: str, partition: int, deadline: float, ask: Callable[[WireConnection], T]) -> T:
        """Run `ask` with a connection to the leader. Retries after a broken connection or a retriable WireError, until
        `deadline` (monotonic)."""
        while True:
            connection = None
            try:
                connection = self.leader(topic, partition)
                return ask(connection)
            except (OSError, WireError) as problem:
                if time.monotonic() > deadline or (isinstance(problem, WireError) and not problem.is_retriable):
                    raise
                self.stale(topic, connection if isinstance(problem, OSError) else None)
                time.sleep(RETRY_SECONDS)

    def ends(self, topic: str, deadline: float) -> dict[int, int]:
        """Return the high watermark of each partition. Retries during elections until `deadline` (monotonic)."""
        return {each: self.offset(topic, each, LATEST, deadline) for each in sorted(self.partitions(topic, fresh=True))}

    def bounds(self, topic: str, partition: int, deadline: float) -> tuple[int, int]:
        """Return the log start offset and the high watermark. Retries during elections until `deadline` (monotonic)."""
        low, high = (self.offset(topic, partition, which, deadline) for which in (EARLIEST, LATEST))
        return low, high

    def offset(self, topic: str, partition: int, timestamp: int, deadline: float) -> int:
        """Return the log start offset (-2), the high watermark (-1) or the first offset at a time. Retries during
        elections until `deadline` (monotonic)."""

        def ask(connection: WireConnection) -> int:
            wanted = ListOffsetsPartition(
                partition_index=partition, current_leader_epoch=self.view.epoch(topic, partition), timestamp=timestamp
            )
            request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
            answer = connection.call(request).topics[0].partitions[0]
            if answer.error_code:
                raise WireError(answer.error_code, f"offsets of {topic}-{partition}")
            if not is_offset_answer(answer.offset, timestamp):
                raise WireError(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    f"{topic}-{partition}: the leader returned the invalid offset {answer.offset}",
                )
            return int(answer.offset)

        return self.ask_leader(topic, partition, deadline, ask)


class WirePool:
    """The clusters of one Python worker by address, so that connections are reused across tasks."""

    def __init__(self) -> None:
        self.clusters: dict[tuple[str, str, WireSecurity], WireCluster] = {}

    def get(self, bootstrap: str, client_id: str = "kraft-spark", security: WireSecurity = PLAINTEXT) -> WireCluster:
        key = (bootstrap, client_id, security)
        if key not in self.clusters:
            self.clusters[key] = WireCluster(bootstrap, client_id, security=security)
        return self.clusters[key]

    def discard(self, clusters: Iterable[WireCluster]) -> None:
        """Close the clusters' connections and drop them. Used after an error, when the state of requests in flight is
        unknown."""
        for gone in clusters:
            gone.close()
            self.clusters = {key: each for key, each in self.clusters.items() if each is not gone}


# One per Python worker process, by intent: Spark offers no other place to keep a client between tasks.
POOL = WirePool()


def connected(address: tuple[str, int], timeout_s: float, security: WireSecurity) -> socket.socket:
    """Open a socket to the address. Raises OSError, TlsRefused."""
    opened = socket.create_connection(address, timeout_s)
    with closed_on_failure(opened, address):
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if security.tls is None:
            return opened
        return context_of(security.tls).wrap_socket(opened, server_hostname=address[0])


@contextmanager
def closed_on_failure(opened: socket.socket | WireConnection, address: tuple[str, int]) -> Iterator[None]:
    """Close the socket if the body raises, also when the task is cancelled. Raises TlsRefused in place of the TLS
    library's error if one side rejects the other."""
    try:
        yield
    except BaseException as problem:
        said = last_words(opened) if isinstance(problem, OSError) else None
        opened.close()
        for told in (problem, said):
            if isinstance(told, ssl.SSLError) and is_refusal(told):
                raise TlsRefused(address, told) from problem
        raise


def last_words(opened: socket.socket | WireConnection) -> OSError | None:
    """Return the error with which the other side closed the connection, such as a TLS alert; else None."""
    ended = opened.socket if isinstance(opened, WireConnection) else opened
    try:
        ended.setblocking(False)
        ended.recv(1)
    except OSError as problem:
        return problem
    return None


def is_refusal(problem: ssl.SSLError) -> bool:
    """Whether the error is a TLS rejection, not a broken connection.

    An alert that is read after the connection broke has another number in newer versions of OpenSSL.
    """
    return problem.errno == ssl.SSL_ERROR_SSL or "_ALERT_" in (problem.reason or "")


def address_of(text: str) -> tuple[str, int]:
    """Parse `host:port`, `[v6]:port` or the Java client's `PLAINTEXT://host:port`. Raises ValueError."""
    host, _, port = text.strip().rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"Invalid url in bootstrap.servers: {text}")
    return host.strip("[]"), int(port)


def metadata_request(topic: str, *, create: bool = False) -> MetadataRequest:
    """Build a Metadata request. With `create`, a missing topic may be created (auto.create.topics.enable)."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=create)
