"""Requests to other nodes. Each runs in a task, and its response or failure is reported to the core as an event. The
core ignores late responses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from kraft.common.errors import ApiError, KraftError, ProtocolError
from kraft.common.logging import Logger
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.schema import Message
from kraft.raft import wire_requests, wire_responses
from kraft.raft.core import events
from kraft.raft.core import messages as core
from kraft.raft.core.effects import Send
from kraft.raft.core.voter_set import Endpoint
from kraft.raft.ports import RaftChannel
from kraft.world.ports import Clock

DENIED_INTERVAL_S: Final = 60.0
"""Seconds between two log lines about a peer whose authorizer refuses this node."""
REFUSED_INTERVAL_S: Final = 60.0
"""Seconds between two log lines about a refused change of the voters."""


class PeerExchange:
    """Sends requests through the channel, with a timeout. `report` steps the core with an event."""

    def __init__(
        self,
        channel: RaftChannel,
        clock: Clock,
        listener_name: str,
        timeout_s: float,
        report: Callable[[events.Event], None],
        log: Logger,
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._listener_name = listener_name
        self._timeout_s = timeout_s
        self._report = report
        self._log = log
        self._denied_tell_at = -math.inf
        self._refused_tell_at = -math.inf

    async def run(self, message: Send) -> None:
        """Send one request and report its response."""
        event: events.Event = events.RequestFailed(message.correlation)
        request = message.request
        with self._clock.move_on_after(self._timeout_s):
            try:
                address = choose(message.endpoints, self._listener_name)
                if address is None:
                    raise OSError(f"no endpoint of node {message.to} is known")
                answer = await self._channel.send(
                    message.to, *address, wire_requests.TO_WIRE[type(request)](request), self._timeout_s
                )
                if getattr(answer, "error_code", ErrorCode.NONE) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                    self._tell_denied(message)
                response = to_core(request, answer)
                if isinstance(request, core.AddVoterRequest | core.RemoveVoterRequest):
                    assert isinstance(response, core.VoterResponse)
                    self._tell_voter_change(message, response)
                event = events.ResponseReceived(message.correlation, response)
            except ConnectionRefusedError:
                event = events.RequestFailed(message.correlation, refused=True)
            except (OSError, KraftError) as problem:
                event = failure_of(message, problem)
                self._log.debug(
                    "quorum request failed", to=message.to, request=type(request).__name__, problem=str(problem)
                )
        self._report(event)

    def _tell_voter_change(self, message: Send, response: core.VoterResponse) -> None:
        """Log the result of a voter change that this node requested. Refusals are logged once per interval."""
        now = self._clock.now()
        if response.error != ErrorCode.NONE:
            if now < self._refused_tell_at:
                return
            self._refused_tell_at = now + REFUSED_INTERVAL_S
        self._log.info(
            "the leader responded to this node's change of the voters",
            to=message.to,
            request=type(message.request).__name__,
            error=name_of(response.error),
            problem=response.message or None,
        )

    def _tell_denied(self, message: Send) -> None:
        now = self._clock.now()
        if now >= self._denied_tell_at:
            self._denied_tell_at = now + DENIED_INTERVAL_S
            self._log.error(
                "a node of the quorum refuses this one: name this node's principal in super.users there",
                to=message.to,
                request=type(message.request).__name__,
            )


def to_core(request: core.Request, answer: Message) -> core.Response:
    """Convert a response. Raises ProtocolError if it does not contain the quorum's one partition, or names a voter
    twice."""
    try:
        return wire_responses.TO_CORE[type(request)](request, answer)
    except (IndexError, ValueError) as problem:
        raise ProtocolError(f"{type(answer).__name__} is no answer to {type(request).__name__}: {problem}") from problem


def choose(endpoints: Sequence[Endpoint], listener_name: str) -> tuple[str, int] | None:
    """Return host and port of the endpoint with that listener name, else of the first one; None if there is none."""
    found = next(
        (endpoint for endpoint in endpoints if endpoint.name == listener_name), endpoints[0] if endpoints else None
    )
    return None if found is None else (found.host, found.port)


def failure_of(message: Send, problem: Exception) -> events.Event:
    """Return the event for a failed request. UNSUPPORTED_VERSION for a pre-vote counts as a response: the peer is too
    old for pre-votes."""
    request = message.request
    if (
        isinstance(request, core.VoteRequest)
        and request.pre_vote
        and isinstance(problem, ApiError)
        and problem.code == ErrorCode.UNSUPPORTED_VERSION
    ):
        return events.ResponseReceived(
            message.correlation,
            core.VoteResponse(core.LeaderHint(epoch=request.epoch), error=ErrorCode.UNSUPPORTED_VERSION),
        )
    return events.RequestFailed(message.correlation)
