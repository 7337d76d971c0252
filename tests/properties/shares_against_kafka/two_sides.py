"""The requests of a life, each sent to both sides."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kraft.protocol.error_codes import ErrorCode, name_of
from tests.properties.shares_against_kafka.comparison import SETTLED_SECONDS_MAX, Comparison
from tests.properties.shares_against_kafka.expected import PARTITIONS
from tests.properties.transactions_against_kafka import Side, codes_of
from tests.vectors.plain import Batch

Plain = Any

STRICT: Final = 1
FETCH_BYTES: Final = 1 << 20
WAIT_MS: Final = 100
GROUP_RESOURCE: Final = 32
GROUP_KEY, TRANSACTION_KEY = 0, 1


class Offset(NamedTuple):
    """What a group is told about a partition."""

    index: int
    error: int
    start: int
    lag: int


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


class TwoSides:
    """Kafka and ours, asked about one topic and one share group, which are both called `name`."""

    def __init__(self, name: str, sides: tuple[Side, Side], comparison: Comparison, *, is_strict: bool) -> None:
        self.sides = sides
        self.topic_ids: dict[str, bytes] = {}
        self.raised = {side.name: 0 for side in sides}
        """How often a side alone has raised the epoch of the group."""
        self._name = name
        self._comparison = comparison
        self._is_strict = is_strict

    # The topic.

    def create(self) -> None:
        """Without retention: timestamps are old, and each side deletes such segments at its own time."""
        configs = [{"name": "retention.ms", "value": "-1"}]
        topics = [
            {"name": self._name, "num_partitions": PARTITIONS, "replication_factor": 1, "configs": configs},
        ]
        self._tell("CreateTopics", 5, {"topics": topics, "timeout_ms": 10_000})
        for kind in (GROUP_KEY, TRANSACTION_KEY):
            self._tell("FindCoordinator", 4, {"key_type": kind, "coordinator_keys": [self._name]})

    def learn_topic(self) -> None:
        for side in self.sides:
            (topic,) = self._comparison.until(
                f"{side.name} knows the topic",
                lambda side=side: [
                    each
                    for each in side.ask("Metadata", 12, {"topics": [{"name": self._name}]})["topics"]
                    if len([part for part in each["partitions"] if part["leader_id"] >= 0]) == PARTITIONS
                ],
            )
            self.topic_ids[side.name] = topic["topic_id"]

    def append(self, partition: int, first: int, count: int, producers: dict[str, dict[str, Plain]]) -> None:
        """Produce a batch, which must be at `first`. `producers` has the fields of a transactional one by side."""
        for side in self.sides:
            options = producers.get(side.name, {})
            batch = Batch(*(b"%d" % (first + number) for number in range(count)), **options).build()
            data = [{"name": self._name, "partition_data": [{"index": partition, "records": batch}]}]
            name = self._name if options else None
            body = {"transactional_id": name, "acks": -1, "timeout_ms": 5000, "topic_data": data}
            answer = side.ask("Produce", 9, body)
            assert not any(codes_of(answer)), (side.name, answer)
            at = answer["responses"][0]["partition_responses"][0]["base_offset"]
            assert at == first, f"{side.name}: a batch is at {at} and not at {first}"

    def begin_transaction(self, partition: int) -> dict[str, dict[str, Plain]]:
        """The producer's id and epoch by side."""
        named: dict[str, dict[str, Plain]] = {}
        for side in self.sides:
            told = side.ask("InitProducerId", 3, {"transactional_id": self._name, "transaction_timeout_ms": 60_000})
            named[side.name] = {"producer_id": told["producer_id"], "producer_epoch": told["producer_epoch"]}
            asked = {"transactional_id": self._name, "topics": [{"name": self._name, "partitions": [partition]}]}
            body = {f"v3_and_below_{name}": value for name, value in (asked | named[side.name]).items()}
            assert not any(codes_of(side.ask("AddPartitionsToTxn", 3, body)))
        return named

    def end_transaction(
        self, partition: int, named: dict[str, dict[str, Plain]], end: int, *, is_committed: bool
    ) -> None:
        """Returns once the marker is written: the partition ends at `end`."""
        for side in self.sides:
            ending = {"transactional_id": self._name, "committed": is_committed} | named[side.name]
            assert not any(codes_of(side.ask("EndTxn", 3, ending)))
        self._comparison.until(
            "the marker is written", lambda: all(self._stable(side, partition) == end for side in self.sides)
        )

    def _stable(self, side: Side, partition: int) -> int:
        wanted = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
        topics = [{"name": self._name, "partitions": [wanted]}]
        answer = side.ask("ListOffsets", 6, {"replica_id": -1, "isolation_level": 1, "topics": topics})
        return int(answer["topics"][0]["partitions"][0]["offset"])

    def delete_records(self, partition: int, offset: int) -> None:
        partitions = [{"partition_index": partition, "offset": offset}]
        topics = [{"name": self._name, "partitions": partitions}]
        self._tell("DeleteRecords", 2, {"topics": topics, "timeout_ms": 10_000})

    # The group.

    def configure(self, **values: str) -> None:
        """Configurations of the group by Kafka's names, with underscores for dots."""
        configs = [
            {"name": name.replace("_", "."), "config_operation": 0, "value": value} for name, value in values.items()
        ]
        resources = [{"resource_type": GROUP_RESOURCE, "resource_name": self._name, "configs": configs}]
        self._tell("IncrementalAlterConfigs", 1, {"resources": resources})

    def heartbeat(self, member: Member, side: Side, epoch: int, **more: Plain) -> Plain:
        body = {"group_id": self._name, "member_id": member.name, "member_epoch": epoch, **more}
        return member.links[side.name].ask("ShareGroupHeartbeat", 1, body)

    def described(self, side: Side) -> Plain:
        """The group, without what each side has of its own."""
        body = {"group_ids": [self._name], "include_authorized_operations": False}
        (group,) = side.ask("ShareGroupDescribe", 1, body)["groups"]
        group["group_epoch"] -= self.raised[side.name]
        group["assignment_epoch"] -= self.raised[side.name]
        for each in group["members"]:
            each["member_epoch"] -= self.raised[side.name]
            each.pop("client_host")
            each["subscribed_topic_names"].sort()
            each["has_partitions"] = bool(each.pop("assignment")["topic_partitions"])
        group["members"].sort(key=lambda each: str(each["member_id"]))
        return group

    def offsets(self) -> dict[str, list[Offset]]:
        return {side.name: self._offsets_of(side) for side in self.sides}

    def _offsets_of(self, side: Side) -> list[Offset]:
        topics = [{"topic_name": self._name, "partitions": list(range(PARTITIONS))}]
        body = {"groups": [{"group_id": self._name, "topics": topics}]}
        (group,) = side.ask("DescribeShareGroupOffsets", 1, body)["groups"]
        return [
            Offset(each["partition_index"], each["error_code"], each["start_offset"], each["lag"])
            for topic in group["topics"]
            for each in topic["partitions"]
        ]

    def alter_offset(self, partition: int, offset: int) -> dict[str, Plain]:
        """The error codes by side."""
        topics = [{"topic_name": self._name, "partitions": [{"partition_index": partition, "start_offset": offset}]}]
        return self._codes("AlterShareGroupOffsets", {"group_id": self._name, "topics": topics})

    def delete_offsets(self) -> dict[str, Plain]:
        """The error codes by side."""
        topics = [{"topic_name": self._name}]
        return self._codes("DeleteShareGroupOffsets", {"group_id": self._name, "topics": topics})

    def _codes(self, api: str, body: dict[str, Plain]) -> dict[str, Plain]:
        return {side.name: codes_of(side.ask(api, 0, body)) for side in self.sides}

    # Sessions.

    def fetched(self, member: Member, body: dict[str, Plain], enough: int) -> dict[str, Plain]:
        """By side the error of a ShareFetch, those of its acknowledgements, and what was acquired."""
        return {side.name: self._fetched_until(member, side, body, enough) for side in self.sides}

    def _fetched_until(self, member: Member, side: Side, body: dict[str, Plain], enough: int) -> Plain:
        """The request is sent again until there is enough: a side may answer although another request has not left a
        partition yet."""
        taken: dict[tuple[int, int], int] = {}
        error, parts = self.fetched_once(member, side, body)
        refused = {partition: refused for partition, (_, refused, _) in parts.items() if refused != "NONE"}
        records_max = body["max_records"]
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while True:
            for partition, (failed, _, acquired) in parts.items():
                assert failed == "NONE", f"{side.name}: {failed}\n{self._comparison.story()}"
                for offset, deliveries in acquired.items():
                    taken[partition, offset] = deliveries
            if error != "NONE" or len(taken) >= enough or time.monotonic() > deadline:
                return error, refused, taken
            body = {**body, "topics": [], "forgotten_topics_data": [], "max_records": records_max - len(taken)}
            error, parts = self.fetched_once(member, side, body)

    def fetched_once(self, member: Member, side: Side, body: dict[str, Plain]) -> Plain:
        """The error of a ShareFetch, and by partition its errors and how often each acquired record was delivered."""
        body = dict(body)
        body["topics"] = [{**each, "topic_id": self.topic_ids[side.name]} for each in body["topics"]]
        gone = body["forgotten_topics_data"]
        body["forgotten_topics_data"] = [{"topic_id": self.topic_ids[side.name], "partitions": gone}] if gone else []
        epoch = member.epochs[side.name]
        request = {
            "group_id": self._name,
            "member_id": member.name,
            "share_session_epoch": epoch,
            "max_wait_ms": WAIT_MS,
            "min_bytes": 1,
            "share_acquire_mode": STRICT if self._is_strict else 0,
            **body,
        }
        answer = self._once(member, side, "ShareFetch", request)
        if answer["error_code"] == ErrorCode.NONE:
            member.epochs[side.name] = epoch + 1 if epoch >= 0 else 0
        return name_of(answer["error_code"]), _partitions_of(answer)

    def acknowledged(
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
        topics = [{**each, "topic_id": topic_id or self.topic_ids[side.name]} for each in topics_of((), acknowledged)]
        body = {
            "group_id": self._name,
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

    def _once(self, member: Member, side: Side, api: str, body: dict[str, Plain]) -> Plain:
        """The answer to a request of a session, which is not sent again: its epoch is used up."""
        connection = member.links[side.name].connection
        connection.send(api, 2, body)
        answer = connection.receive(api, 2)
        assert not isinstance(answer, str), f"{side.name}: {api}: {answer} after {self._comparison.story()}"
        return answer

    def _tell(self, api: str, version: int, body: dict[str, Plain]) -> None:
        for side in self.sides:
            answer = side.ask(api, version, body)
            assert not any(codes_of(answer)), (side.name, api, answer)


def topics_of(places: Iterable[int], acknowledged: dict[int, Plain]) -> list[dict[str, Plain]]:
    """Partitions of the topic with acknowledgements. The topic's id is each side's own."""
    indexes = sorted({*places, *acknowledged})
    partitions = [
        {"partition_index": index, "acknowledgement_batches": acknowledged.get(index, [])} for index in indexes
    ]
    return [{"topic_id": b"", "partitions": partitions}] if partitions else []


def _partitions_of(answer: Plain) -> dict[int, Plain]:
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
