"""What an administrative operation needs: somebody to ask."""

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
"""Nodes that one operation asks at a time."""

COORDINATOR_OF_GROUP: Final = 0
COORDINATOR_OF_TRANSACTION: Final = 1


class AdminTransport(Protocol):
    """A cluster that can be asked. What its nodes answer, error codes included, is the operation's to judge; how they
    are reached is the port's."""

    async def ask(
        self,
        request: Message,
        answer: type[R],
        *,
        node_id: int | None = None,
        version: int | None = None,
        seconds: float | None = None,
    ) -> R:
        """The answer of node `node_id`, or of any: one attempt. Without a `version` the port chooses it. `seconds` is
        how long the node may take where that is longer than usual. Raises what the port raises for nodes that cannot
        be reached."""

    async def version_of(self, key: int, *, node_id: int | None = None) -> int:
        """The version in which `ask` would send this API. Raises as `ask`."""

    async def versions(self, node_id: int) -> Mapping[int, tuple[int, int]]:
        """What a node serves, as far as that is known: API key to first and last version. Raises as `ask`."""

    async def broker_ids(self) -> list[int]:
        """Every live broker, by a fresh answer, in order. Raises as `ask`."""

    async def metadata(self, topics: Sequence[str] | None = ()) -> ClusterMetadata:
        """A fresh answer of any node; `topics` None means all. No topic is created. Raises as `ask`."""

    async def by_leader(
        self, partitions: Iterable[TopicPartition], unled: dict[TopicPartition, ApiError] | None = None
    ) -> dict[int, list[TopicPartition]]:
        """The partitions that each node leads, in order of node. Raises as `ask`, and ApiError for the first that
        nobody leads or that there is not; with `unled` all those are put there."""

    async def coordinator(self, key: str, kind: int = COORDINATOR_OF_GROUP) -> int:
        """The node that coordinates the group, or the transactional id. Raises as `ask`, and Refused."""

    def forget(self) -> None:
        """What the port may know of topics is wrong from now on."""

    async def retrying(self, operation: Callable[[], Awaitable[T]], *, final: Iterable[int] = ()) -> T:
        """What `operation` returns, which may be carried out again where that can help and the port does such things:
        not for the error codes in `final`."""

    async def of_each(self, ask: Callable[[K], Awaitable[T]], items: Iterable[K]) -> list[T]:
        """What `ask` gives for each, in order, of AT_ONCE_MAX at a time. The first failure ends them all and is
        raised."""

    async def ask_brokers(self, ask: Callable[[int], Awaitable[T]], broker_ids: Iterable[int]) -> list[T]:
        """Ask like `of_each`, but leave out the brokers that do not answer."""

    async def give_way(self) -> None:
        """Let others have a turn, in the middle of a long computation."""

    async def salted_password(self, mechanism: ScramMechanism, password: str, iterations: int) -> tuple[bytes, bytes]:
        """A new salt, and the password with it, as SCRAM keeps it."""
