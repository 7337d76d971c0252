"""The partitions of a read and their offsets, as the driver plans them: one Metadata and one ListOffsets round for all
partitions, by a client that stays open."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kraft.common.ids import TopicPartition, uuid_to_text
from kraft.common.java_pattern import java_pattern
from kraft.common.listed_offsets import is_offset_answer
from kraft.security.acls import Operation
from kraft.spark.client.client_config import admin_config
from kraft.spark.client.wire import WireError
from kraft.spark.errors import (
    DataLoss,
    NotYetKnown,
    OffsetNotKnown,
    PlanIncomplete,
    SourceError,
    show_offsets,
    show_partitions,
)
from kraft.spark.source.look_ups import LookUps, Offsets, SeenTopic
from kraft.spark.source.options import (
    EARLIEST,
    LATEST,
    Assign,
    GlobalTimestamp,
    Limit,
    SourceOptions,
    SpecificOffsets,
    SpecificTimestamps,
    Subscribe,
)
from kraft.spark.source.permissions import require_right
from kraft.spark.source.ranges import OffsetRange, gone_back

log = logging.getLogger(__name__)
T = TypeVar("T")
SETTLE_SECONDS = 10.0
"""How long an end must stay below an earlier known end, or a partition be missing, to be believed."""
CLIENT_SECONDS_MIN = 0.5
"""The minimum pause before the client is renewed."""


class KafkaOffsetReader:
    """The driver's view of the topics. Opens its client on first use; not shared between threads."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._client: LookUps | None = None
        self.topic_ids: dict[str, bytes] = {}
        """Ids of the topics being read, to which the planned ranges belong."""
        self._told_ids: dict[str, bytes] = {}
        """Topic ids in the last Metadata response."""
        self._former_ids: dict[bytes, None] = {}
        """Ids of deleted topics. A lagging broker may still report them."""

    @property
    def client(self) -> LookUps:
        """The client. The permissions are checked before it is created. Raises SourceError, WireError."""
        if self._client is None:
            self.require_rights()
            self._client = look_ups(self.options)
        return self._client

    def require_rights(self) -> None:
        """Check the permission to read the topics that the selection names. Raises SourceError, WireError."""
        selection, options = self.options.selection, self.options
        if options.is_login_known:
            topics = (
                selection.topics
                if isinstance(selection, Subscribe)
                else sorted({each.topic for each in selection.partitions})
                if isinstance(selection, Assign)
                else ()
            )
            require_right(options.kafka["bootstrap.servers"], options.security, topics, Operation.READ)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def renew(self) -> None:
        """Use another broker and refresh the leaders before the next query."""
        if self._client is not None:
            self._client.renew()

    # -- partitions
    # ------------------------------------------------------------------------------------------------------------------

    def partitions(self, *, skip_missing: bool = False) -> frozenset[TopicPartition]:
        """Return the partitions that the selection matches now. A topic that does not exist is left out with
        `skip_missing`; otherwise raises NotYetKnown."""
        selection = self.options.selection
        if isinstance(selection, Subscribe):
            return frozenset(self.describe(selection.topics, skip_missing=skip_missing))
        if isinstance(selection, Assign):
            topics = sorted({each.topic for each in selection.partitions})
            return frozenset(self.describe(topics, skip_missing=skip_missing)) & selection.partitions
        pattern = java_pattern(selection.pattern)
        names = [name for name in self.client.names() if pattern.search(name)]
        return frozenset(self.describe(names, internal=False, skip_missing=skip_missing))

    def whole_selection(self) -> frozenset[TopicPartition]:
        """Return the partitions of a starting query. With failOnDataLoss, all partitions that `assign` names must
        exist. Raises NotYetKnown, WireError."""
        found, selection = self.partitions(), self.options.selection
        if isinstance(selection, Assign) and (missing := selection.partitions - found):
            absent = PlanIncomplete(
                f"partitions {show_partitions(missing)}", "option assign names them, but they do not exist"
            )
            if self.options.fail_on_data_loss:
                raise absent
            log.warning("%s", absent)
        return found

    def remaining_partitions(self) -> frozenset[TopicPartition]:
        """Return the partitions of a running query. Without failOnDataLoss, a topic that was deleted has none."""
        return self.partitions(skip_missing=not self.options.fail_on_data_loss)

    def describe(
        self, topics: Sequence[str], *, internal: bool = True, skip_missing: bool = False
    ) -> list[TopicPartition]:
        """Return the partitions of these topics. Raises NotYetKnown, also if a response lacks partitions."""
        if not topics:
            return []
        described = self.client.describe(topics, skip_missing=skip_missing)
        if not skip_missing and (missing := sorted(set(topics) - {each.name for each in described})):
            raise PlanIncomplete(f"topics {', '.join(missing)}", "no broker has reported their partitions")
        for each in described:
            if each.topic_id is not None and each.topic_id not in self._former_ids:
                self._told_ids[each.name] = each.topic_id
                self.topic_ids.setdefault(each.name, each.topic_id)
        return [
            TopicPartition(each.name, partition)
            for each in map(whole_topic, described)
            if internal or not each.is_internal
            for partition in each.partitions
        ]

    def adopt_recreated_topics(self) -> frozenset[str]:
        """Return the topics that were deleted and recreated since they were last read. From now on the recreated topics
        are read. Raises DataLoss with failOnDataLoss."""
        changed = [name for name, topic_id in self._told_ids.items() if topic_id != self.topic_ids[name]]
        if not changed:
            return frozenset()
        told = dict(self._told_ids)
        time.sleep(CLIENT_SECONDS_MIN)
        self.renew()
        self.with_retries(lambda: self.describe(changed, skip_missing=True))  # One broker may lag: another is asked.
        recreated = frozenset(name for name in changed if self._told_ids[name] == told[name])
        for name in sorted(recreated):
            self.report(
                DataLoss(
                    "PARTITIONS_DELETED",
                    f"Topic {name} was deleted and recreated while the query ran: it had the id "
                    f"{uuid_to_text(self.topic_ids[name])}, and has {uuid_to_text(told[name])}. Unread records "
                    "of the earlier topic are lost; the new topic is read from its beginning.",
                )
            )
            self._former_ids[self.topic_ids[name]] = None
            self.topic_ids[name] = told[name]
        return recreated

    # -- offsets

    def list_offsets(self, specs: Mapping[TopicPartition, int]) -> Offsets:
        """Return offsets for sentinels (EARLIEST, LATEST) or times in ms; -1 if no record is at or after the time.
        Every requested partition has one. Raises NotYetKnown, WireError."""
        if not specs:
            return {}
        return checked_offsets(specs, self.client.list_offsets(specs, committed=self.options.committed))

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the log start offsets of the given partitions that still exist."""
        wanted = frozenset(partitions)
        if not wanted:
            return {}
        return self.settled(
            dict.fromkeys(wanted, 0),
            lambda: self.list_offsets(dict.fromkeys(self.remaining_partitions() & wanted, EARLIEST)),
        )

    def latest(self, known: Mapping[TopicPartition, int] | None = None) -> Offsets:
        """Return the end offsets of all partitions."""
        return self.settled(known or {}, lambda: self.list_offsets(dict.fromkeys(self.remaining_partitions(), LATEST)))

    def settled(self, known: Mapping[TopicPartition, int], ask: Callable[[], Offsets]) -> Offsets:
        """Return the result of `ask`. A missing partition, or an offset below `known`, may come from a node that lags
        or was deposed. So the query is repeated for a while before such a result is returned."""
        until = time.monotonic() + min(SETTLE_SECONDS, self.options.poll_timeout_ms / 1000)
        attempts = self.options.offset_fetch_attempts_max
        while True:
            offsets = self.with_retries(ask)
            behind = gone_back(known, offsets)
            attempts -= 1
            if not behind or (attempts <= 0 and time.monotonic() >= until):
                return offsets
            log.warning("offsets went back (-1: the partition is missing), retrying: %s", show_offsets(behind))
            time.sleep(max(CLIENT_SECONDS_MIN, self.options.offset_fetch_retry_ms / 1000))
            self.renew()

    def resolve(self, limit: Limit, *, starting: bool, assigned: frozenset[TopicPartition] | None = None) -> Offsets:
        """Return the offset that a limit names, for each partition of `assigned`, or of the whole selection if that is
        None. Raises SourceError, WireError."""
        return self.with_retries(
            lambda: self.resolve_once(limit, self.whole_selection() if assigned is None else assigned, starting)
        )

    def resolve_once(self, limit: Limit, assigned: frozenset[TopicPartition], starting: bool) -> Offsets:
        if isinstance(limit, GlobalTimestamp):
            wanted = self.offsets_for_times(dict.fromkeys(assigned, limit.timestamp), starting)
        elif isinstance(limit, SpecificTimestamps):
            side = "start" if starting else "end"
            check_assigned(
                "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED", f"timestamp based {side}", limit.timestamps, assigned
            )
            wanted = self.offsets_for_times(limit.timestamps, starting)
        elif isinstance(limit, SpecificOffsets):
            check_assigned("KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED", "start", limit.offsets, assigned)
            wanted = dict(limit.offsets)
        else:
            wanted = dict.fromkeys(assigned, limit.offset)
        found = wanted | self.list_offsets(
            {each: offset for each, offset in wanted.items() if offset in (EARLIEST, LATEST)}
        )
        for partition in sorted(assigned):
            if found.get(partition, -1) < 0:
                raise OffsetNotKnown(partition, "start" if starting else "end", found.get(partition))
        return found

    def offsets_for_times(self, times: Mapping[TopicPartition, int], starting: bool) -> Offsets:
        """Return the first offset at or after each time, or LATEST if there is no such record. Raises ValueError for a
        start without such a record, unless the options allow LATEST."""
        found = self.list_offsets(times)
        for partition, offset in found.items():
            if offset < 0 and starting and not self.options.latest_if_no_match:
                raise ValueError(
                    f"No offset matched from request of topic-partition {partition} and timestamp {times[partition]}."
                )
        return {partition: offset if offset >= 0 else LATEST for partition, offset in found.items()}

    def with_retries(self, ask: Callable[[], T]) -> T:
        """Run `ask`, at most `fetchOffset.numRetries` times in all. After a retriable error, the next attempt goes to
        another broker."""
        for attempt in range(1, self.options.offset_fetch_attempts_max):
            try:
                return ask()
            except NotYetKnown as problem:
                log.warning("attempt %d to get Kafka offsets failed: %s", attempt, problem)
                time.sleep(self.options.offset_fetch_retry_ms / 1000)
                self.renew()
        return ask()

    # -- what a micro-batch reads
    # ------------------------------------------------------------------------------------------------------

    def resolved_ranges(
        self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
    ) -> list[OffsetRange]:
        """Return the ranges between two offsets of a stream. A new partition starts at its log start. A missing
        partition is data loss."""
        added = end.keys() - start.keys()
        first = self.earliest(added)
        if missing := added - first.keys():
            self.report(
                DataLoss(
                    "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
                    f"Cannot find initial offsets for partitions {show_partitions(missing)}.",
                )
            )
        for partition in sorted(first):
            if first[partition] != 0:
                detail = f"Added partition {partition} starts from {first[partition]} instead of 0."
                self.report(DataLoss("ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO", detail))
        if deleted := start.keys() - end.keys():
            self.report(DataLoss("PARTITIONS_DELETED", f"Partitions {show_partitions(deleted)} have been deleted."))
        begins = {**start, **first}
        ranges = []
        for partition in sorted(each for each in end if each in begins):
            if end[partition] < begins[partition]:
                detail = (
                    f"Partition {partition} offset was changed from {begins[partition]} to {end[partition]}. The "
                    "partition was deleted and created again, "
                )
                self.report(
                    DataLoss("PARTITION_OFFSET_CHANGED", detail + "or the query starts beyond the available offset.")
                )
            topic_id = self.topic_ids.get(partition.topic)
            ranges.append(
                OffsetRange(partition.topic, partition.partition, begins[partition], end[partition], topic_id)
            )
        return ranges

    def commit_to_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group, best effort: brokers refuse it while the group has members."""
        if not offsets:
            return
        try:
            self.client.set_group_offsets(group, offsets)
        except (NotYetKnown, WireError) as problem:
            log.warning("offsets of group %s were not set: %s", group, problem)

    def report(self, loss: DataLoss) -> None:
        if self.options.fail_on_data_loss:
            raise loss
        log.warning("%s", loss)


def look_ups(options: SourceOptions) -> LookUps:
    """Return kraft's own client, or librdkafka's if the connections need what only librdkafka supports."""
    if options.own_look_ups:
        from kraft.spark.source.wire_look_ups import WireLookUps

        return WireLookUps(
            options.kafka["bootstrap.servers"],
            options.security,
            options.look_up_timeout_ms,
            options.request_timeout_ms,
        )
    from kraft.spark.source.admin_look_ups import AdminLookUps

    return AdminLookUps(admin_config(options.kafka, options.security), options.look_up_timeout_ms)


def whole_topic(described: SeenTopic) -> SeenTopic:
    """Return the topic if its partitions are complete: 0, 1, 2, ... Otherwise raises PlanIncomplete."""
    indexes = sorted(described.partitions)
    if not indexes or indexes != list(range(len(indexes))):
        which = f"partitions of topic {described.name}"
        raise PlanIncomplete(which, f"a broker has reported only partitions {indexes}")
    return described


def checked_offsets(specs: Mapping[TopicPartition, int], found: Mapping[TopicPartition, int]) -> Offsets:
    """Return the offsets of all partitions of `specs`. Raises OffsetNotKnown for the first partition without a valid
    offset in `found`."""
    for partition in sorted(specs):
        offset = found.get(partition)
        if offset is None or not is_offset_answer(offset, specs[partition]):
            raise OffsetNotKnown(partition, show_spec(specs[partition]), offset)
    return {partition: found[partition] for partition in specs}


def show_spec(spec: int) -> str:
    """Describe a sentinel or a time in ms for a message."""
    if spec == EARLIEST:
        return "first offset"
    return "end offset" if spec == LATEST else f"first offset at time {spec}"


def check_assigned(
    condition: str, side: str, specified: Mapping[TopicPartition, int], assigned: frozenset[TopicPartition]
) -> None:
    if specified.keys() != assigned:
        raise SourceError(
            condition,
            f"Partitions specified for Kafka {side} offsets don't match what are assigned. Maybe topic "
            "partitions are created or deleted while the "
            f"query is running. Use -1 for latest, -2 for earliest. Specified: {show_partitions(specified)} "
            f"Assigned: {show_partitions(assigned)}",
        )
