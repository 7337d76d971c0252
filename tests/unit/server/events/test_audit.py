"""What the audit tells is bounded, also where a client chooses its length."""

from __future__ import annotations

from typing import Any

from kraft.common.logging import Loggers
from kraft.handlers.security.audited_changes import CONFIG, Change
from kraft.security.acls import Operation, ResourceKind
from kraft.server.events.audit import VALUE_CHARACTERS_MAX, AuditLog
from kraft.server.events.event_journal import EventJournal
from kraft.world.simulated import Universe

LONGEST = "x" * 32_767


def test_long_names_and_values_are_truncated_in_audit_events() -> None:
    async def main(universe: Universe) -> None:
        clock = universe.world_for(1).clock
        lines: list[Any] = []
        events = EventJournal(clock)
        audit = AuditLog(events, Loggers(lines.append, clock), clock)
        audit.handle_denied("User:u", "10.0.0.1", Operation.READ, ResourceKind.GROUP, LONGEST)
        fields = {"resource_name": "t", "key": "k", "change": "set", "value": LONGEST}
        audit.handle_changes("User:u", "10.0.0.1", iter([Change(CONFIG, fields)]))
        denied, changed = events.since().events
        assert denied.fields["resource_name"] == changed.fields["value"] == LONGEST[:VALUE_CHARACTERS_MAX]
        assert len(lines) == 2

    Universe(1).run(main)
