"""Forwards the metrics that clients push (KIP-714) to an OTLP/HTTP receiver (kraft.telemetry.otlp.endpoint).

A push is queued, or dropped if the queue is full; the client never waits. One request is in flight at a time. Failed
requests are not repeated. After each failure in a row the pause before the next request doubles, so that an overloaded
receiver can recover. https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from kraft.rpc_client.http_fetch import FetchFailed, HttpQuestion, ask_service
from kraft.security.tls import TlsSettings, load_tls
from kraft.server.security.tls_keys import read_store
from kraft.telemetry.export import FAILED, SENT, ExportQueue, WaitingPush, rejected_points, request_of
from kraft.telemetry.otlp import InvalidTelemetry
from kraft.world.turns import in_turns

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.world.ports import Tls, World

PAUSE_SECONDS_MIN: Final = 1.0
PAUSE_SECONDS_MAX: Final = 60.0
REQUEST_SECONDS_MAX: Final = 10.0
"""Timeout of connecting, and timeout of the response."""
TLS_SECONDS_MAX: Final = 3_600.0
"""How long trusted certificates are used before they are read again."""
STEPS_A_TURN: Final = 100
_HEADERS: Final = (("Content-Type", "application/x-protobuf"),)


class ClientMetricsExport:
    """The queue to one receiver, and the task that empties it. `tls` has the trusted authorities for https."""

    def __init__(self, world: World, endpoint: str, tls: TlsSettings, log: Logger) -> None:
        self.queue = ExportQueue()
        self._world, self._endpoint, self._log = world, endpoint, log
        self._tls_settings = tls
        self._tls: Tls | None = None
        self._tls_at = 0.0
        self._wanted = trio.Event()
        self._is_dropping = False
        self._pause_seconds = 0.0

    def offer(self, data: bytes, attributes: Mapping[str, str]) -> None:
        """Queue a push, or drop it if the queue is full. The first dropped push is logged, and again the first one
        after a request has succeeded."""
        if self.queue.offer(WaitingPush(data, attributes)):
            self._wanted.set()
        elif not self._is_dropping:
            self._is_dropping = True
            self._log.warning(
                "metrics of clients are not forwarded: too many wait for the receiver",
                endpoint=self._endpoint,
                waiting=self.queue.waiting,
            )

    async def run(self) -> None:
        """Send queued pushes until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            while pushes := self.queue.take():
                await self._send(pushes)
                if self._pause_seconds:
                    await self._world.clock.sleep(self._pause_seconds)

    async def _send(self, pushes: list[WaitingPush]) -> None:
        try:
            body = await in_turns(request_of(pushes), STEPS_A_TURN)
            answer = await ask_service(
                self._world,
                self._endpoint,
                await self._trusted(),
                HttpQuestion("POST", _HEADERS, body),
                connect_seconds=REQUEST_SECONDS_MAX,
                answer_seconds=REQUEST_SECONDS_MAX,
            )
            if not 200 <= answer.status < 300:
                raise FetchFailed(f"the answer has the status {answer.status}")
        except (FetchFailed, InvalidTelemetry, OSError, ValueError) as problem:
            self._fail(pushes, str(problem) or type(problem).__name__)
            return
        self.queue.settle(len(pushes), SENT)
        self._note_rejected(answer.body)
        if self._pause_seconds:
            self._log.info("metrics of clients are forwarded again", endpoint=self._endpoint)
        self._pause_seconds, self._is_dropping = 0.0, False

    def _fail(self, pushes: list[WaitingPush], reason: str) -> None:
        """Count the pushes of a failed request as lost, and lengthen the pause. Only the first failure in a row is
        logged."""
        self.queue.settle(len(pushes), FAILED)
        if not self._pause_seconds:
            self._log.warning(
                "metrics of clients could not be forwarded: they are lost", endpoint=self._endpoint, reason=reason
            )
        self._pause_seconds = min(max(2 * self._pause_seconds, PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)
        self._tls = None

    def _note_rejected(self, body: bytes) -> None:
        """Count the points that the receiver rejected. A response that is not OTLP in protobuf is logged and counts as
        none."""
        try:
            self.queue.rejected_points += rejected_points(body)
        except InvalidTelemetry as problem:
            self._log.debug("the receiver's answer cannot be read", endpoint=self._endpoint, reason=str(problem))

    async def _trusted(self) -> Tls:
        """The trusted certificates; http needs none. Raises OSError, TlsProblem."""
        now = self._world.clock.now()
        if self._tls is None or now - self._tls_at > TLS_SECONDS_MAX:
            read = partial(read_store, self._world.files)
            self._tls = await self._world.threads.run(load_tls, self._tls_settings, read)
            self._tls_at = now
        return self._tls
