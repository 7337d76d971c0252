"""The audit of logins: counters by listener, mechanism, address and reason, and events of failures.

Both are bounded. A client that guesses passwords in a loop must not push all other events out of log and journal, nor
create a series for each of many addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from kraft.common.rate_limiter import RateLimiter
from kraft.server.events.event_journal import EventJournal, EventKind

if TYPE_CHECKING:
    from kraft.common.logging import Logger
    from kraft.network.login_outcome import LoginOutcome, Report
    from kraft.world.ports import Clock

TOLD_MAX: Final = 20
"""The number of events of one kind, such as failed logins or denials, that are reported in one period."""
PERIOD_SECONDS: Final = 10.0
HOSTS_MAX: Final = 100
"""Addresses with counters of their own. Failures from further ones are counted together."""
OTHER_HOSTS: Final = "other"
CHARACTERS_MAX: Final = 200
"""Limit of each text in an event that comes from a client."""

Series = Iterator[tuple[tuple[str, ...], float]]


class LoginAudit:
    """The login audit of all listeners of a role."""

    def __init__(self, events: EventJournal, log: Logger, clock: Clock) -> None:
        self._events = events
        self._log = log
        self._few = RateLimiter(clock, TOLD_MAX, PERIOD_SECONDS)
        self._hosts: set[str] = set()
        self._successes: dict[tuple[str, str], int] = {}
        self._failures: dict[tuple[str, str, str, str], int] = {}

    def of_listener(self, listener: str) -> Report:
        """The function that reports the logins of one listener."""
        return partial(self._take, listener)

    def _take(self, listener: str, outcome: LoginOutcome) -> None:
        if not outcome.failure:
            success = (listener, outcome.mechanism)
            self._successes[success] = self._successes.get(success, 0) + 1
            return
        if len(self._hosts) < HOSTS_MAX:
            self._hosts.add(outcome.host)
        host = outcome.host if outcome.host in self._hosts else OTHER_HOSTS
        failure = (listener, outcome.mechanism, host, outcome.failure)
        self._failures[failure] = self._failures.get(failure, 0) + 1
        untold = self._few.take()
        if untold is None:
            return
        fields = {
            "listener": listener,
            "mechanism": outcome.mechanism,
            "host": outcome.host,
            "user": outcome.user[:CHARACTERS_MAX],
            "failure": outcome.failure,
            "reason": outcome.reason[:CHARACTERS_MAX],
            "untold": untold,
        }
        self._log.warning("login failed", **fields)
        self._events.append(EventKind.LOGIN_FAILED, **fields)

    def successes(self) -> Series:
        """The counts of successes by listener and mechanism."""
        yield from sorted(self._successes.items())

    def failures(self) -> Series:
        """The counts of failures by listener, mechanism, address and kind."""
        yield from sorted(self._failures.items())
