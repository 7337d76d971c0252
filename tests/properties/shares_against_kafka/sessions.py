"""What members do in their sessions: fetch, acknowledge, acknowledge wrongly, end, vanish, and let locks expire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Final

from tests.properties.shares_against_kafka.comparison import Comparison
from tests.properties.shares_against_kafka.expected import ACCEPT, GAP, REJECT, RELEASE, RENEW, Expected, Kind
from tests.properties.shares_against_kafka.two_sides import FETCH_BYTES, Member, TwoSides, topics_of

Plain = Any

EVERYTHING: Final = 10_000
LONG_LOCK_MS: Final = 60_000
SHORT_LOCK_MS: Final = 1000


class Sessions:
    """The sessions of a life's members."""

    def __init__(
        self,
        source: Random,
        kind: Kind,
        sides: TwoSides,
        members: Sequence[Member],
        expected: Expected,
        comparison: Comparison,
    ) -> None:
        self._source = source
        self._kind = kind
        self._sides = sides
        self._members = members
        self._expected = expected
        self._comparison = comparison

    # Fetching.

    def fetch(self, member: Member) -> None:
        if not member.has_session:
            self._begin(member)
            return
        added: list[int] = []
        forgotten: list[int] = []
        if self._source.random() < 0.15:
            loaded = sorted(set().union(*(each.places for each in self._members)))
            partition = self._source.choice(loaded or [0])
            if partition not in {at for at, _ in self._expected.held(member.name)}:
                (forgotten if partition in member.places else added).append(partition)
                member.places ^= {partition}
        self._fetch_some(member, added, forgotten)

    def _begin(self, member: Member) -> None:
        """A session begins, or begins anew. What the member held before stays its own."""
        loaded = set().union(*(each.places for each in self._members))
        places = self._source.choice(((0,), (1,), (0, 1)))
        self._comparison.note(f"{member.name} begins a session with {places}")
        member.places, member.has_session = set(places), True
        for side in self._sides.sides:
            member.epochs[side.name] = 0
        if set(places) - loaded:  # Both load what the group had, and may answer before they have.
            self.take_all(member, places)
        else:
            self._fetch_some(member, places, ())

    def _fetch_some(
        self, member: Member, added: Iterable[int], forgotten: Iterable[int], acknowledged: Plain = None
    ) -> None:
        """Records of all partitions of the session, or some of one: which one comes first is each side's choice. Kafka
        may end a strict fetch at a range in flight, so it is sent again for the rest of the records."""
        records_max, bytes_max = EVERYTHING, FETCH_BYTES
        if len(member.places) == 1:
            records_max, bytes_max = (
                self._source.choice((1, 2, 3, 5, 8, EVERYTHING)),
                self._source.choice((150, FETCH_BYTES)),
            )
        body = {
            "max_records": records_max,
            "max_bytes": bytes_max,
            "batch_size": 1 if records_max < EVERYTHING else self._source.choice((1, 5, EVERYTHING)),
            "topics": topics_of(added, acknowledged or {}),
            "forgotten_topics_data": list(forgotten),
        }
        if not self._kind.is_strict:
            body["batch_size"] = 1
        available = len(self._expected.available(member.places))
        takes_all = records_max == EVERYTHING or self._kind.is_strict  # Strict: as many as it asks for.
        enough = min(records_max if takes_all and bytes_max == FETCH_BYTES else 1, available)
        told = self._sides.fetched(member, body, enough)
        self._comparison.same(
            f"{member.name} fetches {records_max} records, {bytes_max} bytes, of {sorted(member.places)}, "
            f"added {list(added)}, forgotten {list(forgotten)}, acknowledged {acknowledged}",
            told,
        )
        self._hold(member, told["ours"][2])

    def take_all(self, member: Member, places: Sequence[int] = (0, 1)) -> None:
        """The member takes all that is available, which must be what the group has not settled and nobody holds."""
        places = sorted({*places, *member.places})
        expected = self._expected.available(places)
        self._comparison.note(f"{member.name} takes all of {places}: {sorted(expected)}")
        body = {
            "max_records": EVERYTHING,
            "max_bytes": FETCH_BYTES,
            "batch_size": 1,
            "topics": topics_of(places, {}),
            "forgotten_topics_data": [],
        }
        told = self._sides.fetched(member, body, len(expected))
        self._comparison.same("taken", told)
        story = self._comparison.story()
        assert told["ours"] == ("NONE", {}, expected), f"{told['ours']} and not {expected} after {story}"
        member.places, member.has_session = set(places), True
        self._hold(member, expected)

    def _hold(self, member: Member, acquired: dict[tuple[int, int], int]) -> None:
        for place, deliveries in acquired.items():
            wrong = self._expected.hold(member.name, place, deliveries)
            assert not wrong, f"{wrong}\n{self._comparison.story()}"

    # Acknowledging.

    def acknowledge(self, member: Member) -> None:
        """Some of what the member holds, in one request or with a fetch."""
        holders = [each for each in self._members if each.has_session and self._expected.held(each.name)]
        if not holders:
            self.fetch(member)
            return
        member = self._source.choice(holders)
        renews = self._source.random() < 0.15
        with_fetch = not renews and self._source.random() < 0.3
        types = (ACCEPT, ACCEPT, REJECT, GAP) if with_fetch else (ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, GAP)
        if renews:
            types = (ACCEPT, RELEASE, RENEW, RENEW)
        settled: dict[int, dict[int, int]] = {}
        for partition, offset in self._expected.held(member.name):
            if self._source.random() < 0.6:
                settled.setdefault(partition, {})[offset] = 0
        batches = {partition: self._batches(each, types) for partition, each in settled.items()}
        if with_fetch:
            self._fetch_some(member, (), (), batches)
        else:
            told = self._acknowledged(member, batches, renews=renews)
            self._comparison.same(f"{member.name} acknowledges {batches} {'renewing' if renews else ''}", told)
        for partition, each in settled.items():
            for offset, kind in each.items():
                self._expected.settle(partition, offset, kind)

    def _batches(self, settled: dict[int, int], types: Sequence[int]) -> list[dict[str, Plain]]:
        """Acknowledgements of the offsets, whose types are put in: one for each range of offsets, or one for each
        offset."""
        ranges: list[list[int]] = []
        for offset in sorted(settled):
            if ranges and ranges[-1][-1] == offset - 1 and self._source.random() < 0.9:
                ranges[-1].append(offset)
            else:
                ranges.append([offset])
        made = []
        for each in ranges:
            one_each = self._source.random() < 0.4
            chosen = [self._source.choice(types) for _ in each] if one_each else [self._source.choice(types)]
            for index, offset in enumerate(each):
                settled[offset] = chosen[index if len(chosen) > 1 else 0]
            made.append(_batch(each[0], each[-1], *chosen))
        return made

    def _acknowledged(self, member: Member, batches: dict[int, Plain], **options: Plain) -> dict[str, Plain]:
        return {side.name: self._sides.acknowledged(member, side, batches, **options) for side in self._sides.sides}

    def acknowledge_wrongly(self, member: Member) -> None:
        """An acknowledgement that changes nothing: of records that the member does not hold, malformed, or in a wrong
        epoch."""
        partition = self._source.choice(sorted(member.places) or [0])
        records = self._expected.records[partition]
        end = len(records)
        foreign = [offset for offset, each in enumerate(records) if each.deliveries and each.holder != member.name]
        if any(each.holder for each in records[: self._expected.log_starts[partition]]):
            foreign = []  # Kafka's start offset does not move beyond what is held below the log's start.
        own = [offset for at, offset in self._expected.held(member.name) if at == partition]
        first = self._source.choice(foreign or [0])
        mine = self._source.choice(own or [0])
        cases: dict[str, tuple[list[dict[str, Plain]], dict[str, Plain]]] = {
            "not held": ([_batch(first, first, self._source.choice((ACCEPT, RELEASE, REJECT, GAP)))], {}),
            "twice": ([_batch(mine, mine + 1, ACCEPT), _batch(mine, mine, RELEASE)], {}),
            "too few types": ([_batch(mine, mine + 2, ACCEPT, RELEASE)], {}),
            "no type": ([_batch(mine, mine)], {}),
            "unknown type": ([_batch(mine, mine, 9)], {}),
            "turned round": ([_batch(mine + 1, mine, ACCEPT)], {}),
            "negative": ([_batch(-2, -1, ACCEPT)], {}),
            "renews in secret": ([_batch(mine, mine, RENEW)], {}),
            "renews what is not held": ([_batch(first, first, RENEW)], {"renews": True}),
            "too early": ([_batch(mine, mine, ACCEPT)], {"shift": 1}),
            "too late": ([_batch(mine, mine, ACCEPT)], {"shift": -1}),
            "begins": ([_batch(mine, mine, ACCEPT)], {"epoch": 0}),
            "another topic": ([_batch(mine, mine, ACCEPT)], {"topic_id": bytes(range(16))}),
        }
        if own:  # Else Kafka, which has nothing in flight, fails in several ways.
            cases |= {
                "held and not held": ([_batch(mine, mine, ACCEPT), _batch(end, end, ACCEPT)], {}),
                "beyond the end": ([_batch(end + 5, end + 6, ACCEPT)], {}),
                "across the end": ([_batch(mine, end + 3, ACCEPT)], {}),
            }
        if not foreign:
            del cases["not held"], cases["renews what is not held"]
        name = self._source.choice(list(cases))
        wrong, options = cases[name]
        answers = self._acknowledged(member, {partition: wrong}, **options)
        told = {side: answer[:2] for side, answer in answers.items()}
        self._comparison.same(f"{member.name} acknowledges {name}: {partition} {wrong}", told)

    # Ends.

    def end(self, member: Member) -> None:
        """A session ends, perhaps with acknowledgements. What the member still holds is released."""
        if not member.has_session:
            return
        for side in self._sides.sides:
            member.epochs[side.name] = -1
        with_fetch = self._source.random() < 0.5
        if with_fetch:
            body = {"max_records": 0, "max_bytes": 0, "batch_size": 0, "topics": [], "forgotten_topics_data": []}
            told = {side.name: self._sides.fetched_once(member, side, body) for side in self._sides.sides}
        else:
            told = self._acknowledged(member, {})
        self._comparison.same(f"{member.name} ends its session", told)
        self._release(member)

    def drop(self, member: Member) -> None:
        """The member's connection closes."""
        if not member.has_session:
            return
        self._comparison.note(f"{member.name} closes its connection")
        for side in self._sides.sides:
            member.links[side.name].reconnect()
            self._comparison.until(
                "the session is gone",
                lambda side=side: (
                    self._sides.acknowledged(member, side, {}, epoch=7777)[0] == "SHARE_SESSION_NOT_FOUND"
                ),
            )
            member.epochs[side.name] = 0
        self._release(member)

    def _release(self, member: Member) -> None:
        """The member has no session any more, and what it held is delivered to another one."""
        held = self._expected.held(member.name)
        places = sorted({partition for partition, _ in held if partition in member.places})
        for partition, offset in held:
            if partition in member.places:
                self._expected.settle(partition, offset, RELEASE)
        member.has_session, member.places = False, set()
        others = [each for each in self._members if each.has_session]
        if places and others:
            self.take_all(self._source.choice(others), places)

    def expire(self, member: Member) -> None:
        """Locks are made short and renewed, and are not renewed again."""
        if not member.has_session or not self._expected.held(member.name):
            return
        held = self._expected.held(member.name)
        self._lock_ms(member, SHORT_LOCK_MS)
        renewed = {
            partition: [_batch(offset, offset, RENEW) for at, offset in held if at == partition]
            for partition in sorted({partition for partition, _ in held})
        }
        told = self._acknowledged(member, renewed, renews=True)
        self._comparison.same(f"{member.name} renews {held} for a moment", told)
        self._lock_ms(member, LONG_LOCK_MS)
        for partition, offset in held:
            self._expected.settle(partition, offset, RELEASE)
        self.take_all(self._source.choice(self._members))

    def _lock_ms(self, member: Member, lock_ms: int) -> None:
        self._sides.configure(share_record_lock_duration_ms=str(lock_ms))
        for side in self._sides.sides:
            self._comparison.until(
                f"locks of {side.name} last {lock_ms} ms",
                lambda side=side: self._sides.acknowledged(member, side, {})[2] == lock_ms,
            )


def _batch(first: int, last: int, *types: int) -> dict[str, Plain]:
    return {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
