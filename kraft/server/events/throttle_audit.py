"""The audit of clients that are throttled by their quotas: counters by listener and quota, and events by client.

Both are bounded. A client at its quota is throttled with every request, for hours. It is reported once in a while, with
the number of waits since, so that it does not push all other events out of log and journal.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from kraft.common.rate_limiter import RateLimiter
from kraft.server.events.event_journal import EventJournal, EventKind
from kraft.server.events.login_audit import CHARACTERS_MAX, PERIOD_SECONDS, TOLD_MAX, Series

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.quota.throttle import Throttle
    from kraft.world.ports import Clock

QUIET_SECONDS: Final = 60.0
"""The time in seconds after a report during which throttled requests of the client are only counted, for each quota."""
CLIENTS_MAX: Final = 1000
"""The number of reported clients that are remembered. Beyond it, the client that was throttled longest ago is
dropped."""


class _Told:
    """A client that was reported. It is not reported again before `quiet_until`. `waits` counts its throttled requests
    since the report."""

    __slots__ = ("quiet_until", "waits")

    def __init__(self, quiet_until: float) -> None:
        self.quiet_until = quiet_until
        self.waits = 0


class ThrottleAudit:
    """The throttle audit of all listeners of a role."""

    def __init__(self, events: EventJournal, log: Logger, clock: Clock) -> None:
        self._events = events
        self._log = log
        self._clock = clock
        self._few = RateLimiter(clock, TOLD_MAX, PERIOD_SECONDS)
        self._told: OrderedDict[tuple[str, ...], _Told] = OrderedDict()
        self._waits: dict[tuple[str, str], int] = {}
        self._seconds: dict[tuple[str, str], float] = {}

    def take(self, throttle: Throttle) -> None:
        """See `kraft.quota.throttle.Report`."""
        place = (throttle.listener, throttle.quota)
        self._waits[place] = self._waits.get(place, 0) + 1
        self._seconds[place] = self._seconds.get(place, 0.0) + throttle.seconds
        client_id = throttle.client_id[:CHARACTERS_MAX]
        who = (*place, throttle.principal or throttle.host, client_id)
        waits = self._waits_to_tell(who)
        untold = self._few.take() if waits else None
        if untold is None:
            return
        self._told[who] = _Told(self._clock.now() + QUIET_SECONDS)
        if len(self._told) > CLIENTS_MAX:
            self._told.popitem(last=False)
        fields = {
            "listener": throttle.listener,
            "quota": throttle.quota,
            "principal": throttle.principal,
            "host": throttle.host,
            "client_id": client_id,
            "wait_ms": max(1, round(throttle.seconds * 1000)),
            "waits": waits,
            "untold": untold,
        }
        self._log.info("client throttled", **fields)
        self._events.append(EventKind.CLIENT_THROTTLED, **fields)

    def _waits_to_tell(self, who: tuple[str, ...]) -> int:
        """Count a client's wait. Returns the number of waits to report, or 0 while it must not be reported again."""
        entry = self._told.get(who)
        if entry is None:
            return 1
        self._told.move_to_end(who)
        entry.waits += 1
        return 0 if self._clock.now() < entry.quiet_until else entry.waits

    def waits(self) -> Series:
        """The number of waits by listener and quota."""
        yield from sorted(self._waits.items())

    def seconds(self) -> Series:
        """The total seconds of waits by listener and quota."""
        yield from sorted(self._seconds.items())
