"""Random lives of a share group, told to Apache Kafka and to a node of ours alike over the wire: every answer must be
the same, and each record must be delivered to the same member, as often.

What a member holds is known from the answers, so both sides are asked about the same records. Session epochs are each
side's own: a stale one is stale on both. Two things happen beside the answers, the release of what a member held at the
end of its session and the end of a lock. After them a member takes all that is available, in as many fetches as each
side needs.

A life has one of three kinds, in which Kafka and ours have to choose the same records. Kafka divides what is in flight
by the fetches that first delivered it (`batch_size`); ours by batches of the log. A life ends early where Kafka errs
(`KafkaErred`). Two differences are known and meant: ours raises the epoch of a group whose offsets are altered, and
stores a start offset with the change that moved it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from kraft.protocol.error_codes import ErrorCode, name_of
from tests.properties.transactions_against_kafka import Side, codes_of
from tests.vectors.plain import Batch

Plain = Any

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
STRICT: Final = 1
FETCH_BYTES: Final = 1 << 20
SETTLED_SECONDS_MAX: Final = 10.0
PAUSE_SECONDS: Final = 0.02
WAIT_MS: Final = 100
LONG_LOCK_MS: Final = 60_000
SHORT_LOCK_MS: Final = 1000
EVERYTHING: Final = 10_000
PARTITIONS: Final = 2
NOBODY: Final = "nobody"
GROUP_RESOURCE: Final = 32


class Kind(NamedTuple):
    """How members of a life fetch. `batch_records_max`: the largest batch that is produced."""

    name: str
    is_strict: bool
    deliveries_max: int
    batch_records_max: int


KINDS: Final = (
    Kind("strict", True, 2, 6),
    Kind("whole batches", False, 2, 6),
    # A record is delivered alone before it is given up.
    Kind("alone", False, 3, 1),
)


class KafkaErred(Exception):
    """Kafka counts settled records as lag, or keeps released ones back, and ours does not. Its state is another one
    from here on."""


class Offset(NamedTuple):
    """What a group is told about a partition."""

    index: int
    error: int
    start: int
    lag: int


class Record:
    """One offset of a partition, as the group has to see it."""

    __slots__ = ("deliveries", "holder", "is_settled")

    def __init__(self) -> None:
        self.deliveries = 0
        self.holder: str | None = None
        self.is_settled = False


class Member:
    """A member on both sides. `epochs` and `beats` are those of its next requests, by the sides' names."""

    def __init__(self, name: str, sides: Sequence[Side]) -> None:
        self.name = name
        self.links = {side.name: Side(side.name, side.address) for side in sides}
        self.epochs = {side.name: 0 for side in sides}
        self.beats = {side.name: 0 for side in sides}
        self.has_session = False
        self.is_member = False
        self.places: set[int] = set()

    def close(self) -> None:
        for link in self.links.values():
            link.close()


class ShareLife:
    """One group and one topic. `run` raises AssertionError at the first answer that differs, with what led to it."""

    def __init__(self, seed: int, sides: tuple[Side, Side]) -> None:
        self.source = Random(seed)
        self.sides = sides
        self.name = f"life-{seed}"
        self.kind = KINDS[seed % len(KINDS)]
        self.is_committed = self.source.random() < 0.4
        self.members = [Member(f"{self.name}-{letter}", sides) for letter in "abc"]
        self.records: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        self.aborted: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self.batch_starts: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.log_starts = [0] * PARTITIONS
        self.topic_ids: dict[str, bytes] = {}
        self.trace: list[str] = []
        self.compared = 0
        self.altered = 0
        """How often offsets were altered: ours raises the epoch of the group each time."""

    # A life.

    def make(self) -> None:
        topics = [{"name": self.name, "num_partitions": PARTITIONS, "replication_factor": 1}]
        self._tell("CreateTopics", 5, {"topics": topics, "timeout_ms": 10_000})
        for kind in (0, 1):
            self._tell("FindCoordinator", 4, {"key_type": kind, "coordinator_keys": [self.name]})
        self._configure(
            share_auto_offset_reset="earliest",
            share_delivery_count_limit=str(self.kind.deliveries_max),
            share_record_lock_duration_ms=str(LONG_LOCK_MS),
            share_isolation_level="read_committed" if self.is_committed else "read_uncommitted",
            share_assignment_interval_ms="0",
        )
        for side in self.sides:
            (topic,) = self._until(
                f"{side.name} knows the topic",
                lambda side=side: [
                    each
                    for each in side.ask("Metadata", 12, {"topics": [{"name": self.name}]})["topics"]
                    if len([part for part in each["partitions"] if part["leader_id"] >= 0]) == PARTITIONS
                ],
            )
            self.topic_ids[side.name] = topic["topic_id"]
        self._join(self.members[0])
        for partition in range(PARTITIONS):
            self._produce(partition)
        self._offsets(self.members[0])

    def run(self, steps: int) -> None:
        weights = {
            "produce": 14,
            "fetch": 26,
            "acknowledge": 30,
            "wrong": 8,
            "beat": 4,
            "join": 4,
            "leave": 2,
            "end_session": 3,
            "drop": 2,
            "expire": 1,
            "delete_records": 3,
            "alter": 2,
            "forget": 1,
            "describe": 5,
            "offsets": 5,
        }
        if self.is_committed:
            weights["transaction"] = 6
        for _ in range(steps):
            (name,) = self.source.choices(list(weights), list(weights.values()))
            getattr(self, f"_{name}")(self.source.choice(self.members))
        for member in self.members:
            self._end_session(member)
        self._offsets(self.members[0])

    def close(self) -> None:
        for member in self.members:
            member.close()

    # Records.

    def _produce(self, which: int | Member) -> None:
        partition = which if isinstance(which, int) else self.source.randrange(PARTITIONS)
        count = self.source.randint(1, self.kind.batch_records_max)
        self.trace.append(f"produce {count} to {partition}")
        self._append(partition, count, {})

    def _append(self, partition: int, count: int, producers: dict[str, dict[str, Plain]]) -> None:
        first = len(self.records[partition])
        for side in self.sides:
            options = producers.get(side.name, {})
            batch = Batch(*(b"%d" % (first + number) for number in range(count)), **options).build()
            data = [{"name": self.name, "partition_data": [{"index": partition, "records": batch}]}]
            name = self.name if options else None
            body = {"transactional_id": name, "acks": -1, "timeout_ms": 5000, "topic_data": data}
            answer = side.ask("Produce", 9, body)
            assert not any(codes_of(answer)), (side.name, answer)
            at = answer["responses"][0]["partition_responses"][0]["base_offset"]
            assert at == first, f"{side.name}: a batch is at {at} and not at {first}"
        self.batch_starts[partition].append(first)
        self.records[partition] += [Record() for _ in range(count)]

    def _transaction(self, _: Member) -> None:
        """One batch, which is committed or aborted at once. Its marker is an offset as any other."""
        partition, committed = self.source.randrange(PARTITIONS), self.source.random() < 0.4
        named: dict[str, dict[str, Plain]] = {}
        for side in self.sides:
            told = side.ask("InitProducerId", 3, {"transactional_id": self.name, "transaction_timeout_ms": 60_000})
            named[side.name] = {"producer_id": told["producer_id"], "producer_epoch": told["producer_epoch"]}
            asked = {"transactional_id": self.name, "topics": [{"name": self.name, "partitions": [partition]}]}
            body = {f"v3_and_below_{name}": value for name, value in (asked | named[side.name]).items()}
            assert not any(codes_of(side.ask("AddPartitionsToTxn", 3, body)))
        first = len(self.records[partition])
        count = self.source.randint(1, self.kind.batch_records_max)
        transactional = {"base_sequence": 0, "is_transactional": True}
        self._append(partition, count, {name: each | transactional for name, each in named.items()})
        self.trace.append(f"transaction of {count} in {partition}, {'committed' if committed else 'aborted'}")
        if not committed:
            self.aborted[partition].update(range(first, first + count))
            for record in self.records[partition][first:]:
                record.is_settled = True
        for side in self.sides:
            ending = {"transactional_id": self.name, "committed": committed} | named[side.name]
            assert not any(codes_of(side.ask("EndTxn", 3, ending)))
        self.records[partition].append(Record())
        end = len(self.records[partition])
        self._until("the marker is written", lambda: all(self._stable(side, partition) == end for side in self.sides))
        # Kafka gives a marker to the second fetch after it has been written.
        self._take_all(self.source.choice(self.members))

    def _stable(self, side: Side, partition: int) -> int:
        wanted = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
        topics = [{"name": self.name, "partitions": [wanted]}]
        answer = side.ask("ListOffsets", 6, {"replica_id": -1, "isolation_level": 1, "topics": topics})
        return int(answer["topics"][0]["partitions"][0]["offset"])

    def _delete_records(self, _: Member) -> None:
        """Below or within what is in flight, or beyond it. What is held stays held. Of a batch that the log begins
        within, Kafka delivers the deleted records as well."""
        partition = self.source.randrange(PARTITIONS)
        offset = self.source.choice([*self.batch_starts[partition], len(self.records[partition])])
        if offset <= self.log_starts[partition]:
            return
        self.trace.append(f"delete records of {partition} below {offset}")
        partitions = [{"partition_index": partition, "offset": offset}]
        topics = [{"name": self.name, "partitions": partitions}]
        self._tell("DeleteRecords", 2, {"topics": topics, "timeout_ms": 10_000})
        self.log_starts[partition] = offset
        for record in self.records[partition][:offset]:
            record.is_settled = record.is_settled or record.holder is None
        self._take_all(self.source.choice(self.members))

    # Members.

    def _beat(self, member: Member) -> None:
        """A heartbeat in a wrong epoch, or of somebody unknown."""
        shift = self.source.choice((1, 5, -2))
        if member.is_member:
            told = {
                side.name: self._heartbeat(member, side, member.beats[side.name] + shift)["error_code"]
                for side in self.sides
            }
        else:
            told = {side.name: self._heartbeat(member, side, 3)["error_code"] for side in self.sides}
        self._same(f"heartbeat of {member.name} in epoch {shift:+}", told)
        self._settle_group()

    def _join(self, member: Member) -> None:
        """Join, join again, or subscribe to something else."""
        also = self.source.choice(([], [], ["no-such-topic"]))
        told = {}
        for side in self.sides:
            answer = self._heartbeat(member, side, 0, subscribed_topic_names=[self.name, *also])
            member.beats[side.name] = answer["member_epoch"]
            told[side.name] = answer["error_code"]
        member.is_member = True
        self._same(f"{member.name} joins {also}", told)
        self._settle_group()

    def _leave(self, member: Member) -> None:
        told = {side.name: self._heartbeat(member, side, -1)["error_code"] for side in self.sides}
        member.is_member = False
        self._same(f"{member.name} leaves", told)
        self._settle_group()

    def _heartbeat(self, member: Member, side: Side, epoch: int, **more: Plain) -> Plain:
        body = {"group_id": self.name, "member_id": member.name, "member_epoch": epoch, **more}
        return member.links[side.name].ask("ShareGroupHeartbeat", 1, body)

    def _settle_group(self) -> None:
        """Heartbeats until each member has what is its own; then both sides describe the same group."""
        described = {
            side.name: self._until(f"{side.name} assigns", lambda s=side: self._settled(s)) for side in self.sides
        }
        self._same("described", described)

    def _settled(self, side: Side) -> Plain:
        """The group as it is described once it has settled, else nothing."""
        for member in self.members:
            if member.is_member:
                answer = self._heartbeat(member, side, member.beats[side.name])
                assert answer["error_code"] == ErrorCode.NONE, (side.name, member.name, answer)
                member.beats[side.name] = answer["member_epoch"]
        group = self._described(side)
        members = group["members"]
        epochs = {group["group_epoch"], *(each["member_epoch"] for each in members)}
        if members and (not all(each["has_partitions"] for each in members) or epochs != {group["assignment_epoch"]}):
            return None
        return group

    def _described(self, side: Side) -> Plain:
        body = {"group_ids": [self.name], "include_authorized_operations": False}
        (group,) = side.ask("ShareGroupDescribe", 1, body)["groups"]
        if side.name == "ours":
            group["group_epoch"] -= self.altered
            group["assignment_epoch"] -= self.altered
        for each in group["members"]:
            if side.name == "ours":
                each["member_epoch"] -= self.altered
            each.pop("client_host")
            each["subscribed_topic_names"].sort()
            each["has_partitions"] = bool(each.pop("assignment")["topic_partitions"])
        group["members"].sort(key=lambda each: str(each["member_id"]))
        return group

    def _describe(self, _: Member) -> None:
        self._same("described", {side.name: self._described(side) for side in self.sides})

    # Offsets.

    def _offsets(self, _: Member) -> None:
        """The lag is the same. Kafka stores a start offset that has moved with the next change."""
        told: dict[str, list[Offset]] = {}

        def are_alike() -> bool:
            """What was released at the end of a session, and has been delivered often enough, is counted later."""
            told.update({side.name: self._offsets_of(side) for side in self.sides})
            return [each.lag for each in told["ours"]] == [each.lag for each in told["kafka"]]

        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while not are_alike() and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
        for ours, kafka in zip(told["ours"], told["kafka"], strict=True):
            if ours.lag < kafka.lag and ours.lag == len(self._unsettled(ours.index)):
                kafka_lag = (
                    f"{self.name}: Kafka counts {kafka.lag} records of {ours.index}, of which {ours.lag} are left"
                )
                raise KafkaErred(kafka_lag)
        self._same("offsets", {name: [(each.index, each.error, each.lag) for each in told[name]] for name in told})
        for ours, kafka in zip(told["ours"], told["kafka"], strict=True):
            assert kafka.start <= ours.start, f"{self.name}: {kafka} before {ours}\n{self._story()}"

    def _offsets_of(self, side: Side) -> Plain:
        topics = [{"topic_name": self.name, "partitions": list(range(PARTITIONS))}]
        body = {"groups": [{"group_id": self.name, "topics": topics}]}
        (group,) = side.ask("DescribeShareGroupOffsets", 1, body)["groups"]
        return [
            Offset(each["partition_index"], each["error_code"], each["start_offset"], each["lag"])
            for topic in group["topics"]
            for each in topic["partitions"]
        ]

    def _unsettled(self, partition: int) -> list[int]:
        return [offset for offset, record in enumerate(self.records[partition]) if not record.is_settled]

    def _alter(self, member: Member) -> None:
        """With members it is refused. Without any, all that was delivered is forgotten."""
        if self.source.random() < 0.3:
            self._same("alter with members", self._alter_to(0, 0, only_refused=True))
            return
        self._empty_group()
        partition = self.source.randrange(PARTITIONS)
        offset = self.source.randint(0, len(self.records[partition]))
        told = self._alter_to(partition, offset)
        self._same(f"alter {partition} to {offset}", told)
        self.altered += 1
        self._begin_at(partition, offset)
        self._join(member)

    def _alter_to(self, partition: int, offset: int, *, only_refused: bool = False) -> dict[str, Plain]:
        if only_refused and not any(each.is_member for each in self.members):
            return {side.name: 0 for side in self.sides}
        topics = [{"topic_name": self.name, "partitions": [{"partition_index": partition, "start_offset": offset}]}]
        body = {"group_id": self.name, "topics": topics}
        return {side.name: codes_of(side.ask("AlterShareGroupOffsets", 0, body)) for side in self.sides}

    def _forget(self, member: Member) -> None:
        """The offsets are deleted: the group begins anew."""
        self._empty_group()
        body = {"group_id": self.name, "topics": [{"topic_name": self.name}]}
        self._same(
            "delete offsets", {side.name: codes_of(side.ask("DeleteShareGroupOffsets", 0, body)) for side in self.sides}
        )
        for partition in range(PARTITIONS):
            self._begin_at(partition, 0)
        self._join(member)

    def _begin_at(self, partition: int, offset: int) -> None:
        begin = max(offset, self.log_starts[partition])
        for at, record in enumerate(self.records[partition]):
            record.deliveries, record.holder = 0, None
            record.is_settled = at < begin or at in self.aborted[partition]

    def _empty_group(self) -> None:
        """Nobody has a session or a connection, so that neither side keeps what it had loaded."""
        for member in self.members:
            self._end_session(member)
            if member.is_member:
                self._leave(member)
        for side in self.sides:
            for member in self.members:
                member.links[side.name].reconnect()
            for _ in range(3):  # The one network thread has seen the closed connections once it has answered twice.
                self._described(side)
        time.sleep(PAUSE_SECONDS * 5)

    # Sessions.

    def _fetch(self, member: Member) -> None:
        if not member.has_session:
            self._begin(member)
            return
        added: list[int] = []
        forgotten: list[int] = []
        if self.source.random() < 0.15:
            loaded = sorted(set().union(*(each.places for each in self.members)))
            partition = self.source.choice(loaded or [0])
            if partition not in {at for at, _ in self._held(member)}:
                (forgotten if partition in member.places else added).append(partition)
                member.places ^= {partition}
        self._fetch_some(member, added, forgotten)

    def _begin(self, member: Member) -> None:
        """A session begins, or begins anew. What the member held before stays its own."""
        loaded = set().union(*(each.places for each in self.members))
        places = self.source.choice(((0,), (1,), (0, 1)))
        self.trace.append(f"{member.name} begins a session with {places}")
        member.places, member.has_session = set(places), True
        for side in self.sides:
            member.epochs[side.name] = 0
        if set(places) - loaded:  # Both load what the group had, and may answer before they have.
            self._take_all(member, places)
        else:
            self._fetch_some(member, places, ())

    def _fetch_some(
        self, member: Member, added: Iterable[int], forgotten: Iterable[int], acknowledged: Plain = None
    ) -> None:
        """Records of all partitions of the session, or some of one: which one comes first is each side's choice."""
        records_max, bytes_max = EVERYTHING, FETCH_BYTES
        if len(member.places) == 1:
            records_max, bytes_max = (
                self.source.choice((1, 2, 3, 5, 8, EVERYTHING)),
                self.source.choice((150, FETCH_BYTES)),
            )
        body = {
            "max_records": records_max,
            "max_bytes": bytes_max,
            "batch_size": 1 if records_max < EVERYTHING else self.source.choice((1, 5, EVERYTHING)),
            "topics": self._topics(added, acknowledged or {}),
            "forgotten_topics_data": list(forgotten),
        }
        if not self.kind.is_strict:
            body["batch_size"] = 1
        available = self._available(member.places)
        told = {}
        for side in self.sides:
            enough = (
                len(available) if records_max == EVERYTHING and bytes_max == FETCH_BYTES else min(1, len(available))
            )
            told[side.name] = self._fetched_until(member, side, body, enough)
        self._same(
            f"{member.name} fetches {records_max} records, {bytes_max} bytes, of {sorted(member.places)}, "
            f"added {list(added)}, forgotten {list(forgotten)}, acknowledged {acknowledged}",
            told,
        )
        for (partition, offset), deliveries in told["ours"][2].items():
            self._hold(member, partition, {offset: deliveries})

    def _available(self, places: Iterable[int]) -> dict[tuple[int, int], int]:
        """What may be acquired, and how often it will have been delivered then."""
        return {
            (partition, offset): record.deliveries + 1
            for partition in sorted(places)
            for offset, record in enumerate(self.records[partition])
            if not record.is_settled and record.holder is None
        }

    def _fetched_until(self, member: Member, side: Side, body: dict[str, Plain], enough: int) -> Plain:
        """The error of a ShareFetch, those of its acknowledgements, and what was acquired. It is sent again until there
        is enough: a side may answer although another request has not left a partition yet."""
        taken: dict[tuple[int, int], int] = {}
        error, parts = self._fetched(member, side, body)
        refused = {partition: refused for partition, (_, refused, _) in parts.items() if refused != "NONE"}
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while True:
            for partition, (failed, _, acquired) in parts.items():
                assert failed == "NONE", f"{side.name}: {failed}\n{self._story()}"
                for offset, deliveries in acquired.items():
                    taken[partition, offset] = deliveries
            if error != "NONE" or len(taken) >= enough or time.monotonic() > deadline:
                return error, refused, taken
            body = {**body, "topics": [], "forgotten_topics_data": []}
            error, parts = self._fetched(member, side, body)

    def _topics(self, places: Iterable[int], acknowledged: dict[int, Plain]) -> list[dict[str, Plain]]:
        """Partitions of the topic with acknowledgements. The topic's id is each side's own."""
        indexes = sorted({*places, *acknowledged})
        partitions = [
            {"partition_index": index, "acknowledgement_batches": acknowledged.get(index, [])} for index in indexes
        ]
        return [{"topic_id": b"", "partitions": partitions}] if partitions else []

    def _fetched(self, member: Member, side: Side, body: dict[str, Plain]) -> Plain:
        """The error of a ShareFetch, and by partition its errors and how often each acquired record was delivered."""
        body = dict(body)
        body["topics"] = [{**each, "topic_id": self.topic_ids[side.name]} for each in body["topics"]]
        gone = body["forgotten_topics_data"]
        body["forgotten_topics_data"] = [{"topic_id": self.topic_ids[side.name], "partitions": gone}] if gone else []
        epoch = member.epochs[side.name]
        is_strict = self.kind.is_strict
        request = {
            "group_id": self.name,
            "member_id": member.name,
            "share_session_epoch": epoch,
            "max_wait_ms": WAIT_MS,
            "min_bytes": 1,
            "share_acquire_mode": STRICT if is_strict else 0,
            **body,
        }
        answer = self._once(member, side, "ShareFetch", request)
        if answer["error_code"] == ErrorCode.NONE:
            member.epochs[side.name] = epoch + 1 if epoch >= 0 else 0
        return name_of(answer["error_code"]), self._partitions_of(answer)

    def _partitions_of(self, answer: Plain) -> dict[int, Plain]:
        found = {}
        for topic in answer["responses"]:
            for part in topic["partitions"]:
                acquired = {
                    offset: each["delivery_count"]
                    for each in part["acquired_records"]
                    for offset in range(each["first_offset"], each["last_offset"] + 1)
                }
                codes = part["error_code"], part["acknowledge_error_code"]
                if acquired or any(codes):
                    found[part["partition_index"]] = (*map(name_of, codes), acquired)
        return found

    def _once(self, member: Member, side: Side, api: str, body: dict[str, Plain]) -> Plain:
        """The answer to a request of a session, which is not sent again: its epoch is used up."""
        connection = member.links[side.name].connection
        connection.send(api, 2, body)
        answer = connection.receive(api, 2)
        assert not isinstance(answer, str), f"{side.name}: {api}: {answer} after {self._story()}"
        return answer

    def _hold(self, member: Member, partition: int, acquired: dict[int, int]) -> None:
        for offset, deliveries in acquired.items():
            record = self.records[partition][offset]
            found = record.is_settled, record.holder, record.deliveries + 1
            assert found == (False, None, deliveries), f"{partition}:{offset} is {found}\n{self._story()}"
            record.holder, record.deliveries = member.name, deliveries

    def _take_all(self, member: Member, places: Sequence[int] = (0, 1)) -> None:
        """The member takes all that is available, which must be what the group has not settled and nobody holds."""
        places = sorted({*places, *member.places})
        expected = self._available(places)
        self.trace.append(f"{member.name} takes all of {places}: {sorted(expected)}")
        body = {
            "max_records": EVERYTHING,
            "max_bytes": FETCH_BYTES,
            "batch_size": 1,
            "topics": self._topics(places, {}),
            "forgotten_topics_data": [],
        }
        told = {side.name: self._fetched_until(member, side, body, len(expected)) for side in self.sides}
        withheld = expected.items() - told["kafka"][2].items()
        if told["ours"] == ("NONE", {}, expected) and withheld and not told["kafka"][2].items() - expected.items():
            raise KafkaErred(f"{self.name}: Kafka delivers nobody {sorted(withheld)}\n{self._story()}")
        self._same("taken", told)
        assert told["ours"] == ("NONE", {}, expected), f"{told['ours']} and not {expected} after {self._story()}"
        member.places, member.has_session = set(places), True
        for (partition, offset), deliveries in expected.items():
            self._hold(member, partition, {offset: deliveries})

    def _acknowledge(self, member: Member) -> None:
        """Some of what the member holds, in one request or with a fetch."""
        holders = [each for each in self.members if each.has_session and self._held(each)]
        if not holders:
            self._fetch(member)
            return
        member = self.source.choice(holders)
        renews = self.source.random() < 0.15
        with_fetch = not renews and self.source.random() < 0.3
        types = (ACCEPT, ACCEPT, REJECT, GAP) if with_fetch else (ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, GAP)
        if renews:
            types = (ACCEPT, RELEASE, RENEW, RENEW)
        settled: dict[int, dict[int, int]] = {}
        for partition, offset in self._held(member):
            if self.source.random() < 0.6:
                settled.setdefault(partition, {})[offset] = 0
        batches = {partition: self._batches(each, types) for partition, each in settled.items()}
        if with_fetch:
            self._fetch_some(member, (), (), batches)
        else:
            told = {side.name: self._acknowledged(member, side, batches, renews=renews) for side in self.sides}
            self._same(f"{member.name} acknowledges {batches} {'renewing' if renews else ''}", told)
        for partition, each in settled.items():
            for offset, kind in each.items():
                self._settle(partition, offset, kind)

    def _batches(self, settled: dict[int, int], types: Sequence[int]) -> list[dict[str, Plain]]:
        """Acknowledgements of the offsets, whose types are put in: one for each range of offsets, or one for each
        offset."""
        ranges: list[list[int]] = []
        for offset in sorted(settled):
            if ranges and ranges[-1][-1] == offset - 1 and self.source.random() < 0.9:
                ranges[-1].append(offset)
            else:
                ranges.append([offset])
        made = []
        for each in ranges:
            chosen = (
                [self.source.choice(types) for _ in each] if self.source.random() < 0.4 else [self.source.choice(types)]
            )
            for index, offset in enumerate(each):
                settled[offset] = chosen[index if len(chosen) > 1 else 0]
            made.append({"first_offset": each[0], "last_offset": each[-1], "acknowledge_types": chosen})
        return made

    def _held(self, member: Member) -> list[tuple[int, int]]:
        return [
            (partition, offset)
            for partition, records in enumerate(self.records)
            for offset, record in enumerate(records)
            if record.holder == member.name
        ]

    def _settle(self, partition: int, offset: int, kind: int) -> None:
        record = self.records[partition][offset]
        if kind == RENEW:
            return
        record.holder = None
        record.is_settled = (
            kind != RELEASE or record.deliveries >= self.kind.deliveries_max or offset < self.log_starts[partition]
        )

    def _acknowledged(
        self,
        member: Member,
        side: Side,
        acknowledged: dict[int, Plain],
        *,
        shift: int = 0,
        renews: bool = False,
        topic_id: bytes | None = None,
        epoch: int | None = None,
    ) -> Plain:
        """The errors of a ShareAcknowledge, and the time that locks last. `shift` is added to the session's epoch."""
        epoch = member.epochs[side.name] + shift if epoch is None else epoch
        topics = [
            {**each, "topic_id": topic_id or self.topic_ids[side.name]} for each in self._topics((), acknowledged)
        ]
        body = {
            "group_id": self.name,
            "member_id": member.name,
            "share_session_epoch": epoch,
            "is_renew_ack": renews,
            "topics": topics,
        }
        answer = self._once(member, side, "ShareAcknowledge", body)
        if answer["error_code"] == ErrorCode.NONE:
            member.epochs[side.name] = epoch + 1 if epoch >= 0 else 0
        parts = {
            part["partition_index"]: name_of(part["error_code"])
            for topic in answer["responses"]
            for part in topic["partitions"]
        }
        return name_of(answer["error_code"]), parts, answer["acquisition_lock_timeout_ms"]

    def _wrong(self, member: Member) -> None:
        """An acknowledgement that changes nothing: of records that the member does not hold, malformed, or in a wrong
        epoch."""
        partition = self.source.choice(sorted(member.places) or [0])
        end = len(self.records[partition])
        foreign = [
            offset
            for offset, each in enumerate(self.records[partition])
            if each.deliveries and each.holder != member.name
        ]
        own = [offset for at, offset in self._held(member) if at == partition]
        first = self.source.choice(foreign or [0])
        mine = self.source.choice(own or [0])

        def of(first: int, last: int, *types: int) -> dict[str, Plain]:
            return {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}

        cases: dict[str, tuple[list[dict[str, Plain]], dict[str, Plain]]] = {
            "not held": ([of(first, first, self.source.choice((ACCEPT, RELEASE, REJECT, GAP)))], {}),
            "twice": ([of(mine, mine + 1, ACCEPT), of(mine, mine, RELEASE)], {}),
            "too few types": ([of(mine, mine + 2, ACCEPT, RELEASE)], {}),
            "no type": ([of(mine, mine)], {}),
            "unknown type": ([of(mine, mine, 9)], {}),
            "turned round": ([of(mine + 1, mine, ACCEPT)], {}),
            "negative": ([of(-2, -1, ACCEPT)], {}),
            "renews in secret": ([of(mine, mine, RENEW)], {}),
            "renews what is not held": ([of(first, first, RENEW)], {"renews": True}),
            "too early": ([of(mine, mine, ACCEPT)], {"shift": 1}),
            "too late": ([of(mine, mine, ACCEPT)], {"shift": -1}),
            "begins": ([of(mine, mine, ACCEPT)], {"epoch": 0}),
            "another topic": ([of(mine, mine, ACCEPT)], {"topic_id": bytes(range(16))}),
        }
        if own:  # Else Kafka, which has nothing in flight, fails in several ways.
            cases |= {
                "held and not held": ([of(mine, mine, ACCEPT), of(end, end, ACCEPT)], {}),
                "beyond the end": ([of(end + 5, end + 6, ACCEPT)], {}),
                "across the end": ([of(mine, end + 3, ACCEPT)], {}),
            }
        if not foreign:
            del cases["not held"], cases["renews what is not held"]
        name = self.source.choice(list(cases))
        wrong, options = cases[name]
        told = {side.name: self._acknowledged(member, side, {partition: wrong}, **options)[:2] for side in self.sides}
        self._same(f"{member.name} acknowledges {name}: {partition} {wrong}", told)

    def _end_session(self, member: Member) -> None:
        """A session ends, perhaps with acknowledgements. What the member still holds is released."""
        if not member.has_session:
            return
        for side in self.sides:
            member.epochs[side.name] = -1
        with_fetch = self.source.random() < 0.5
        if with_fetch:
            body = {"max_records": 0, "max_bytes": 0, "batch_size": 0, "topics": [], "forgotten_topics_data": []}
            told = {side.name: self._fetched(member, side, body) for side in self.sides}
        else:
            told = {side.name: self._acknowledged(member, side, {}) for side in self.sides}
        self._same(f"{member.name} ends its session", told)
        self._release(member)

    def _release(self, member: Member) -> None:
        """The member has no session any more, and what it held is delivered to another one."""
        places = sorted({partition for partition, _ in self._held(member) if partition in member.places})
        for partition, offset in self._held(member):
            if partition in member.places:
                self._settle(partition, offset, RELEASE)
        member.has_session, member.places = False, set()
        others = [each for each in self.members if each.has_session]
        if places and others:
            self._take_all(self.source.choice(others), places)

    def _drop(self, member: Member) -> None:
        """The member's connection closes."""
        if not member.has_session:
            return
        self.trace.append(f"{member.name} closes its connection")
        for side in self.sides:
            member.links[side.name].reconnect()
            self._until(
                "the session is gone",
                lambda side=side: self._acknowledged(member, side, {}, epoch=7777)[0] == "SHARE_SESSION_NOT_FOUND",
            )
            member.epochs[side.name] = 0
        self._release(member)

    def _expire(self, member: Member) -> None:
        """Locks are made short and renewed, and are not renewed again."""
        if not member.has_session or not self._held(member):
            return
        held = self._held(member)
        self._lock_ms(member, SHORT_LOCK_MS)
        renewed = {
            partition: [
                {"first_offset": offset, "last_offset": offset, "acknowledge_types": [RENEW]}
                for at, offset in held
                if at == partition
            ]
            for partition in sorted({partition for partition, _ in held})
        }
        told = {side.name: self._acknowledged(member, side, renewed, renews=True) for side in self.sides}
        self._same(f"{member.name} renews {held} for a moment", told)
        self._lock_ms(member, LONG_LOCK_MS)
        for partition, offset in held:
            self._settle(partition, offset, RELEASE)
        self._take_all(self.source.choice(self.members))

    def _lock_ms(self, member: Member, lock_ms: int) -> None:
        self._configure(share_record_lock_duration_ms=str(lock_ms))
        for side in self.sides:
            self._until(
                f"locks of {side.name} last {lock_ms} ms",
                lambda side=side: self._acknowledged(member, side, {})[2] == lock_ms,
            )

    # Asking.

    def _configure(self, **values: str) -> None:
        """Configurations of the group by Kafka's names, with underscores for dots."""
        configs = [
            {"name": name.replace("_", "."), "config_operation": 0, "value": value} for name, value in values.items()
        ]
        resources = [{"resource_type": GROUP_RESOURCE, "resource_name": self.name, "configs": configs}]
        self._tell("IncrementalAlterConfigs", 1, {"resources": resources})

    def _tell(self, api: str, version: int, body: dict[str, Plain]) -> None:
        for side in self.sides:
            answer = side.ask(api, version, body)
            assert not any(codes_of(answer)), (side.name, api, answer)

    def _same(self, label: str, told: dict[str, Plain]) -> None:
        ours, kafka = told["ours"], told["kafka"]
        self.trace.append(f"{label}: {ours}" if ours == kafka and label != "described" else label)
        assert ours == kafka, (
            f"{self.name} ({self.kind.name}), {label}:\n  ours {ours}\n kafka {kafka}\n{self._story()}"
        )
        self.compared += 1

    def _story(self) -> str:
        return "\n".join(f"    {number}. {each}" for number, each in enumerate(self.trace))

    def _until(self, what: str, asked: Any) -> Plain:
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while not (found := asked()):
            assert time.monotonic() < deadline, f"{self.name}: not in time: {what}\n{self._story()}"
            time.sleep(PAUSE_SECONDS)
        return found
