"""From a frame to a reply: decode the header, check the version, decode the body, call the handler, map errors, encode
the response, count."""

from __future__ import annotations

import struct
import traceback
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import trio

from kraft.common.errors import ProtocolError
from kraft.common.metrics import SECONDS_BOUNDS, Histogram
from kraft.handlers.api_versions import unsupported_version_reply
from kraft.handlers.errors import EXPECTED, code_of, message_of
from kraft.handlers.registry import Handler, Registry, RequestContext
from kraft.handlers.throttling import LoopMeter, Metered, wait_ms
from kraft.network.reply import SCRATCH_BYTES, FirstStage, Peer, Reply, Staged, inside
from kraft.protocol import api_keys
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.framing import client_id_of, encode_response, encode_response_in_turns
from kraft.protocol.schema import WHOLE_BYTES_MAX, Message
from kraft.world.memory import new_buffer
from kraft.world.ports import Clock
from kraft.world.steps import Steps, at_once
from kraft.world.turns import TURN_ITEMS, in_turns

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.quota.client_quotas import ClientQuotas

SAMPLED = 16
"""One of this number of Produce and Fetch requests is timed, because reading the clock is a visible part of their
cost."""
COPIED_BYTES_MAX = 16 << 20
"""Larger requests are decoded in the connection's buffer. Smaller ones are copied, so that the buffer can be reused."""
COPIED_AT_ONCE_BYTES = 1 << 20
"""Bytes copied between two yields."""
_HEAD = struct.Struct(">hhi")


class ApiCounters:
    """Counters of one API, for /metrics."""

    __slots__ = ("durations", "errors", "requests", "seconds", "seconds_max")

    def __init__(self) -> None:
        self.requests = 0
        self.seconds = 0.0
        self.seconds_max = 0.0
        self.errors: dict[int, int] = {}
        self.durations = Histogram(SECONDS_BOUNDS)


class RequestDispatcher:
    """Serves the requests of one listener through its registry. Every handler gets `services` unchanged."""

    def __init__(
        self, registry: Registry, services: Any, clock: Clock, log: Logger, quotas: ClientQuotas | None = None
    ) -> None:
        self._registry = registry
        self._services = services
        self._clock = clock
        self._log = log
        self._quotas = quotas
        self._last: RequestContext | None = None
        self.counters: dict[tuple[int, int], ApiCounters] = {}

    @property
    def last_request(self) -> str | None:
        """The last dispatched request, described for a log event; None before the first."""
        last = self._last
        if last is None:
            return None
        return f"{api_keys.name_of(last.api_key)} of client {last.client_id!r} at {last.peer.host}"

    def may_overtake_wait(self, frame: memoryview) -> bool:
        """Whether this request may be served before the previous one is answered: only Produce, and only while no byte
        quota limits producers. A throttled client must not have further requests in progress (as in Kafka)."""
        return (
            len(frame) > 2
            and frame[0] == 0
            and frame[1] == ApiKey.PRODUCE
            and (self._quotas is None or not self._quotas.limits_producers)
        )

    def dispatch(self, peer: Peer, frame: memoryview) -> Reply | Awaitable[Reply]:
        """See `kraft.network.reply.Dispatcher`."""
        if len(frame) < 10:
            raise ProtocolError(f"a frame of {len(frame)} bytes is too short for a request header")
        key, version, correlation_id = _HEAD.unpack_from(frame)
        handler = self._registry.get(key)
        if handler is None:
            raise ProtocolError(
                f"API {key} ({api_keys.name_of(key)}) is not served on the {self._registry.listener} listener"
            )
        if not handler.min_version <= version <= handler.max_version:
            if key == ApiKey.API_VERSIONS:
                return unsupported_version_reply(correlation_id, self._services)
            raise ProtocolError(
                f"{api_keys.name_of(key)} version {version} is not served (only {handler.min_version} to "
                f"{handler.max_version})"
            )
        client_id, position = client_id_of(frame, key, version)
        context = RequestContext(peer, key, version, correlation_id, client_id)
        self._last = context
        counters = self.counters.get((key, version))
        if counters is None:
            counters = self.counters[key, version] = ApiCounters()
        counters.requests += 1
        if self._quotas is not None and self._quotas.limits_time:
            return self._begin_metered(handler, frame, position, context, counters)
        if handler.begins_at_once and counters.requests % SAMPLED:
            return self._serve_at_once(handler, frame, position, context)
        return self._begin(handler, frame, position, context, counters)

    async def refuse(self, peer: Peer, frame: memoryview, code: int, message: str | None) -> Reply:
        """Return an error response for a request that will not be served. `frame` must stay valid meanwhile. Raises
        ProtocolError if the API or its version is unknown, or has no such response."""
        key, version, correlation_id = _HEAD.unpack_from(frame)
        handler = self._registry.get(key)
        is_served = handler is not None and handler.min_version <= version <= handler.max_version
        if handler is None or not (is_served or key == ApiKey.API_VERSIONS):
            raise ProtocolError(f"{api_keys.name_of(key)} version {version} is not served, and has no answer")
        client_id, position = client_id_of(frame, key, version)
        context = RequestContext(peer, key, version if is_served else 0, correlation_id, client_id)
        request = None
        if is_served:
            request, _ = await in_turns(handler.request_class.decode_in_turns(frame, position, version))
        response = await in_turns(handler.error_response(request, context.api_version, code, message), TURN_ITEMS)
        encoding = encode_response_in_turns(context.api_key, context.api_version, context.correlation_id, response)
        return Reply((await in_turns(encoding),))

    def _begin_metered(
        self, handler: Handler, frame: memoryview, position: int, context: RequestContext, counters: ApiCounters
    ) -> Reply | Awaitable[Reply]:
        meter = context.meter = LoopMeter(self._clock)
        meter.start()
        try:
            outcome = self._begin(handler, frame, position, context, counters)
        finally:
            meter.stop()
        if type(outcome) is Reply:
            return outcome

        async def metered(answer: Awaitable[Reply]) -> Reply:
            return await Metered(answer, meter)

        return inside(outcome, metered)  # type: ignore[arg-type]  # A Reply is excluded.

    def _begin(
        self, handler: Handler, frame: memoryview, position: int, context: RequestContext, counters: ApiCounters
    ) -> Reply | Awaitable[Reply]:
        if handler.begins_at_once:
            return self._serve_timed(handler, frame, position, context, counters)
        if len(frame) > WHOLE_BYTES_MAX:
            return self._dispatch_large(handler, frame, position, context, counters)
        # What follows the request is ignored, as Kafka does: librdkafka leaves three bytes behind when it asks Metadata
        # for all topics.
        request, _ = handler.request_class.decode_from(memoryview(bytes(frame)), position, context.api_version)
        return self._serve(handler, request, context, counters)

    def _dispatch_large(
        self, handler: Handler, frame: memoryview, position: int, context: RequestContext, counters: ApiCounters
    ) -> Reply | Awaitable[Reply]:
        """Serve a large frame. Copying it yields to other tasks; the largest frames are not copied but keep their
        buffers until they are answered."""
        if handler.frame_bytes_max is not None and len(frame) > (limit := handler.frame_bytes_max(self._services)):
            message = f"a request of {len(frame)} bytes, of which there may be {limit}"
            counters.errors[handler.too_large_code] = counters.errors.get(handler.too_large_code, 0) + 1
            refusal = at_once(handler.error_response(None, context.api_version, handler.too_large_code, message))
            if context.meter is not None and self._quotas is not None:
                self._tell_wait(context, self._quotas, refusal, 0)
            return encode_reply(context, refusal)
        if len(frame) <= COPIED_AT_ONCE_BYTES:
            return self._serve_large(handler, memoryview(bytes(frame)), position, context, counters)
        stage = FirstStage(1)
        return Staged(self._serve_held(handler, frame, position, context, counters, stage), stage)

    async def _serve_held(
        self,
        handler: Handler,
        frame: memoryview,
        position: int,
        context: RequestContext,
        counters: ApiCounters,
        stage: FirstStage,
    ) -> Reply:
        try:
            if len(frame) > COPIED_BYTES_MAX:
                return await self._serve_large(handler, frame, position, context, counters)
            copy = await _copied_in_turns(frame)
        finally:
            stage.step_ended()
        return await self._serve_large(handler, copy, position, context, counters)

    async def _serve_large(
        self, handler: Handler, frame: memoryview, position: int, context: RequestContext, counters: ApiCounters
    ) -> Reply:
        """Decode the request, yielding to other tasks, then serve it. Raises ProtocolError."""
        request, _ = await in_turns(handler.request_class.decode_in_turns(frame, position, context.api_version))
        return await self._serve(handler, request, context, counters)

    def _serve_timed(
        self, handler: Handler, frame: memoryview, position: int, context: RequestContext, counters: ApiCounters
    ) -> Reply | Awaitable[Reply]:
        start = self._clock.now()
        outcome = self._serve_at_once(handler, frame, position, context)
        if type(outcome) is Reply:
            counters.durations.observe(self._clock.now() - start)
            return outcome
        return inside(outcome, lambda answer: self._finish_timed(answer, start, counters))  # type: ignore[arg-type]  # A Reply is excluded.

    async def _finish_timed(self, outcome: Awaitable[Reply], start: float, counters: ApiCounters) -> Reply:
        reply = await outcome
        counters.durations.observe(self._clock.now() - start)
        return reply

    def _serve_at_once(
        self, handler: Handler, frame: memoryview, position: int, context: RequestContext
    ) -> Reply | Awaitable[Reply]:
        outcome: Any
        try:
            if handler.in_place is None:
                assert handler.raw is not None
                outcome = handler.raw(frame, position, context, self._services)
            elif len(frame) <= WHOLE_BYTES_MAX:
                request, _ = handler.request_class.decode_from(frame, position, context.api_version)
                outcome = handler.in_place(request, len(frame), context, self._services)
            else:
                outcome = self._serve_large_in_place(handler, frame, position, context)
            if type(outcome) is Reply:
                return outcome
            if isinstance(outcome, Message):
                return encode_reply(context, outcome)
        except ProtocolError:
            raise
        except Exception as problem:  # The boundary of a request, as in `_serve`.
            raise self._broken(context, problem) from problem
        return inside(outcome, lambda answer: self._finish(answer, context))

    def _serve_large_in_place(self, handler: Handler, frame: memoryview, position: int, context: RequestContext) -> Any:
        """Serve a large request of an in-place handler. If it has few elements, its first stage starts immediately. If
        it has many, decoding yields to other tasks and is part of the first stage."""
        assert handler.in_place is not None
        request, size = None, len(frame)
        decoding = handler.request_class.decode_in_turns(frame, position, context.api_version)
        try:
            next(decoding)
        except StopIteration as end:
            request, _ = end.value
        if request is not None:
            return handler.in_place(request, size, context, self._services)
        if size <= SCRATCH_BYTES:  # The scratch buffer is not ours across an await.
            decoding = handler.request_class.decode_in_turns(memoryview(bytes(frame)), position, context.api_version)
        stage = FirstStage(1)
        return Staged(self._decode_and_serve_in_place(handler, decoding, size, context, stage), stage)

    async def _decode_and_serve_in_place(
        self,
        handler: Handler,
        decoding: Steps[tuple[Message, int]],
        size: int,
        context: RequestContext,
        stage: FirstStage,
    ) -> Any:
        assert handler.in_place is not None
        outcome: Any = None
        try:
            request, _ = await in_turns(decoding)
            outcome = handler.in_place(request, size, context, self._services)
        finally:
            if type(outcome) is Staged:
                outcome.first_stage.when_over(stage.step_ended)
            else:
                stage.step_ended()
        return outcome if isinstance(outcome, Reply | Message) else await outcome

    async def _finish(self, outcome: Awaitable[Reply | Message], context: RequestContext) -> Reply:
        try:
            answer = await outcome
            if isinstance(answer, Reply):
                return answer
            encoding = encode_response_in_turns(context.api_key, context.api_version, context.correlation_id, answer)
            return Reply((await in_turns(encoding),), getattr(answer, "throttle_time_ms", 0))
        except (ProtocolError, OSError):
            raise
        except Exception as problem:  # Likewise.
            raise self._broken(context, problem) from problem

    def _broken(self, context: RequestContext, problem: Exception) -> ProtocolError:
        """Log an unexpected failure that the response cannot express. Returns the error that closes the connection."""
        self._log_failure(context, problem)
        return ProtocolError(f"{api_keys.name_of(context.api_key)} failed in the server; its log has the details")

    async def _serve(self, handler: Handler, request: Any, context: RequestContext, counters: ApiCounters) -> Reply:
        start = self._clock.now()
        assert handler.serve_function is not None
        try:
            response = await handler.serve_function(request, context, self._services)
        except Exception as problem:  # noqa: BLE001  # The boundary of a request: known errors become codes, others are logged and answered.
            response = await self._failed(handler, request, context, problem)
            code = code_of(problem)
            counters.errors[code] = counters.errors.get(code, 0) + 1
        took = self._clock.now() - start
        counters.durations.observe(took)
        counters.seconds += took
        counters.seconds_max = max(counters.seconds_max, took)
        if type(response) is Reply:
            return response
        try:
            waits: int = getattr(response, "throttle_time_ms", 0)
            if context.meter is not None and self._quotas is not None:
                waits = self._tell_wait(context, self._quotas, response, waits)
            encoding = encode_response_in_turns(context.api_key, context.api_version, context.correlation_id, response)
            return Reply((await in_turns(encoding),), waits)
        except Exception as problem:  # The answer cannot be said in the client's version: a fault of ours.
            raise self._broken(context, problem) from problem

    def _tell_wait(self, context: RequestContext, quotas: ClientQuotas, response: Any, told: int) -> int:
        """Set the throttle time of the response, and return it (ms). For a forwarded request it is at least the
        controller's throttle time, `told`."""
        waits = max(told, wait_ms(context, quotas))
        if waits > told and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = waits
        return waits

    async def _failed(self, handler: Handler, request: Any, context: RequestContext, problem: Exception) -> Any:
        if not isinstance(problem, EXPECTED):
            self._log_failure(context, problem)
        return await in_turns(
            handler.error_response(request, context.api_version, code_of(problem), message_of(problem)),
            TURN_ITEMS,
        )

    def _log_failure(self, context: RequestContext, problem: Exception) -> None:
        self._log.error(
            "request failed",
            api=api_keys.name_of(context.api_key),
            version=context.api_version,
            peer=context.peer.host,
            client=context.client_id,
            traceback="".join(traceback.format_exception(problem)),
        )


async def _copied_in_turns(frame: memoryview) -> memoryview:
    size = len(frame)
    copy = memoryview(new_buffer(size))[:size]
    for start in range(0, size, COPIED_AT_ONCE_BYTES):
        copy[start : start + COPIED_AT_ONCE_BYTES] = frame[start : start + COPIED_AT_ONCE_BYTES]
        await trio.lowlevel.checkpoint()
    return copy.toreadonly()


def encode_reply(context: RequestContext, response: Any) -> Reply:
    """Encode a small response as a whole frame: size, correlation id, tagged header fields if the version has them,
    body."""
    frame = encode_response(context.api_key, context.api_version, context.correlation_id, response)
    return Reply((frame,), getattr(response, "throttle_time_ms", 0))
