"""Random lives of transactional ids, told to Apache Kafka and to a node of ours alike over the wire: every answer must
be the same, field by field, and so must be what readers see in the end.

Producer ids are given out, so each side's are renamed by the order in which they are learned. Offsets are compared as
the batches that lie there: Kafka writes a marker as often as it is sent. A step is asked again where a side answers
that it is not ready, as a client would do. What comes while markers are on their way (`early`) are requests to the
coordinator alone: a partition answers otherwise before its marker and after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any, Final

from kraft.protocol.error_codes import ErrorCode
from tests.vectors.plain import Batch
from tests.vectors.wire import Connection

Plain = Any
Build = Callable[["Side"], dict[str, Plain]]
"""Makes a request for one side, whose producer ids it names."""

READY_SECONDS: Final = 15.0
READ_SECONDS: Final = 2.0
NOT_READY: Final = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)
LEFT_OUT: Final = frozenset(
    {
        "throttle_time_ms",
        "error_message",
        "transaction_start_time_ms",
        "base_offset",
        "log_append_time_ms",
        "log_start_offset",
        "node_endpoints",
        "last_timestamp",
        "coordinator_epoch",
        "current_txn_start_offset",
    }
)
PARTITIONS: Final = 2
EARLY_RATE: Final = 0.25
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
OF_LEVEL_2: Final = {"Produce": 12, "TxnOffsetCommit": 5, "EndTxn": 5}
"""From which version on a request is one of clients that know of level 2. No client mixes them with older ones, and
none sends them at a lower level. (Kafka answers UNSUPPORTED_VERSION to some of that, and ours serves it.)"""
OF_THE_COORDINATOR: Final = frozenset({"init", "end", "add", "add_offsets"})


class Side:
    """One of the two that are asked, and its producer ids by the names that both share."""

    def __init__(self, name: str, address: tuple[str, int]) -> None:
        self.name = name
        self.address = address
        self.names: dict[int, str] = {}
        self.ids: dict[str, int] = {"": -1, "nobody": 4_000_001}
        self.connection = Connection(address)

    def close(self) -> None:
        self.connection.close()

    def reconnect(self) -> None:
        self.connection.close()
        self.connection = Connection(self.address)

    def ask(self, api: str, version: int, body: dict[str, Plain]) -> Plain:
        """The answer, once it is ready to give one."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            self.connection.send(api, version, body)
            answer = self.connection.receive(api, version)
            assert not isinstance(answer, str), f"{self.name}: {api} v{version}: {answer}"
            if not set(codes_of(answer)).intersection(NOT_READY) or time.monotonic() > deadline:
                return answer
            time.sleep(0.02)

    def plain(self, value: Plain) -> Plain:
        """Without what each side has of its own."""
        if isinstance(value, dict):
            return {name: self._field(name, each) for name, each in value.items() if name not in LEFT_OUT}
        if isinstance(value, list):
            return sorted((self.plain(each) for each in value), key=repr)
        return value

    def _field(self, name: str, value: Plain) -> Plain:
        return self.names.get(value, value) if name == "producer_id" else self.plain(value)


def codes_of(answer: Plain) -> list[int]:
    if isinstance(answer, dict):
        own = [code for name, code in answer.items() if name.endswith("error_code")]
        return own + [code for value in answer.values() for code in codes_of(value)]
    return [code for value in answer for code in codes_of(value)] if isinstance(answer, list) else []


class Identity:
    """A producer as a client knows it: `producer` is the shared name of its id."""

    def __init__(self, producer: str = "", epoch: int = -1) -> None:
        self.producer = producer
        self.epoch = epoch
        self.sequences: dict[int, int] = {}


class Life:
    """One transactional id's life. `run` raises AssertionError at the first answer that differs, with what led to
    it."""

    def __init__(self, seed: int, sides: tuple[Side, Side]) -> None:
        self.source = Random(seed)
        self.sides = sides
        self.name = f"life-{seed}"
        self.identities = [Identity()]
        """The newest last. What the older ones ask comes late, or from a producer that was replaced."""
        self.level = 0
        self.is_new = False
        self.is_settled = True
        self.again: tuple[str, str, int, Build] | None = None
        self.trace: list[str] = []
        self.compared = 0

    def make_topic(self) -> None:
        """Without retention: timestamps are old, and each side deletes such segments at its own time."""
        configs = [{"name": "retention.ms", "value": "-1"}]
        topics = [{"name": self.name, "num_partitions": PARTITIONS, "replication_factor": 1, "configs": configs}]
        for side in self.sides:
            answer = side.ask("CreateTopics", 5, {"topics": topics, "timeout_ms": 10_000})
            assert not any(codes_of(answer)), answer
            for key_type, key in ((0, self.name), (1, self.name)):
                side.ask("FindCoordinator", 4, {"key_type": key_type, "coordinator_keys": [key]})

    def run(self, steps: int, level: int) -> None:
        """Some steps at this level of the feature, of a client that knows of level 2 or not."""
        self.level = level
        self.is_new = level == 2 and self.source.random() < 0.6
        names = {
            "init": 8,
            "add": 14,
            "add_offsets": 6,
            "commit_offsets": 8,
            "produce": 20,
            "end": 22,
            "repeat": 8,
            "describe": 6,
            "producers": 3,
            "offsets": 4,
            "read": 3,
        }
        for _ in range(steps):
            (name,) = self.source.choices(list(names), list(names.values()))
            if not self.is_settled and name not in OF_THE_COORDINATOR and name != "repeat":
                self._settle()
            getattr(self, f"_{name}")()
            if self.source.random() >= EARLY_RATE:
                self._settle()
        self._settle()
        for name in ("describe", "producers", "offsets", "read"):
            getattr(self, f"_{name}")()

    # Steps

    def _identity(self) -> Identity:
        return self.identities[-1] if self.source.random() < 0.85 else self.source.choice(self.identities)

    def _producer(self, identity: Identity) -> Callable[[Side], dict[str, Plain]]:
        producer, epoch = identity.producer, identity.epoch
        if self.source.random() < 0.04:
            producer, epoch = self.source.choice((("nobody", epoch), (producer, epoch + 1), (producer, -1)))
        return lambda side: {"producer_id": side.ids[producer], "producer_epoch": epoch}

    def _init(self) -> None:
        version = self.source.randrange(6)
        claimed = self._identity() if version >= 3 and self.source.random() < 0.5 else Identity()
        producer = self._producer(claimed) if claimed.producer else lambda side: {}
        timeout_ms = self.source.choice((60_000, 60_000, 60_000, 120_000, 0, 900_001))
        body = {"transactional_id": self.name, "transaction_timeout_ms": timeout_ms}
        self._ask("init", "InitProducerId", version, lambda side: body | producer(side))

    def _add(self) -> None:
        producer = self._producer(self._identity())
        indexes = self.source.choice(([0], [1], [0, 1], [0, 7]))
        version = self.source.randrange(4)
        topics = [{"name": self.name, "partitions": indexes}]

        def build(side: Side) -> dict[str, Plain]:
            named = {"transactional_id": self.name, "topics": topics, **producer(side)}
            return {f"v3_and_below_{name}": value for name, value in named.items()}

        self._ask("add", "AddPartitionsToTxn", version, build)

    def _add_offsets(self) -> None:
        producer = self._producer(self._identity())
        named = {"transactional_id": self.name, "group_id": self.name}
        version = self.source.randrange(5)
        self._ask("add_offsets", "AddOffsetsToTxn", version, lambda side: named | producer(side))

    def _commit_offsets(self) -> None:
        version = 5 if self.is_new else self.source.randrange(5)
        producer = self._producer(self._identity())
        offset = {
            "partition_index": self.source.randrange(PARTITIONS),
            "committed_offset": self.source.randrange(1000),
            "committed_metadata": "m",
        }
        body = {
            "transactional_id": self.name,
            "group_id": self.name,
            "topics": [{"name": self.name, "partitions": [offset]}],
        }
        if version >= 3 and self.source.random() < 0.1:
            body |= {"member_id": "nobody", "generation_id_or_member_epoch": 3}
        self._ask("commit_offsets", "TxnOffsetCommit", version, lambda side: body | producer(side))

    def _produce(self) -> None:
        version = 12 if self.is_new else self.source.choice((9, 11))
        identity, index = self._identity(), self.source.randrange(PARTITIONS)
        producer = self._producer(identity)
        sequence = identity.sequences.get(index, 0) + self.source.choice((0,) * 12 + (1, -1))
        count = self.source.randrange(1, 4)
        # Of now: the marker comes by the clock, and a log is cut where times are a week apart.
        now_ms = int(time.time() * 1000)
        values = [f"{self.name}:{self.compared}:{number}".encode() for number in range(count)]

        def build(side: Side) -> dict[str, Plain]:
            batch = Batch(
                *values, timestamp=now_ms, base_sequence=max(0, sequence), is_transactional=True, **producer(side)
            ).build()
            data = [{"name": self.name, "partition_data": [{"index": index, "records": batch}]}]
            return {"transactional_id": self.name, "acks": -1, "timeout_ms": 5000, "topic_data": data}

        answer = self._ask(f"produce {index} from {sequence}", "Produce", version, build)
        if not any(codes_of(answer)):
            identity.sequences[index] = max(identity.sequences.get(index, 0), max(0, sequence) + count)

    def _end(self) -> None:
        version = 5 if self.is_new else self.source.randrange(5)
        producer = self._producer(self._identity())
        body = {"transactional_id": self.name, "committed": self.source.random() < 0.6}
        self._ask(f"end {body['committed']}", "EndTxn", version, lambda side: body | producer(side))

    def _repeat(self) -> None:
        """The answer to the last request was lost."""
        if self.again is None:
            return
        label, api, version, build = self.again
        if api in ("Produce", "TxnOffsetCommit"):
            self._settle()
        if api in OF_LEVEL_2 and (version >= OF_LEVEL_2[api]) != self.is_new:
            return
        self._ask(f"again {label}", api, version, build)

    def _describe(self) -> None:
        self._settle()
        self._ask("describe", "DescribeTransactions", 0, lambda side: {"transactional_ids": [self.name]}, notes=False)

    def _producers(self) -> None:
        topics = [{"name": self.name, "partition_indexes": list(range(PARTITIONS))}]
        self._ask("producers", "DescribeProducers", 0, lambda side: {"topics": topics}, notes=False)

    def _offsets(self) -> None:
        groups = [{"group_id": self.name, "topics": None}]
        stable = self.source.random() < 0.2
        if stable:  # While a transaction is open both say so until they are asked no more.
            return
        self._ask("offsets", "OffsetFetch", 8, lambda side: {"groups": groups, "require_stable": stable}, notes=False)

    def _read(self) -> None:
        """What each partition holds, and what of it is aborted or not decided yet."""
        for index in range(PARTITIONS):
            deadline = time.monotonic() + READ_SECONDS
            while True:
                told = {side.name: self._content(side, index) for side in self.sides}
                if told["ours"] == told["kafka"] or time.monotonic() > deadline:
                    break
                time.sleep(0.05)
            self._compare(f"read {index}", told)

    def _content(self, side: Side, index: int) -> Plain:
        partition = {"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        body = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "isolation_level": 1,
            "session_epoch": -1,
            "topics": [{"topic": self.name, "partitions": [partition]}],
        }
        (answer,) = side.ask("Fetch", 11, body)["responses"][0]["partitions"]
        data = [each for each in answer["records"] or () if not each["attributes"] & CONTROL]
        aborted = sorted(
            (side.names[each["producer_id"]], sum(batch["base_offset"] < each["first_offset"] for batch in data))
            for each in answer["aborted_transactions"] or ()
        )
        batches = [
            (each["attributes"], each["base_sequence"], [record["value"] for record in each["records"]])
            for each in data
        ]
        return answer["error_code"], aborted, batches

    # Asking and comparing

    def _ask(self, label: str, api: str, version: int, build: Build, *, notes: bool = True) -> Plain:
        """The answer of ours, in shared names."""
        told = {side.name: side.ask(api, version, build(side)) for side in self.sides}
        self._learn(told)
        plain = {side.name: side.plain(told[side.name]) for side in self.sides}
        kind = " new" if self.is_new else ""
        self.trace.append(f"{label} v{version} level {self.level}{kind}: {codes_of(plain['ours'])}")
        self._compare(f"{label} v{version}", plain)
        answer = plain["ours"]
        if notes:
            self.again = label, api, version, build
            self.is_settled = False
        if answer.get("error_code") == 0 and answer.get("producer_id", -1) != -1:
            self._adopt(answer["producer_id"], answer["producer_epoch"])
        return answer

    def _learn(self, told: dict[str, Plain]) -> None:
        given = [told[side.name].get("producer_id", -1) for side in self.sides]
        if all(each >= 0 for each in given) and not any(
            each in side.names for each, side in zip(given, self.sides, strict=True)
        ):
            name = f"p{len(self.sides[0].names) + 1}"
            for each, side in zip(given, self.sides, strict=True):
                side.names[each], side.ids[name] = name, each

    def _adopt(self, producer: str, epoch: int) -> None:
        if (producer, epoch) != (self.identities[-1].producer, self.identities[-1].epoch):
            self.identities = [*self.identities[-3:], Identity(producer, epoch)]

    def _compare(self, label: str, told: dict[str, Plain]) -> None:
        ours, kafka = told["ours"], told["kafka"]
        if ours != kafka:
            steps = " | ".join(self.trace[-40:])
            raise AssertionError(f"{self.name}, {label}:\n  ours {ours}\n kafka {kafka}\n after {steps}")
        self.compared += 1

    def _settle(self) -> None:
        """Wait until markers are written on both sides."""
        deadline = time.monotonic() + READY_SECONDS
        for side in self.sides:
            while True:
                answer = side.ask("DescribeTransactions", 0, {"transactional_ids": [self.name]})
                if not answer["transaction_states"][0]["transaction_state"].startswith("Prepare"):
                    break
                assert time.monotonic() < deadline, f"{side.name} does not write markers of {self.name}"
                time.sleep(0.01)
        self.is_settled = True
