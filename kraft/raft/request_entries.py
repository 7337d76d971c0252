"""The quorum's RPCs as methods, one an API, taking and returning Kafka's messages. Each puts its request to the core
and waits for the core's answer."""

from __future__ import annotations

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


class RequestEntries:
    """Base of the driver. `version` is that of the request: older ones cannot carry endpoints in their answer.

    Raises ApiError for a request about anything but the quorum.
    """

    def __init__(self) -> None:
        self._left = False
        self._waiting: dict[Waiter, None] = {}

    def _step(self, event: events.Event) -> None:
        raise NotImplementedError

    async def ask(self, request: core.Request) -> Waiter:
        """Put a request to the core and wait for its answer. Raises ApiError once this node takes no more part in
        the quorum."""
        waiter = Waiter()
        if not self._left:
            self._waiting[waiter] = None
            self._step(events.RequestReceived(waiter, request))
            try:
                await waiter.answered.wait()
            finally:
                del self._waiting[waiter]
        if waiter.response is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "this node has left the quorum")
        return waiter

    def refuse_requests(self) -> None:
        """This node takes no more part: whoever waits is told so, and whoever asks from now on."""
        self._left = True
        for waiter in self._waiting:
            waiter.answered.set()

    async def vote(self, request: Message, version: int = LATEST) -> Message:
        return await self._serve(request, version)

    async def begin_quorum_epoch(self, request: Message, version: int = LATEST) -> Message:
        return await self._serve(request, version)

    async def end_quorum_epoch(self, request: Message, version: int = LATEST) -> Message:
        return await self._serve(request, version)

    async def fetch(self, request: Message, version: int = LATEST) -> Message:
        """Fetch of the metadata partition, by voters and observers; may wait as long as the request allows."""
        return await self._serve(request, version)

    async def fetch_snapshot(self, request: Message, version: int = LATEST) -> Message:
        return await self._serve(request, version)

    async def add_raft_voter(self, request: Message, version: int = LATEST) -> Message:
        return await self._serve(request, version)

    async def remove_raft_voter(self, request: Message, version: int = LATEST) -> Message:
        return await self._serve(request, version)

    async def update_raft_voter(self, request: Message, version: int = LATEST) -> Message:
        return await self._serve(request, version)

    async def update_kraft_version(self, level: int, *, validate_only: bool = False) -> core.VoterResponse:
        """Raise kraft.version (UpdateFeatures). The answer carries an error code and a message."""
        waiter = await self.ask(core.UpdateVersionRequest(level, validate_only=validate_only))
        assert isinstance(waiter.response, core.VoterResponse)
        return waiter.response

    async def _serve(self, request: Message, version: int) -> Message:
        waiter = await self.ask(wire_requests.TO_CORE[type(request)](request))
        return wire_responses.answer_to(request, waiter.response, version, waiter.records)
