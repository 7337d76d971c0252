"""Measures a request's time on the event loop, and computes the throttle time of its response (KIP-124, KIP-219).

Time is measured only while a request quota is set. A meter runs while the request's own code runs, not while the
request waits.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Generator
from typing import TYPE_CHECKING, Any

from kraft.metadata.quota_keys import REQUEST_PERCENTAGE
from kraft.network.reply import Reply
from kraft.quota.throttle import WAIT_MS_MAX, Throttle

if TYPE_CHECKING:
    from kraft.handlers.registry import RequestContext
    from kraft.quota.client_quotas import ClientQuotas
    from kraft.world.ports import Clock


class LoopMeter:
    """The time for which one request has occupied the event loop."""

    __slots__ = ("_clock", "_since", "_spent", "is_exempt")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = math.nan
        self._spent = 0.0
        self.is_exempt = False
        """Whether the request is from another broker, which has no quota. Set by its handler."""

    def start(self) -> None:
        self._since = self._clock.now()

    def stop(self) -> None:
        self._spent += self._clock.now() - self._since

    @property
    def seconds(self) -> float:
        """The time until now. Call it only while the meter runs."""
        return self._spent + self._clock.now() - self._since


class Metered:
    """Awaits `work`, and runs the meter while its code runs."""

    __slots__ = ("_meter", "_work")

    def __init__(self, work: Awaitable[Reply], meter: LoopMeter) -> None:
        self._work = work
        self._meter = meter

    def __await__(self) -> Generator[Any, Any, Reply]:
        steps: Any = self._work.__await__()
        failure: BaseException | None = None
        outcome: Any = None
        while True:
            self._meter.start()
            try:
                trap = steps.send(outcome) if failure is None else steps.throw(failure)
            except StopIteration as end:
                reply: Reply = end.value
                return reply
            finally:
                self._meter.stop()
            try:
                outcome, failure = (yield trap), None
            except BaseException as problem:  # noqa: BLE001  # It goes on to the work, which may handle it.
                failure = problem


def user_of(context: RequestContext) -> str:
    """The name in a principal `User:name`."""
    return context.principal.partition(":")[2]


def throttle(context: RequestContext, quota: str, seconds: float) -> Throttle:
    """The event that the request's client must wait `seconds` for a quota."""
    peer = context.peer
    return Throttle(quota, peer.listener, peer.host, seconds, context.principal, context.client_id or "")


def wait_ms(
    context: RequestContext, quotas: ClientQuotas, seconds: float = 0.0, quota: str = REQUEST_PERCENTAGE
) -> int:
    """Return the throttle time (ms) of a request's client, at most WAIT_MS_MAX. It is the longer of `seconds`, for its
    use of `quota`, and the time for its use of the event loop. A throttle time above 0 is reported."""
    meter = context.meter
    if meter is not None and not meter.is_exempt:
        owed = quotas.use_time(user_of(context), context.client_id or "", meter.seconds)
        if owed > seconds:
            seconds, quota = owed, REQUEST_PERCENTAGE
    seconds = min(seconds, WAIT_MS_MAX / 1000)
    if seconds > 0:
        quotas.report(throttle(context, quota, seconds))
    return math.ceil(seconds * 1000)
