"""Asking a node, and what comes back when it says no."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from kraft.common.errors import ApiError, ProtocolError
from kraft.protocol.error_codes import ErrorCode, message_of, name_of
from kraft.protocol.schema import Message
from kraft_http.ports import AdminPort

R = TypeVar("R", bound=Message)
T = TypeVar("T")
K = TypeVar("K")

AT_ONCE_MAX: Final = 16
"""Brokers that one HTTP request asks at a time."""


_MISSING: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.GROUP_ID_NOT_FOUND)
"""Codes whose sentence in Kafka speaks of the broker that was asked. An answer names what is missing instead."""

_SILENCE: Final = (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT)


class KafkaProblem(Exception):
    """A Kafka error code with a sentence. `subject` says what it was about, for the answer's detail."""

    def __init__(self, code: int, message: str | None = None, subject: str = "") -> None:
        if subject and not message and code in _MISSING:
            sentence = f"{subject} does not exist"
        else:
            sentence = f"{subject}: {message or message_of(code)}" if subject else message or message_of(code)
        super().__init__(sentence)
        self.code = code
        self.name = name_of(code)
        self.sentence = str(self)


class UnencodableRequest(Exception):
    """A value of the request has no form on the wire, as text with half a surrogate pair."""


def raise_for(code: int, message: str | None = None, subject: str = "") -> None:
    """Raise KafkaProblem unless `code` is NONE."""
    if code != ErrorCode.NONE:
        raise KafkaProblem(code, message, subject)


class Kafka:
    """Requests through an AdminPort, with typed answers."""

    def __init__(self, port: AdminPort) -> None:
        self.port = port
        self.silent: dict[int, str] = {}
        """Brokers that `ask_brokers` did without, and why. They are not asked again: whoever has to answer without
        them waits for each once."""

    async def ask(
        self, api_key: int, version: int, request: Message, response_type: type[R], node_id: int | None = None
    ) -> R:
        """Raises KafkaProblem when the broker cannot be reached, does not answer in time, or is the -1 of a
        partition without a leader; UnencodableRequest for text that UTF-8 lacks."""
        if node_id is not None and node_id < 0:
            raise KafkaProblem(ErrorCode.LEADER_NOT_AVAILABLE)
        if node_id in self.silent:
            raise KafkaProblem(ErrorCode.BROKER_NOT_AVAILABLE, self.silent[node_id])
        try:
            response = await self.port.call(api_key, version, request, node_id=node_id)
        except ConnectionError as problem:
            sentence = str(problem) if node_id is None else f"broker {node_id} cannot be reached: {problem}"
            raise KafkaProblem(ErrorCode.BROKER_NOT_AVAILABLE, sentence) from problem
        except TimeoutError as problem:
            raise KafkaProblem(ErrorCode.REQUEST_TIMED_OUT) from problem
        except ApiError as problem:
            raise KafkaProblem(problem.code, problem.message) from problem
        except (UnicodeEncodeError, ProtocolError) as problem:
            raise UnencodableRequest(str(problem)) from problem
        assert isinstance(response, response_type)
        return response


async def of_each(ask: Callable[[K], Awaitable[T]], items: Iterable[K]) -> list[T]:
    """What `ask` gives for each, in order, of AT_ONCE_MAX at a time: one that is slow holds up no other. The first
    failure ends them all and is raised."""
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


async def ask_brokers(kafka: Kafka, ask: Callable[[int], Awaitable[T]], broker_ids: Iterable[int]) -> list[T]:
    """As `of_each`, without the brokers that do not answer: those are in `kafka.silent` afterwards."""

    async def one(broker_id: int) -> list[T]:
        try:
            return [await ask(broker_id)]
        except KafkaProblem as problem:
            if problem.code not in _SILENCE:
                raise
            kafka.silent.setdefault(broker_id, problem.sentence)
            return []

    return [answer for answers in await of_each(one, broker_ids) for answer in answers]


async def give_way() -> None:
    """Let other requests have a turn, in the middle of a long computation."""
    await asyncio.sleep(0)
