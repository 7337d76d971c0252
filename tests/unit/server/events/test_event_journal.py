"""kraft/server/events/event_journal.py"""

from __future__ import annotations

import trio
import trio.testing

from kraft.server.events.event_journal import EventJournal, EventKind
from tests.unit.server.events.journals import StoppedClock


def journal(events_max: int = 4) -> EventJournal:
    return EventJournal(StoppedClock(), events_max=events_max)  # type: ignore[arg-type]


def test_events_are_read_in_order_from_the_last_event_seen() -> None:
    events = journal()
    first = events.append(EventKind.BROKER_FENCED, broker=1, epoch=7)
    second = events.append(EventKind.BROKER_UNFENCED, broker=1, epoch=9)
    assert events.since().events == (first, second)
    assert events.since(first.id).events == (second,)
    assert events.since(second.id) == ((), False)
    assert (second.id, second.time_ms, second.kind, second.fields) == (
        first.id + 1,
        1_000,
        "broker.unfenced",
        {"broker": 1, "epoch": 9},
    )


def test_a_reader_that_was_away_too_long_is_informed_of_the_gap() -> None:
    events = journal(events_max=4)
    made = [events.append(EventKind.BROKER_FENCED, broker=broker, epoch=1) for broker in range(6)]
    assert events.since(made[0].id) == (tuple(made[2:]), True)
    assert events.since(made[1].id) == (tuple(made[2:]), False)


def test_an_event_id_of_an_earlier_process_returns_all_events_and_a_gap() -> None:
    events = journal()
    event = events.append(EventKind.BROKER_FENCED, broker=1, epoch=1)
    assert events.since(event.id + 5) == ((event,), True)
    assert events.since(3) == ((event,), True)
    assert journal().since(3) == ((), True)


def test_the_number_of_events_in_a_response_is_limited() -> None:
    events = journal(events_max=10)
    made = [events.append(EventKind.BROKER_FENCED, broker=broker, epoch=1) for broker in range(6)]
    assert events.since(made[0].id, events_max=2).events == tuple(made[1:3])


def test_a_waiting_reader_wakes_with_the_next_event() -> None:
    trio.run(_wait_for_an_event)


async def _wait_for_an_event() -> None:
    events = journal()
    seen: list[int] = []

    async def reader() -> None:
        start = events.last_id
        await events.wait(start)
        seen.extend(event.fields["broker"] for event in events.since(start).events)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader)
        await trio.testing.wait_all_tasks_blocked()
        assert not seen
        events.append(EventKind.BROKER_FENCED, broker=5, epoch=1)
    assert seen == [5]
    await events.wait(events.last_id - 1)


def test_a_request_for_the_newest_events_returns_at_most_the_retained_ones() -> None:
    kept = journal(events_max=4)
    assert kept.newest(2).events == ()
    for name in "abcdef":
        kept.append(EventKind.BROKER_FENCED, broker=name)
    assert [event.id for event in kept.newest(2).events] == [kept.last_id - 1, kept.last_id]
    assert [event.id for event in kept.newest(9).events] == [event.id for event in kept.since(-1).events]
    assert not kept.newest(9).missed
