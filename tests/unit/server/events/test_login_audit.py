"""Failed logins are told and counted, within bounds."""

from __future__ import annotations

from typing import Any

from kraft.common.logging import Loggers
from kraft.network.login_outcome import CREDENTIALS, LoginOutcome
from kraft.server.events.event_journal import EventJournal, EventKind
from kraft.server.events.login_audit import (
    CHARACTERS_MAX,
    HOSTS_MAX,
    OTHER_HOSTS,
    PERIOD_SECONDS,
    TOLD_MAX,
    LoginAudit,
)
from kraft.world.simulated import Universe


class Audited:
    def __init__(self, universe: Universe) -> None:
        world = universe.world_for(1)
        self.clock = world.clock
        self.lines: list[Any] = []
        self.events = EventJournal(world.clock)
        self.audit = LoginAudit(self.events, Loggers(self.lines.append, world.clock).get("security"), world.clock)
        self.report = self.audit.of_listener("CLIENTS")

    def fail(self, host: str = "10.0.0.1", user: str = "alice") -> None:
        self.report(LoginOutcome("PLAIN", host, user, CREDENTIALS, "Invalid username or password"))


def test_a_failed_login_is_an_event_and_a_count_and_a_success_only_a_count() -> None:
    async def main(universe: Universe) -> None:
        audited = Audited(universe)
        audited.fail()
        audited.report(LoginOutcome("PLAIN", "10.0.0.1", "bob"))
        [event] = audited.events.since().events
        assert event.kind == EventKind.LOGIN_FAILED
        assert event.fields == {
            "listener": "CLIENTS",
            "mechanism": "PLAIN",
            "host": "10.0.0.1",
            "user": "alice",
            "failure": "credentials",
            "reason": "Invalid username or password",
            "untold": 0,
        }
        assert len(audited.lines) == 1
        assert list(audited.audit.successes()) == [(("CLIENTS", "PLAIN"), 1)]
        assert list(audited.audit.failures()) == [(("CLIENTS", "PLAIN", "10.0.0.1", "credentials"), 1)]

    Universe(1).run(main)


def test_repeated_login_failures_fill_neither_log_nor_journal_nor_metrics() -> None:
    async def main(universe: Universe) -> None:
        audited = Audited(universe)
        for number in range(2654):
            audited.fail(f"10.0.{number // 250}.{number % 250}", "x" * 1_000_000)
        told = audited.events.since().events
        assert len(told) == len(audited.lines) == TOLD_MAX
        assert {len(event.fields["user"]) for event in told} == {CHARACTERS_MAX}
        series = dict(audited.audit.failures())
        assert (len(series), sum(series.values())) == (HOSTS_MAX + 1, 2654)
        assert series["CLIENTS", "PLAIN", OTHER_HOSTS, "credentials"] == 2654 - HOSTS_MAX
        await audited.clock.sleep(PERIOD_SECONDS)
        audited.fail()
        assert audited.events.since().events[-1].fields["untold"] == 2654 - TOLD_MAX

    Universe(1).run(main)
