"""Serves the quorum's RPCs: passes a request to the core, and returns the core's response as a Kafka message."""

from __future__ import annotations

from collections.abc import Callable

import trio

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.schema import Message
from kraft.raft import wire_requests, wire_responses
from kraft.raft.core import events
from kraft.raft.core import messages as core

LATEST = 1 << 15  # Above all versions, for callers whose version is new enough for every field.


class Waiter:
    """A task that waits for the response to a request."""

    __slots__ = ("answered", "records", "response")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.response: core.Response | None = None
        self.records = b""


class QuorumRequests:
    """The requests that wait for the core. `step` passes an event to the core, which responds through the `Waiter`, the
    request's token."""

    def __init__(self, step: Callable[[events.Event], None]) -> None:
        self._step = step
        self._refuses = False
        self._waiting: dict[Waiter, None] = {}

    async def serve(self, request: Message, version: int = LATEST) -> Message:
        """Return the response to a Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot, or Add-, Remove- or
        UpdateRaftVoter request of `version`. Older versions cannot carry endpoints. A Fetch may wait up to its max
        wait.

        Raises ApiError for a request about another partition, and once this node has left the quorum.
        """
        waiter = await self._ask(wire_requests.TO_CORE[type(request)](request))
        return wire_responses.answer_to(request, waiter.response, version, waiter.records)

    async def update_kraft_version(self, level: int, *, validate_only: bool = False) -> core.VoterResponse:
        """Raise kraft.version (UpdateFeatures). The response has an error code and a message. Raises ApiError."""
        waiter = await self._ask(core.UpdateVersionRequest(level, validate_only=validate_only))
        assert isinstance(waiter.response, core.VoterResponse)
        return waiter.response

    def refuse_all(self) -> None:
        """Refuse all waiting and future requests: this node has left the quorum."""
        self._refuses = True
        for waiter in self._waiting:
            waiter.answered.set()

    async def _ask(self, request: core.Request) -> Waiter:
        waiter = Waiter()
        if not self._refuses:
            self._waiting[waiter] = None
            self._step(events.RequestReceived(waiter, request))
            try:
                await waiter.answered.wait()
            finally:
                del self._waiting[waiter]
        if waiter.response is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "this node has left the quorum")
        return waiter
