"""One topic of many that have the same name one after the other: each has its own id, and to the checker each is a
topic of its own.

What a client asks by name may be meant for one incarnation and reach another, legally: a node may not have heard of
the newest yet, and what is on its way when a topic is deleted may arrive in its successor. So a request by name
counts for an incarnation only if the node that answered took the name for it before and after; what was sent by name
otherwise may turn up in this incarnation or in a later one. A request by id means one incarnation for certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import trio

from jepsen.checker.operations import Partition
from jepsen.simulation.clients.session import Session, Unanswered
from kraft.common.ids import uuid_to_text

NAME: Final = "anew"
WIRE: Final[Partition] = (NAME, 0)


def name_in_history(topic: str, topic_id: bytes) -> str:
    """What the history calls a topic: those that are made anew by name and id."""
    return f"{topic}/{uuid_to_text(topic_id)}" if topic == NAME else topic


class Client(Protocol):
    """A client that uses an incarnation until it is told to stop."""

    stopping: trio.Event

    async def run(self) -> None: ...


class Incarnation:
    """One of the topics. `number` counts from 1; `taken_for` tells which topic a host takes a name for now."""

    def __init__(self, number: int, topic_id: bytes, taken_for: Callable[[str, str], bytes | None]) -> None:
        self.number = number
        self.topic_id = topic_id
        self.place: Partition = (name_in_history(NAME, topic_id), 0)
        self.doomed = False
        """Whether somebody has asked to delete it, or may have."""
        self.given_up = False
        """Whether its clients have been told that it is over, so that nothing is tried again."""
        self._taken_for = taken_for

    async def by_name(self, session: Session, request: Any, low: int, high: int) -> Any:
        """Call. Raises Unanswered also when another incarnation may have been meant by whoever answered."""
        host = session.host
        before = self._taken_for(host, NAME)
        response = await session.call(request, low, high)
        if before != self.topic_id or self._taken_for(host, NAME) != self.topic_id:
            raise Unanswered(f"{host} may have taken {NAME} for another topic")
        return response

    def give_up(self, clients: Iterable[Client]) -> None:
        self.given_up = True
        for client in clients:
            client.stopping.set()
