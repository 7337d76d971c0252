"""The transport that an administrative operation needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from kraft.admin.metadata import ClusterMetadata
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.protocol.schema import Message
from kraft.security.scram_credentials import ScramMechanism

R = TypeVar("R", bound=Message)
T = TypeVar("T")
K = TypeVar("K")

AT_ONCE_MAX: Final = 16
"""Limit of concurrent requests of one operation."""

COORDINATOR_OF_GROUP: Final = 0
COORDINATOR_OF_TRANSACTION: Final = 1


class AdminTransport(Protocol):
    """A cluster to which requests can be sent. The operation interprets the responses, error codes included; the
    transport decides how nodes are reached."""

    async def ask(
        self,
        request: Message,
        answer: type[R],
        *,
        node_id: int | None = None,
        version: int | None = None,
        seconds: float | None = None,
    ) -> R:
        """Send a request to node `node_id`, or to any node, without retries, and return the response. Without a
        `version` the transport chooses it. `seconds` is the time that the node may take if that is longer than usual.
        Raises the transport's errors if the node cannot be reached."""

    async def version_of(self, key: int, *, node_id: int | None = None) -> int:
        """The version in which `ask` would send this API. Raises as `ask` does."""

    async def versions(self, node_id: int) -> Mapping[int, tuple[int, int]]:
        """The first and last version of each API key that a node serves, as far as known. Raises as `ask` does."""

    async def broker_ids(self) -> list[int]:
        """The ids of all live brokers, sorted, from a new response. Raises as `ask` does."""

    async def metadata(self, topics: Sequence[str] | None = ()) -> ClusterMetadata:
        """The metadata from a new response of any node; `topics` None means all. No topic is created. Raises as `ask`
        does."""

    async def by_leader(
        self, partitions: Iterable[TopicPartition], unled: dict[TopicPartition, ApiError] | None = None
    ) -> dict[int, list[TopicPartition]]:
        """The partitions by the node that leads them, sorted. Raises as `ask` does, and ApiError for the first
        partition that does not exist or has no leader; with `unled` such partitions are added to `unled` instead."""

    async def coordinator(self, key: str, kind: int = COORDINATOR_OF_GROUP) -> int:
        """The coordinator of the group or the transactional id. Raises as `ask` does, and Refused."""

    def forget(self) -> None:
        """Discard cached metadata: it is outdated."""

    async def retrying(self, operation: Callable[[], Awaitable[T]], *, final: Iterable[int] = ()) -> T:
        """The result of `operation`, which a transport that retries may run again; not for the error codes in
        `final`."""

    async def of_each(self, ask: Callable[[K], Awaitable[T]], items: Iterable[K]) -> list[T]:
        """The results of `ask` for each item, in order, with at most AT_ONCE_MAX calls at a time. The first failure
        cancels the other calls and is raised."""

    async def ask_brokers(self, ask: Callable[[int], Awaitable[T]], broker_ids: Iterable[int]) -> list[T]:
        """Ask the brokers as `of_each` does, but leave out those that do not answer."""

    async def give_way(self) -> None:
        """Yield to other tasks, during a long computation."""

    async def salted_password(self, mechanism: ScramMechanism, password: str, iterations: int) -> tuple[bytes, bytes]:
        """A new salt, and the salted password as SCRAM stores it."""
