"""Stop, kill or power loss, the restarted node answers every read API as it did before.

A production node of a quorum of one lives in the simulated world. Clients write plain records and transactions at every
level, with offsets of groups, leave some transactions open, commit offsets, join classic groups and those of KIP-848,
delete records, offsets and groups. Then it ends, and the next life is asked the same: Metadata, ListOffsets, Fetch of
both isolation levels, OffsetForLeaderEpoch, DescribeProducers, OffsetFetch, the groups, the transactions, the quorum.

`python -m tests.properties.restarted_node --these SEED...` runs seeds, and says in a line of JSON what came of each.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kraft.common.errors import KraftError
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.records.record_batch import batches
from kraft.rpc_client.connection import ClientConnection
from kraft.world.simulated import Universe
from tests.properties.seeds import run_seeds
from tests.unit.coordinator.group_host import subscription
from tests.unit.server.brokers import batch
from tests.unit.server.nodes import NAME, configuration, running
from tests.vectors.plain import from_message, message_class, to_message

LIVES: Final = (2, 2, 2, 3)
STEPS: Final = 14
TOPICS: Final = ("t", "u")
PARTITIONS: Final = 2
OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
INTERNAL: Final = {OFFSETS_TOPIC: 2, TRANSACTIONS_TOPIC: 2}
GROUPS: Final = ("simple", "classic", "consumer")
LOG_STARTS_KEPT_SECONDS: Final = 0.5
"""What DeleteRecords has deleted may be back if the node dies before the next checkpoint of log starts, as in Kafka."""
ANSWER_SECONDS_MAX: Final = 60.0
THOUGHT_SECONDS: Final = 0.002
"""Between two requests of a client, so that its connection sleeps in between."""
PASSING: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)
LEFT_OUT: Final = {
    "leader_epoch",  # Of whom leads now: a start is an election.
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "throttle_time_ms",
    "session_id",
}
EARLIEST, LATEST, LARGEST_TIMESTAMP = -2, -1, -3
Place = tuple[str, int]
Plain = Any
"""Of a message: dicts, lists, numbers, text."""


class Transactor:
    """A transactional id as its client knows it. `is_new` clients have what they write add the partition, and each end
    raise their epoch."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.identity: dict[str, int] = {}
        self.sequences: dict[Place, int] = {}
        self.is_open = False
        self.is_new = False


class RestartedNode:
    """The node's clients. One at a time asks for something."""

    client: ClientConnection

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.lives = self.random.choice(LIVES)
        self.level = 2
        self.flushes = self.random.random() < 0.5
        self.transactors = [Transactor(f"tx{number}") for number in range(3)]
        self.member_ids: dict[str, str] = {}
        self.member_epoch = 0
        self.asked: list[str] = []

    def live(self) -> None:
        """All lives of the node. Raises AssertionError."""
        Universe(self.seed).run(self._live, seconds_max=3000.0)

    async def _live(self, universe: Universe) -> None:
        self.universe = universe
        sets = [
            f"transaction.state.log.num.partitions={INTERNAL[TRANSACTIONS_TOPIC]}",
            f"log.flush.offset.checkpoint.interval.ms={LOG_STARTS_KEPT_SECONDS * 1000:.0f}",
        ]
        if self.flushes:
            sets.append("log.flush.interval.messages=1")
        before: dict[str, Plain] = {}
        how = ""
        for life in range(self.lives):
            async with running(universe, configuration(*sets)) as run:
                self.client = run.client
                if not life:
                    await self._prepare()
                await self._settle()
                after = await self._answers()
                for question, answer in before.items():
                    assert after[question] == answer, (
                        f"{question}, life {life + 1} after {how}: {after[question]}, and {answer} before it"
                    )
                if life < self.lives - 1:
                    for _ in range(STEPS):
                        await self._step()
                    await self._settle()
                    before = await self._answers()
                how = self.random.choice(("stop", "kill", "power loss") if self.flushes else ("stop", "kill"))
                if how != "stop":
                    await universe.sleep(2 * LOG_STARTS_KEPT_SECONDS)
                if how == "stop":
                    await run.stop()
                elif how == "power loss":
                    universe.power_off(NAME)

    # Asking

    async def ask(self, api: str, version: int, /, **body: Plain) -> Plain:
        """The answer as plain values; where it refuses as one does that is not ready, ask again."""
        request = to_message(message_class(f"{api}Request"), body, version)
        deadline = self.universe.time.now + ANSWER_SECONDS_MAX
        while True:
            await self.universe.sleep(THOUGHT_SECONDS)
            answer = from_message(await self.client.call(request, version=version), version)
            codes = set(codes_of(answer))
            if not codes.intersection(PASSING):
                self.asked.append(f"{api} {','.join(name_of(code) for code in sorted(codes))}")
                return answer
            assert self.universe.time.now < deadline, f"{api} {body} is answered {answer} for ever"
            await self.universe.sleep(0.05)

    async def _prepare(self) -> None:
        topics = [{"name": name, "num_partitions": PARTITIONS, "replication_factor": 1} for name in TOPICS]
        created = await self.ask("CreateTopics", 7, topics=topics, timeout_ms=5000)
        assert not any(topic["error_code"] for topic in created["topics"]), created
        for key_type in (0, 1):
            await self.ask("FindCoordinator", 4, key_type=key_type, coordinator_keys=["any"])
        self.level = self.random.randrange(3)
        if self.level < 2:
            update = {"feature": "transaction.version", "max_version_level": self.level, "upgrade_type": 2}
            updated = await self.ask("UpdateFeatures", 1, timeout_ms=5000, feature_updates=[update])
            assert not updated["error_code"], updated

    # What clients do

    async def _step(self) -> None:
        actions: dict[Callable[[], Awaitable[None]], int] = {
            self._produce: 2,
            self._write_in_transaction: 5,
            self._commit_in_transaction: 3,
            self._end: 4,
            self._replace: 1,
            self._commit_offsets: 2,
            self._join_classic: 2,
            self._join_consumer: 3,
            self._leave: 1,
            self._delete_records: 1,
            self._delete_offsets: 1,
            self._delete_group: 1,
        }
        await self.random.choices(list(actions), list(actions.values()))[0]()

    def _place(self) -> Place:
        return self.random.choice(TOPICS), self.random.randrange(PARTITIONS)

    async def _send(self, place: Place, version: int, transactional_id: str | None = None, **fields: Plain) -> int:
        values = [b"%d" % self.random.randrange(1 << 30) for _ in range(self.random.randrange(1, 4))]
        records = batch(*values, timestamp_ms=self.client_ms(), **fields)
        answer = await self.ask(
            "Produce",
            version,
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=5000,
            topic_data=[{"name": place[0], "partition_data": [{"index": place[1], "records": records}]}],
        )
        code: int = answer["responses"][0]["partition_responses"][0]["error_code"]
        assert not code, answer
        return len(values)

    def client_ms(self) -> int:
        return self.universe.world_for("client").clock.wall_ms()

    async def _produce(self) -> None:
        await self._send(self._place(), 11)

    async def _begun(self) -> Transactor:
        """Some transactional id, whose producer is there."""
        transactor = self.random.choice(self.transactors)
        if not transactor.identity:
            await self._initialize(transactor)
        if not transactor.is_open:
            transactor.is_new = self.level == 2 and self.random.random() < 0.6
        return transactor

    async def _initialize(self, transactor: Transactor) -> None:
        answer = await self.ask(
            "InitProducerId", 4, transactional_id=transactor.transactional_id, transaction_timeout_ms=600_000
        )
        assert not answer["error_code"], answer
        self._adopt(transactor, answer)
        transactor.is_open = False

    def _adopt(self, transactor: Transactor, answer: Plain) -> None:
        identity = {name: answer[name] for name in ("producer_id", "producer_epoch")}
        if identity != transactor.identity:
            transactor.identity, transactor.sequences = identity, {}

    async def _write_in_transaction(self) -> None:
        transactor, place = await self._begun(), self._place()
        if not transactor.is_new:
            topics = [{"name": place[0], "partitions": [place[1]]}]
            producer = {f"v3_and_below_{name}": value for name, value in transactor.identity.items()}
            named = {"v3_and_below_transactional_id": transactor.transactional_id, "v3_and_below_topics": topics}
            added = await self.ask("AddPartitionsToTxn", 3, **producer, **named)
            assert not any(codes_of(added)), added
        transactor.is_open = True
        sequence = transactor.sequences.get(place, 0)
        count = await self._send(
            place,
            12 if transactor.is_new else 11,
            transactor.transactional_id,
            base_sequence=sequence,
            is_transactional=True,
            **transactor.identity,
        )
        transactor.sequences[place] = sequence + count

    async def _commit_in_transaction(self) -> None:
        transactor, group = await self._begun(), "simple"
        named = {"transactional_id": transactor.transactional_id, "group_id": group, **transactor.identity}
        if not transactor.is_new:
            added = await self.ask("AddOffsetsToTxn", 3, **named)
            assert not added["error_code"], added
        transactor.is_open = True
        answer = await self.ask("TxnOffsetCommit", 5 if transactor.is_new else 3, **named, topics=self._offsets())
        assert not any(codes_of(answer)), answer

    def _offsets(self) -> list[Plain]:
        topic, index = self._place()
        offset = {"partition_index": index, "committed_offset": self.random.randrange(1000), "committed_metadata": "m"}
        return [{"name": topic, "partitions": [offset]}]

    async def _end(self) -> None:
        transactor = next((each for each in self.transactors if each.is_open), None)
        if transactor is None:
            return
        answer = await self.ask(
            "EndTxn",
            5 if transactor.is_new else 4,
            transactional_id=transactor.transactional_id,
            committed=self.random.random() < 0.5,
            **transactor.identity,
        )
        assert not answer["error_code"], answer
        transactor.is_open = False
        if transactor.is_new:
            self._adopt(transactor, answer)

    async def _replace(self) -> None:
        """Another producer of the id: an open transaction is aborted."""
        await self._initialize(self.random.choice(self.transactors))

    async def _commit_offsets(self) -> None:
        """Of a group without members, or of the classic one by its member."""
        group, member = "simple", {}
        if "classic" in self.member_ids and self.random.random() < 0.5:
            group, member = "classic", {"member_id": self.member_ids["classic"]}
            member["generation_id_or_member_epoch"] = self.generation
        await self.ask("OffsetCommit", 9, group_id=group, topics=self._offsets(), **member)

    async def _join_classic(self) -> None:
        """The group's only member joins anew, and takes what it leads itself to."""
        body = {
            "group_id": "classic",
            "session_timeout_ms": 600_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription("t")}],
        }
        for _ in range(2):
            joined = await self.ask("JoinGroup", 9, **body, member_id=self.member_ids.get("classic", ""))
            self.member_ids["classic"] = joined["member_id"]
            if joined["error_code"] == ErrorCode.MEMBER_ID_REQUIRED:
                continue
            assert not joined["error_code"], joined
            break
        self.generation = joined["generation_id"]
        assignment = {"member_id": joined["member_id"], "assignment": b"%d" % self.random.randrange(1000)}
        named = {name: joined[name] for name in ("generation_id", "member_id", "protocol_type", "protocol_name")}
        synced = await self.ask("SyncGroup", 5, group_id="classic", assignments=[assignment], **named)
        assert not synced["error_code"], synced

    async def _join_consumer(self) -> None:
        """A member of KIP-848 joins, with other topics than before."""
        if "consumer" in self.member_ids:
            await self._heartbeat(-1)
        self.member_ids["consumer"] = f"member-{self.random.randrange(1000)}"
        topics = self.random.sample(TOPICS, self.random.randrange(1, 3))
        await self._heartbeat(0, subscribed_topic_names=topics, rebalance_timeout_ms=60_000, topic_partitions=[])

    async def _heartbeat(self, member_epoch: int, **body: Plain) -> None:
        member_id = self.member_ids["consumer"]
        answer = await self.ask(
            "ConsumerGroupHeartbeat", 1, group_id="consumer", member_id=member_id, member_epoch=member_epoch, **body
        )
        assert not answer["error_code"], answer

    async def _leave(self) -> None:
        group = self.random.choice(GROUPS[1:])
        member_id = self.member_ids.get(group)
        if member_id is None:
            return
        if group == "consumer":
            await self._heartbeat(-1)
        else:
            await self.ask("LeaveGroup", 5, group_id=group, members=[{"member_id": member_id}])
        del self.member_ids[group]

    async def _delete_records(self) -> None:
        topic, index = self._place()
        partition = {"partition_index": index, "offset": -1}
        await self.ask("DeleteRecords", 2, topics=[{"name": topic, "partitions": [partition]}], timeout_ms=5000)

    async def _delete_offsets(self) -> None:
        topic, index = self._place()
        topics = [{"name": topic, "partitions": [{"partition_index": index}]}]
        await self.ask("OffsetDelete", 0, group_id=self.random.choice(GROUPS), topics=topics)

    async def _delete_group(self) -> None:
        await self.ask("DeleteGroups", 2, groups_names=[self.random.choice(GROUPS)])

    # What it answers

    async def _settle(self) -> None:
        """Wait until coordinators are loaded and no transaction is between two states."""
        while True:
            for group in GROUPS:
                await self.ask("FindCoordinator", 4, key_type=0, coordinator_keys=[group])
            states = await self._transactions()
            if not any(state["transaction_state"].startswith("Prepare") for state in states["transaction_states"]):
                return
            await self.universe.sleep(0.05)

    async def _transactions(self) -> Plain:
        return await self.ask("ListTransactions", 1)

    async def _answers(self) -> dict[str, Plain]:
        """By question. Epochs of leadership are left out, and what deleting or expiry may forget over a restart."""
        answers: dict[str, Plain] = {
            "Metadata": await self.ask("Metadata", 12, topics=None),
            "ListTransactions": await self._transactions(),
            "DescribeTransactions": await self.ask(
                "DescribeTransactions", 0, transactional_ids=[each.transactional_id for each in self.transactors]
            ),
            "ListGroups": await self.ask("ListGroups", 5),
            "DescribeGroups": await self.ask("DescribeGroups", 6, groups=["simple", "classic"]),
            "ConsumerGroupDescribe": await self.ask("ConsumerGroupDescribe", 1, group_ids=["consumer"]),
            "DescribeQuorum": await self._quorum(),
        }
        for group in GROUPS:
            # What an open transaction holds is not stable: it is told as such, before and after.
            answers[f"OffsetFetch {group}"] = await self.ask(
                "OffsetFetch", 9, groups=[{"group_id": group, "topics": None}], require_stable=False
            )
        starts = await self._offsets_by_time(EARLIEST, 0)
        answers["earliest"] = starts
        for isolation in (0, 1):
            for timestamp in (LATEST, LARGEST_TIMESTAMP, 0):
                answers[f"ListOffsets {timestamp} {isolation}"] = await self._offsets_by_time(timestamp, isolation)
            for topic in starts["topics"]:
                for each in topic["partitions"]:
                    place = topic["name"], each["partition_index"]
                    answers[f"Fetch {place} {isolation}"] = await self._fetched(*place, each["offset"], isolation)
        answers["OffsetForLeaderEpoch"] = await self._epoch_ends()
        topics = [{"name": name, "partition_indexes": range(count)} for name, count in INTERNAL.items()]
        topics += [{"name": name, "partition_indexes": range(PARTITIONS)} for name in TOPICS]
        answers["DescribeProducers"] = await self.ask("DescribeProducers", 0, topics=topics)
        return {question: known(answer) for question, answer in answers.items()}

    async def _quorum(self) -> Plain:
        """Who is in it. Its log grows with each life, and no less than that."""
        topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        answer = await self.ask("DescribeQuorum", 2, topics=topics)
        (partition,) = answer["topics"][0]["partitions"]
        for each in (*partition["current_voters"], *partition["observers"]):
            del each["log_end_offset"]
        del partition["high_watermark"]
        return answer

    async def _fetched(self, name: str, index: int, start: int, isolation: int) -> Plain:
        """The whole partition, batch by batch, with all that Fetch says of it."""
        partition = {"partition": index, "fetch_offset": start, "partition_max_bytes": 1 << 24}
        request = to_message(
            message_class("FetchRequest"),
            {
                "max_wait_ms": 0,
                "max_bytes": 1 << 24,
                "isolation_level": isolation,
                "session_epoch": -1,
                "topics": [{"topic": name, "partitions": [partition]}],
            },
            12,
        )
        answer = (await self.client.call(request, version=12)).responses[0].partitions[0]
        found = [
            (
                (each.base_offset, each.partition_leader_epoch, each.is_control, each.producer_id, each.producer_epoch),
                [(record.key, record.value, record.timestamp) for record in each.records()],
            )
            for each in batches(answer.records or b"")
        ]
        aborted = sorted((each.producer_id, each.first_offset) for each in answer.aborted_transactions or ())
        ends = (answer.error_code, answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
        return [ends, aborted, found]

    async def _offsets_by_time(self, timestamp: int, isolation: int) -> Plain:
        partitions = [{"partition_index": index, "timestamp": timestamp} for index in range(PARTITIONS)]
        topics = [{"name": name, "partitions": partitions} for name in TOPICS]
        return await self.ask("ListOffsets", 7, replica_id=-1, isolation_level=isolation, topics=topics)

    async def _epoch_ends(self) -> Plain:
        """By partition, where each epoch with records ends. An epoch without any is told as the one before it."""
        ends: dict[Place, set[int]] = {}
        for epoch in range(2 * self.lives):
            partitions = [{"partition": index, "leader_epoch": epoch} for index in range(PARTITIONS)]
            topics = [{"topic": name, "partitions": partitions} for name in TOPICS]
            answer = await self.ask("OffsetForLeaderEpoch", 4, replica_id=-2, topics=topics)
            for topic in answer["topics"]:
                for each in topic["partitions"]:
                    ends.setdefault((topic["topic"], each["partition"]), set()).add(each["end_offset"])
        return {place: sorted(found - {-1}) for place, found in ends.items()}


def codes_of(answer: Plain) -> list[int]:
    """All error codes in it."""
    if isinstance(answer, dict):
        own = [code for name, code in answer.items() if name.endswith("error_code")]
        return own + [code for value in answer.values() for code in codes_of(value)]
    return [code for value in answer for code in codes_of(value)] if isinstance(answer, list) else []


def known(answer: Plain) -> Plain:
    """The answer without what each life has of its own."""
    if isinstance(answer, dict):
        return {name: known(value) for name, value in answer.items() if name not in LEFT_OUT}
    return [known(value) for value in answer] if isinstance(answer, list) else answer


def violation_of(seed: int) -> str:
    """Empty where the law holds."""
    try:
        RestartedNode(seed).live()
    except (AssertionError, KraftError, OSError, ExceptionGroup) as violation:
        return f"restarted node: {violation!r}"
    return ""


if __name__ == "__main__":
    sys.exit(run_seeds("restarted_node", __doc__, violation_of))
