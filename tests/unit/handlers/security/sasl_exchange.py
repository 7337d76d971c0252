"""SASL exchanges, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kraft.common.logging import Loggers
from kraft.handlers.dispatcher import RequestDispatcher
from kraft.handlers.registry import BROKER, Handler, Registry, RequestContext, between
from kraft.handlers.security.permissions import ANYBODY
from kraft.handlers.security.sasl import AUTHENTICATE, HANDSHAKE, SaslGate
from kraft.network.login_outcome import LoginOutcome
from kraft.network.reply import Peer, Reply
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.framing import decode_response, encode_request
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.heartbeat_response import HeartbeatResponse
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.security.sasl.authentication import SaslSettings
from kraft.security.sasl.scram import Credential
from kraft.world.real import RealWorld
from tests.unit.coordinator.fakes import TrioClock


class Door:
    """A gate before a dispatcher that serves Heartbeat, and one connection's side of it."""

    def __init__(
        self,
        session_ms_max: int = 0,
        serves: Iterable[Handler] = (),
        scram: Mapping[str, Credential] | None = None,
        seed: int = 0,
    ) -> None:
        """Users of `scram`, where it is given, log in by SCRAM-SHA-256, too. `seed` is of its nonces."""
        world = RealWorld(log_sink=lambda event: None, seed=seed)
        world.clock = TrioClock()  # type: ignore[assignment]  # The mock clock's time.
        self.clock, self.seen = world.clock, list[str]()
        heartbeat = Handler(ApiKey.HEARTBEAT, between(0, 4), permission=ANYBODY)

        @heartbeat.serve
        async def serve(request: HeartbeatRequest, context: RequestContext, services: None) -> HeartbeatResponse:
            self.seen.append(context.principal)
            return HeartbeatResponse()

        log = Loggers(world.log_sink, world.clock).get("requests")
        inner = RequestDispatcher(
            Registry(BROKER, serves or [heartbeat, HANDSHAKE, AUTHENTICATE]), None, world.clock, log
        )
        mechanisms = ("PLAIN",) if scram is None else ("PLAIN", "SCRAM-SHA-256")
        told = SaslSettings(mechanisms=mechanisms, plain_users={"alice": "a"}, session_ms_max=session_ms_max)
        self.outcomes: list[LoginOutcome] = []
        self.gate = SaslGate(told, lambda user, mechanism: (scram or {}).get(user), inner, world, self.outcomes.append)
        self.peer = Peer("127.0.0.1", "CLIENTS", ("127.0.0.1", 9092))
        self.peer.proven = False

    async def frame(self, frame: bytes) -> tuple[bytes, bool]:
        """The answer without its size, and whether the connection is closed after it."""
        outcome = self.gate.dispatch(self.peer, memoryview(frame))
        reply = outcome if isinstance(outcome, Reply) else await outcome
        return b"".join(bytes(part) for part in reply.parts)[4:], reply.close_after  # type: ignore[arg-type]

    async def ask(self, request: Any, version: int) -> tuple[Any, bool]:
        data, closes = await self.frame(encode_request(request.API_KEY, version, 7, "me", request)[4:])
        return decode_response(request.API_KEY, version, memoryview(data))[1], closes

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> tuple[Any, bool]:
        return await self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    async def say(self, message: bytes, version: int = 2) -> tuple[Any, bool]:
        return await self.ask(SaslAuthenticateRequest(auth_bytes=message), version)

    async def heartbeat(self) -> None:
        await self.ask(HeartbeatRequest(), 4)
