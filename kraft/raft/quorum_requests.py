"""The quorum's RPCs, as Kafka's messages: a request goes to the core, and the core's answer goes back."""

from __future__ import annotations

from collections.abc import Callable

import trio

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.schema import Message
from kraft.raft import wire_requests, wire_responses
from kraft.raft.core import events
from kraft.raft.core import messages as core

LATEST = 1 << 15  # A version above all: for callers that know theirs to be new enough for everything.


class Waiter:
    """Somebody who waits for the answer to a request."""

    __slots__ = ("answered", "records", "response")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.response: core.Response | None = None
        self.records = b""


class QuorumRequests:
    """Requests that wait for the core. `step` gives it an event; it answers through the `Waiter` that is the token of
    the request."""

    def __init__(self, step: Callable[[events.Event], None]) -> None:
        self._step = step
        self._refuses = False
        self._waiting: dict[Waiter, None] = {}

    async def serve(self, request: Message, version: int = LATEST) -> Message:
        """The answer to a Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot, or Add-, Remove- or
        UpdateRaftVoter request of `version`; older versions cannot carry endpoints. A Fetch may wait as long as it
        allows.

        Raises ApiError for a request about anything but the quorum, and once this node has left the quorum.
        """
        waiter = await self._ask(wire_requests.TO_CORE[type(request)](request))
        return wire_responses.answer_to(request, waiter.response, version, waiter.records)

    async def update_kraft_version(self, level: int, *, validate_only: bool = False) -> core.VoterResponse:
        """Raise kraft.version (UpdateFeatures). The answer carries an error code and a message. Raises ApiError."""
        waiter = await self._ask(core.UpdateVersionRequest(level, validate_only=validate_only))
        assert isinstance(waiter.response, core.VoterResponse)
        return waiter.response

    def refuse_all(self) -> None:
        """This node has left the quorum: requests that wait are refused, and all that come from now on."""
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
