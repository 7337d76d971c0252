"""Incarnations: topics that have the same name one after the other. Each has its own id, and the checker treats each as
a topic of its own.

A request by name that is meant for one incarnation may legally reach another. A node may not have loaded the newest
incarnation yet, and a request that is under way when a topic is deleted may reach the next one. So a request by name
counts for an incarnation only if the answering node mapped the name to it before and after the request. Otherwise a
record or commit sent by name may appear in this incarnation or in a later one. A request by id always means one
incarnation.
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
    """The name of a topic in the history: name and id for the recreated topic, the name for all others."""
    return f"{topic}/{uuid_to_text(topic_id)}" if topic == NAME else topic


class Client(Protocol):
    """A client that uses an incarnation until it is stopped."""

    stopping: trio.Event

    async def run(self) -> None: ...


class Incarnation:
    """One of the topics of that name. `number` counts from 1. `taken_for` returns the topic id to which a host maps a
    name now."""

    def __init__(self, number: int, topic_id: bytes, taken_for: Callable[[str, str], bytes | None]) -> None:
        self.number = number
        self.topic_id = topic_id
        self.place: Partition = (name_in_history(NAME, topic_id), 0)
        self.doomed = False
        """Whether a deletion was requested, or may have been."""
        self.given_up = False
        """Whether its clients know that it is deleted, so that they stop retrying."""
        self._taken_for = taken_for

    async def by_name(self, session: Session, request: Any, low: int, high: int) -> Any:
        """Send a request that names the topic. Raises Unanswered, also if the answering node may have meant another
        incarnation."""
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
