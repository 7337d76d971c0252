"""Look-ups by kraft's own client: one Metadata request for all topics, and one ListOffsets request for each leader.

While a leader is elected, or a broker is down, the metadata is requested again, from another broker each time, until
the deadline. Offsets that were found are kept; only the other partitions are asked for again. A request carries the
newest known leader epoch, so that a deposed leader refuses it (KIP-320).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kraft.common.ids import TopicPartition
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.spark.client.wire import UNKNOWN_TOPIC, WireCluster, WireConnection, WireError
from kraft.spark.client.wire_security import PLAINTEXT, WireSecurity
from kraft.spark.errors import LookUpFailed
from kraft.spark.source.look_ups import TIMEOUT_MS, Offsets, SeenTopic
from kraft.spark.source.pending_offsets import PendingOffsets

REQUEST_SECONDS_MAX: Final = 10.0
"""The time after which another broker is asked: a frozen broker does not answer."""
PAUSE_SECONDS_FIRST: Final = 0.05
PAUSE_SECONDS_MAX: Final = 1.0
GROUP_SECONDS_MAX: Final = 5.0
"""How long a micro-batch may wait for its group's commit, which is best effort."""
COORDINATOR_OF_GROUP: Final = 0
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class WireLookUps:
    """Look-ups by kraft's own client. `timeout_ms` is the deadline of each query."""

    def __init__(
        self,
        bootstrap: str,
        security: WireSecurity = PLAINTEXT,
        timeout_ms: int = TIMEOUT_MS,
        request_timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self.timeout_s = timeout_ms / 1000
        request_s = min(REQUEST_SECONDS_MAX, request_timeout_ms / 1000, self.timeout_s)
        self.cluster = WireCluster(bootstrap, timeout_s=request_s, security=security)

    def close(self) -> None:
        self.cluster.close()

    def renew(self) -> None:
        self.cluster.view.current.clear()
        self.cluster.turns.another()

    def names(self) -> list[str]:
        return sorted(self.described(None, self.deadline()))

    def describe(self, topics: Sequence[str], *, skip_missing: bool = False) -> list[SeenTopic]:
        found = self.described(topics, self.deadline(), skip_missing=skip_missing)
        return [found[name] for name in topics if name in found]

    def list_offsets(self, specs: Mapping[TopicPartition, int], *, committed: bool) -> Offsets:
        try:
            return self.listed(PendingOffsets(specs), committed, self.deadline())
        except WireError:
            self.close()  # Answers to other requests may be under way.
            raise

    def listed(self, pending: PendingOffsets, committed: bool, deadline: float) -> Offsets:
        """Ask the leaders until every partition has an offset. Raises LookUpFailed, WireError."""
        for pause in pauses():
            self.ask_leaders(pending, committed, deadline)
            left = pending.left
            if not left:
                break
            if time.monotonic() + pause >= deadline:
                raise LookUpFailed(pending.show(), self.timeout_s)
            time.sleep(pause)
            for topic in sorted({each.topic for each in left}):
                self.cluster.view.current.discard(topic)
            self.cluster.turns.another()
        return pending.found

    def set_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        deadline = time.monotonic() + min(GROUP_SECONDS_MAX, self.timeout_s)
        for pause in pauses():
            try:
                self.commit(group, offsets)
                return
            except (OSError, WireError) as problem:
                if isinstance(problem, WireError) and not problem.is_retriable:
                    raise
                why = str(problem)
            if time.monotonic() + pause >= deadline:
                raise LookUpFailed(f"offsets of group {group}: {why}", None)
            time.sleep(pause)
            self.cluster.turns.another()

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the group's offsets once, without member id and generation, as an admin client does. Raises WireError,
        OSError."""
        found = self.cluster.any_call(FindCoordinatorRequest(key=group, key_type=COORDINATOR_OF_GROUP))
        if found.error_code:
            raise WireError(found.error_code, f"the coordinator of group {group}")
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for each, offset in sorted(offsets.items()):
            wanted = OffsetCommitRequestPartition(partition_index=each.partition, committed_offset=offset)
            topics.setdefault(each.topic, []).append(wanted)
        request = OffsetCommitRequest(
            group_id=group,
            topics=[OffsetCommitRequestTopic(name=name, partitions=wanted) for name, wanted in topics.items()],
        )
        for topic in self.cluster.call_at((found.host, found.port), request).topics:
            for told in topic.partitions:
                if told.error_code:
                    raise WireError(told.error_code, f"offset of group {group} in {topic.name}-{told.partition_index}")

    def deadline(self) -> float:
        """The deadline of a query that starts now: monotonic, in seconds."""
        return time.monotonic() + self.timeout_s

    def described(
        self, topics: Sequence[str] | None, deadline: float, *, skip_missing: bool = False
    ) -> dict[str, SeenTopic]:
        """Describe topics by name; None means all topics. A topic counts as missing only when every broker that answers
        has said so, because one broker's metadata may be behind. Raises LookUpFailed, WireError."""
        unknown_answers = 0
        for pause in pauses():
            try:
                told = self.cluster.metadata(topics)
            except OSError as problem:
                why = str(problem)
            else:
                missing = sorted(name for name, each in told.items() if each.error_code in UNKNOWN_TOPIC)
                unknown_answers += bool(missing)
                refused = [each for each in told.values() if each.error_code and each.name not in missing]
                if not refused and (not missing or unknown_answers >= len(self.cluster.view.nodes)):
                    if missing and not skip_missing and topics is not None:
                        raise LookUpFailed(f"topic {missing[0]}: there is no such topic", None)
                    return {name: self.seen(each) for name, each in told.items() if name not in missing}
                why = self.first_problem(refused) or f"topic {missing[0]}: there is no such topic"
            if time.monotonic() + pause >= deadline:
                raise LookUpFailed(why, self.timeout_s)
            time.sleep(pause)
            self.cluster.turns.another()
        raise AssertionError("pauses have no end")

    def first_problem(self, refused: Sequence[Any]) -> str:
        """Describe the first error, or return an empty text. Raises WireError for an error that cannot be retried."""
        problems = [WireError(each.error_code, f"topic {each.name}") for each in refused]
        for each in problems:
            if not each.is_retriable:
                raise each
        return str(problems[0]) if problems else ""

    def seen(self, told: Any) -> SeenTopic:
        """Return the topic with all partitions that any broker has reported, because this response may be older than an
        earlier one."""
        partitions = tuple(sorted(self.cluster.view.topics[told.name].partitions))
        topic_id = bytes(told.topic_id)
        return SeenTopic(told.name, partitions, told.is_internal, topic_id if any(topic_id) else None)

    def ask_leaders(self, pending: PendingOffsets, committed: bool, deadline: float) -> None:
        """Send one request to the leader of each partition whose offset is still unknown, in parallel. Raises
        LookUpFailed without metadata, and WireError for an error that cannot be retried."""
        self.learn_leaders(pending, deadline)
        sent: list[tuple[WireConnection, int, tuple[str, int], list[TopicPartition]]] = []
        for address, partitions in self.by_leader(pending).items():
            try:
                connection = self.cluster.connection(address)
                number = connection.send(self.request(pending, partitions, committed))
                sent.append((connection, number, address, partitions))
            except OSError as problem:
                self.lost(pending, address, partitions, problem)
        for connection, number, address, partitions in sent:
            try:
                answer = connection.receive(number)
            except OSError as problem:
                self.lost(pending, address, partitions, problem)
                continue
            for topic in answer.topics:
                for each in topic.partitions:
                    pending.answered(TopicPartition(topic.name, each.partition_index), each.error_code, each.offset)

    def learn_leaders(self, pending: PendingOffsets, deadline: float) -> None:
        wanted = sorted({each.topic for each in pending.left} - self.cluster.view.current)
        if wanted:
            self.described(wanted, deadline)
            self.cluster.view.current.update(wanted)

    def by_leader(self, pending: PendingOffsets) -> dict[tuple[str, int], list[TopicPartition]]:
        """Group the partitions without an offset by their leader's address. Partitions without a leader are recorded as
        such."""
        found: dict[tuple[str, int], list[TopicPartition]] = {}
        view = self.cluster.view
        for each in pending.left:
            leader = view.leader(each.topic, each.partition)
            if leader is None:
                pending.unanswered([each], "no broker has reported this partition")
            elif leader.node not in view.nodes:
                pending.unanswered([each], "its leader is not available")
            else:
                found.setdefault(view.nodes[leader.node], []).append(each)
        return found

    def request(
        self, pending: PendingOffsets, partitions: Sequence[TopicPartition], committed: bool
    ) -> ListOffsetsRequest:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for each in partitions:
            wanted = ListOffsetsPartition(
                partition_index=each.partition,
                current_leader_epoch=self.cluster.view.epoch(each.topic, each.partition),
                timestamp=pending.specs[each],
            )
            topics.setdefault(each.topic, []).append(wanted)
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=READ_COMMITTED if committed else READ_UNCOMMITTED,
            topics=[ListOffsetsTopic(name=name, partitions=wanted) for name, wanted in topics.items()],
            timeout_ms=int(self.cluster.timeout_s * 1000),
        )

    def lost(
        self, pending: PendingOffsets, address: tuple[str, int], partitions: Sequence[TopicPartition], problem: OSError
    ) -> None:
        """Handle a broken connection or a missing response: the broker is not asked for metadata for a while."""
        self.cluster.forget(address)
        self.cluster.turns.unreachable(address, time.monotonic())
        pending.unanswered(partitions, f"its leader at {address[0]}:{address[1]}: {problem or type(problem).__name__}")


def pauses() -> Iterator[float]:
    """Yield the seconds to pause before each retry: 0.05, 0.1, 0.2, ... up to one second, without end."""
    pause = PAUSE_SECONDS_FIRST
    while True:
        yield pause
        pause = min(2 * pause, PAUSE_SECONDS_MAX)
