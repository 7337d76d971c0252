"""The broker's channel to the active controller. If that is in this process, a request is a function call; else it is
sent over the network, clients' requests in an Envelope (KIP-590).

A request is retried until its deadline, at a new leader if there is one, also if a connection closed before its
response. So it may be carried out twice. A broker's own requests tolerate that. A client may get TOPIC_ALREADY_EXISTS
for the topic that its own request created. Apache Kafka's channel does the same: it cannot tell a retry from another
client's request.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from kraft.common.errors import ApiError, KraftError, NotLeader
from kraft.handlers.errors import code_of
from kraft.handlers.registry import CONTROLLER, Registry, RequestContext
from kraft.handlers.security.envelope import encode_principal
from kraft.handlers.services import ControllerServices
from kraft.network.reply import Peer
from kraft.protocol import api_keys
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import SIZE_BYTES, decode_response, encode_request
from kraft.protocol.messages.envelope_request import EnvelopeRequest
from kraft.protocol.messages.envelope_response import EnvelopeResponse
from kraft.rpc_client.connection import ClientConnection, Disconnected, UnsupportedApi, open_connection
from kraft.world.ports import World
from kraft.world.turns import TURN_ITEMS, in_turns

if TYPE_CHECKING:
    from kraft.common.logging import Logger

UNANSWERED = "the deadline passed"
RETRY_SECONDS = 0.05
LEADER_WATCH_SECONDS = 0.1
TRIES_AGAIN = frozenset((ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER))

LeaderEndpoint = Callable[[], tuple[int, str, int] | None]
"""The active controller as the quorum knows it now: (id, host, port), or None."""


class NodeToControllerChannel:
    """Sends requests to the active controller. Owned by the broker's loop; many tasks may use it."""

    def __init__(self, world: World, node_id: int, leader: LeaderEndpoint, log: Logger, request_timeout: float) -> None:
        self._world = world
        self._node_id = node_id
        self._leader = leader
        self._log = log
        self._timeout = request_timeout
        self._local: tuple[Registry, ControllerServices] | None = None
        self._connection: ClientConnection | None = None
        self._connected_to: tuple[int, str, int] | None = None
        self._connecting = trio.Lock()
        self._own_peer = Peer("127.0.0.1", CONTROLLER, ("127.0.0.1", 0))

    def use_local(self, registry: Registry, services: ControllerServices) -> None:
        """Call the controller of this process directly while it is the active one."""
        self._local = (registry, services)

    async def send(self, request: Any, *, timeout: float | None = None) -> Any:
        """Send a request of the broker itself. Raises ApiError REQUEST_TIMED_OUT if no controller answers in time."""
        context = RequestContext(
            self._own_peer, request.API_KEY, request.VALID_VERSIONS[1], 0, f"broker-{self._node_id}"
        )
        return await self._until_answered(request, context, False, timeout)

    async def forward(self, request: Any, context: RequestContext) -> Any:
        """Forward a client's request, with the client's principal. Raises ApiError: the controller's error for the
        whole request, or REQUEST_TIMED_OUT."""
        return await self._until_answered(request, context, True, None)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _until_answered(
        self, request: Any, context: RequestContext, enveloped: bool, timeout: float | None
    ) -> Any:
        clock = self._world.clock
        deadline = clock.now() + (self._timeout if timeout is None else timeout)
        while True:
            reason = UNANSWERED
            try:
                with clock.move_on_at(deadline):
                    return await self._try(request, context, enveloped, deadline - clock.now())
            except (TimeoutError, UnsupportedApi) as problem:
                self.close()
                reason = str(problem)
            except (Disconnected, NotLeader) as problem:
                reason = str(problem)
            except ApiError as problem:
                if problem.code not in TRIES_AGAIN:
                    raise
                reason = str(problem)
            if reason == UNANSWERED:
                self.close()  # The connection may be half-open: the peer has gone without closing it.
            if clock.now() + RETRY_SECONDS >= deadline:
                raise ApiError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"no active controller answered {api_keys.name_of(request.API_KEY)}: {reason}",
                )
            await clock.sleep(RETRY_SECONDS)

    async def _try(self, request: Any, context: RequestContext, enveloped: bool, timeout: float) -> Any:
        leader = self._leader()
        if leader is None:
            raise NotLeader("the quorum has no leader now")
        if leader[0] == self._node_id and self._local is not None:
            return await self._call_local(*self._local, request, context, enveloped)
        response = await self._call_while_it_leads(leader, request, context, enveloped, timeout)
        if getattr(response, "error_code", 0) in TRIES_AGAIN:
            raise ApiError(response.error_code, "the node that got the request is no longer the active controller")
        return response

    async def _call_while_it_leads(
        self, leader: tuple[int, str, int], request: Any, context: RequestContext, enveloped: bool, timeout: float
    ) -> Any:
        """Call the controller while it is the quorum's leader. Raises NotLeader once there is another, so that a
        controller that hangs is not waited for."""
        response: Any = None
        failure: Exception | None = None
        async with trio.open_nursery() as call_nursery:
            call_nursery.start_soon(self._watch_leader, leader, call_nursery.cancel_scope)
            try:
                connection = await self._connect(leader, timeout)
                response = await (
                    self._call_enveloped(connection, request, context, timeout)
                    if enveloped
                    else connection.call(request, timeout=timeout)
                )
            except (KraftError, TimeoutError) as problem:
                failure = problem  # Raised outside: a nursery would wrap it.
            call_nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if response is None:
            raise NotLeader("the quorum has another leader now")
        return response

    async def _watch_leader(self, leader: tuple[int, str, int], call: trio.CancelScope) -> None:
        while self._leader() in (None, leader):
            await self._world.clock.sleep(LEADER_WATCH_SECONDS)
        call.cancel()

    async def _call_local(
        self, registry: Registry, services: ControllerServices, request: Any, context: RequestContext, enveloped: bool
    ) -> Any:
        """Call the controller of this process. The node's own requests are not authorized."""
        handler = registry.get(request.API_KEY)
        assert handler is not None
        if not enveloped:
            handler = handler.unguarded
        assert handler.serve_function is not None
        try:
            return await handler.serve_function(request, context, services)
        except KraftError as problem:
            if isinstance(problem, NotLeader) or code_of(problem) in TRIES_AGAIN:
                raise
            failing = handler.error_response(request, context.api_version, code_of(problem), str(problem))
            return await in_turns(failing, TURN_ITEMS)

    async def _connect(self, leader: tuple[int, str, int], timeout: float) -> ClientConnection:
        async with self._connecting:  # Or two who find none open two, of which one is never closed.
            if self._connection is None or not self._connection.is_open or self._connected_to != leader:
                self.close()
                self._connection = await open_connection(
                    self._world, leader[1], leader[2], client_id=f"broker-{self._node_id}", timeout=timeout
                )
                self._connected_to = leader
            return self._connection

    async def _call_enveloped(
        self, connection: ClientConnection, request: Any, context: RequestContext, timeout: float
    ) -> Any:
        inner = encode_request(
            request.API_KEY, context.api_version, context.correlation_id, context.client_id, request
        )[SIZE_BYTES:]
        envelope = EnvelopeRequest(
            request_data=inner,
            request_principal=encode_principal(context.principal, context.peer.by_token),
            client_host_address=ipaddress.ip_address(context.peer.host).packed,
        )
        answer: EnvelopeResponse = await connection.call(envelope, timeout=timeout)
        if answer.error_code:
            raise ApiError(answer.error_code, "the active controller could not execute the request")
        assert answer.response_data is not None
        _, response = decode_response(request.API_KEY, context.api_version, answer.response_data)
        return response
