"""The operations of `kraft.admin` over this node: by a direct call, in fixed versions, without retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from kraft.admin.cluster import describe_cluster
from kraft.admin.errors import Refused, check
from kraft.admin.metadata import ClusterMetadata, read_metadata
from kraft.admin.transport import AT_ONCE_MAX, COORDINATOR_OF_GROUP
from kraft.common.errors import ApiError, ProtocolError
from kraft.common.ids import TopicPartition
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.schema import Message
from kraft.security.scram_credentials import ScramMechanism
from kraft_http.ports import AdminPort

R = TypeVar("R", bound=Message)
T = TypeVar("T")
K = TypeVar("K")

VERSIONS: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.DESCRIBE_GROUPS: 6,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.API_VERSIONS: 4,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 6,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.DESCRIBE_ACLS: 3,
    ApiKey.CREATE_ACLS: 3,
    ApiKey.DELETE_ACLS: 3,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.DESCRIBE_LOG_DIRS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.CREATE_DELEGATION_TOKEN: 3,
    ApiKey.RENEW_DELEGATION_TOKEN: 2,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 2,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 3,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 1,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.OFFSET_DELETE: 0,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.DESCRIBE_QUORUM: 2,
    ApiKey.UPDATE_FEATURES: 2,
    ApiKey.DESCRIBE_CLUSTER: 2,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.UNREGISTER_BROKER: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 1,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.LIST_CONFIG_RESOURCES: 1,
    ApiKey.SHARE_GROUP_DESCRIBE: 1,
    ApiKey.STREAMS_GROUP_DESCRIBE: 1,
    ApiKey.ADD_RAFT_VOTER: 1,
    ApiKey.REMOVE_RAFT_VOTER: 0,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 1,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: 0,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: 0,
    ApiKey.UNREGISTER_CONTROLLER: 0,
}
"""The request version of each API. The other nodes have this release or the one before, and serve it too."""

_SILENCE: Final = (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT)


class UnencodableRequest(Exception):
    """Raised when a value of the request cannot be encoded, as text with an unpaired surrogate."""


class NodeTransport:
    """An `AdminTransport` over an AdminPort."""

    def __init__(self, port: AdminPort) -> None:
        self.port = port
        self.silent: dict[int, str] = {}
        """Brokers that did not respond to `ask_brokers`, and why. They are not asked again, so a request waits for each
        of them only once."""

    async def ask(
        self,
        request: Message,
        answer: type[R],
        *,
        node_id: int | None = None,
        version: int | None = None,
        seconds: float | None = None,
    ) -> R:
        """Send the request and return the response. AdminPort's own timeout applies; `seconds` is ignored.

        Raises Refused if the broker cannot be reached or times out, or if `node_id` is -1 (a partition without a
        leader); UnencodableRequest for text that UTF-8 cannot encode.
        """
        if node_id is not None and node_id < 0:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE)
        if node_id in self.silent:
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, message=self.silent[node_id])
        key = request.API_KEY
        try:
            response = await self.port.call(
                key, VERSIONS[key] if version is None else version, request, node_id=node_id
            )
        except ConnectionError as problem:
            sentence = str(problem) if node_id is None else f"broker {node_id} cannot be reached: {problem}"
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, message=sentence) from problem
        except TimeoutError as problem:
            raise Refused(ErrorCode.REQUEST_TIMED_OUT) from problem
        except ApiError as problem:
            raise Refused(problem.code, message=problem.message) from problem
        except (UnicodeEncodeError, ProtocolError) as problem:
            raise UnencodableRequest(str(problem)) from problem
        assert isinstance(response, answer)
        return response

    async def version_of(self, key: int, *, node_id: int | None = None) -> int:
        """The version in which the API is requested, the same for every node."""
        return VERSIONS[key]

    async def versions(self, node_id: int) -> Mapping[int, tuple[int, int]]:
        """The versions that the node serves: the one in which each API is requested here."""
        return {key: (version, version) for key, version in VERSIONS.items()}

    async def broker_ids(self) -> list[int]:
        """The ids of all unfenced brokers. Raises Refused."""
        return [broker.node_id for broker in (await describe_cluster(self)).brokers if not broker.is_fenced]

    async def metadata(self, topics: Sequence[str] | None = ()) -> ClusterMetadata:
        """The topics' metadata in this node's image. Raises Refused."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        return read_metadata(await self.ask(request, MetadataResponse))

    async def by_leader(
        self, partitions: Iterable[TopicPartition], unled: dict[TopicPartition, ApiError] | None = None
    ) -> dict[int, list[TopicPartition]]:
        """The partitions by the broker that leads them, sorted. Raises Refused for the first partition that does not
        exist or has no leader; with `unled` such partitions are added to `unled` instead."""
        wanted = sorted(partitions)
        found = await self.metadata(list(dict.fromkeys(place.topic for place in wanted)))
        grouped: dict[int, list[TopicPartition]] = {}
        for place in wanted:
            try:
                grouped.setdefault(found.topic(place.topic).leader(place.partition), []).append(place)
            except ApiError as problem:
                if unled is None:
                    raise
                unled[place] = problem
        return dict(sorted(grouped.items()))

    async def coordinator(self, key: str, kind: int = COORDINATOR_OF_GROUP) -> int:
        """The coordinator of the group or the transactional id. Raises Refused."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        [found] = (await self.ask(request, FindCoordinatorResponse)).coordinators
        noun = "group" if kind == COORDINATOR_OF_GROUP else "transactional id"
        check(found.error_code, f"coordinator of {noun} {key}", found.error_message)
        return found.node_id

    def forget(self) -> None:
        """Do nothing: this transport caches nothing."""

    async def retrying(self, operation: Callable[[], Awaitable[T]], *, final: Iterable[int] = ()) -> T:
        """Run the operation once: the HTTP client decides about retries."""
        return await operation()

    async def of_each(self, ask: Callable[[K], Awaitable[T]], items: Iterable[K]) -> list[T]:
        """The results of `ask` for each item, in order, with at most AT_ONCE_MAX calls at a time. The first failure
        cancels the other calls and is raised."""
        room = asyncio.Semaphore(AT_ONCE_MAX)

        async def one(item: K) -> T:
            async with room:
                return await ask(item)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(item)) for item in items]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        return [task.result() for task in tasks]

    async def ask_brokers(self, ask: Callable[[int], Awaitable[T]], broker_ids: Iterable[int]) -> list[T]:
        """Ask the brokers as `of_each` does, but leave out those that do not answer. They are added to `silent`."""

        async def one(broker_id: int) -> list[T]:
            try:
                return [await ask(broker_id)]
            except Refused as problem:
                if problem.code not in _SILENCE:
                    raise
                self.silent.setdefault(broker_id, problem.sentence)
                return []

        return [answer for answers in await self.of_each(one, broker_ids) for answer in answers]

    async def give_way(self) -> None:
        """Yield to other HTTP requests."""
        await asyncio.sleep(0)

    async def pause(self, seconds: float) -> None:
        """Wait before a retry."""
        await asyncio.sleep(seconds)

    async def salted_password(self, mechanism: ScramMechanism, password: str, iterations: int) -> tuple[bytes, bytes]:
        """Salt a password in a thread of the node."""
        return await self.port.salted_password(mechanism, password, iterations)
