"""A random life of one streams group."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from kraft.protocol.error_codes import ErrorCode
from tests.properties.shares_against_kafka.comparison import Comparison
from tests.properties.streams_against_kafka.application import (
    NAMES,
    Shape,
    Thread,
    shape,
    told_tasks,
)
from tests.properties.transactions_against_kafka import Side

Plain = Any

GROUP_RESOURCE: Final = 32
FENCED: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID)
MEMBERS_MAX: Final = 8
MISSING_INTERNAL_TOPICS: Final = 3
BURST_SECONDS: Final = 0.4
DEADLINE_MS: Final = 1_000
QUIET_SECONDS: Final = 1.5
KNOWN_SECONDS: Final = 0.3
"""How long after a topic is known to a broker its group coordinator may not have heard of it."""
LEFT_OUT: Final = frozenset({"throttle_time_ms", "error_message", "status_detail"})


class Kind(NamedTuple):
    """Which deadlines the members of a life know, in milliseconds."""

    name: str
    rebalance_ms: int = 300_000
    session_ms: int = 45_000
    assignment_interval_ms: int = 0
    initial_delay_ms: int = 0

    @property
    def has_deadlines(self) -> bool:
        return self != Kind(self.name)

    @property
    def assigns_late(self) -> bool:
        return self.assignment_interval_ms > 0 or self.initial_delay_ms > 0


LIVES: Final = (
    Kind("without deadlines"),
    Kind("revocations end", rebalance_ms=DEADLINE_MS),
    Kind("without deadlines"),
    Kind("assignments wait", assignment_interval_ms=DEADLINE_MS),
    Kind("without deadlines"),
    Kind("the first assignment waits", initial_delay_ms=DEADLINE_MS),
    Kind("without deadlines"),
    Kind("sessions end", session_ms=DEADLINE_MS),
)


class StreamsLife:
    """One group and its topics. `run` raises AssertionError at the first answer that differs, with what led to it."""

    def __init__(self, seed: int, sides: tuple[Side, Side]) -> None:
        self.name = f"life-{seed}"
        self.kind = LIVES[seed % len(LIVES)]
        self._sides = sides
        self._source = Random(seed)
        self._shape: Shape = shape(self._source, self.name)
        self._threads = [Thread(name) for name in NAMES]
        self._counts: dict[str, int] = {}
        self._comparison = Comparison(f"{self.name} ({self.kind.name})")
        self._instances: set[str] = set()
        """The instance ids that members may have."""
        self._away: dict[str, tuple[str, str]] = {}
        """The processes of the static members that are gone for a while, by instance id."""
        self._lost: set[str] = set()
        self._used: set[str] = set()
        """Ids under which nobody joins again: Kafka gives one that returns before the next assignment the tasks that it
        had before it left."""
        self._quiet_at = 0.0
        self._has_endpoints = not self.kind.has_deadlines and self._source.random() < 0.4
        """Such a life loses no topics: Kafka refuses a member with an endpoint while topics are missing or wrong."""

    @property
    def compared(self) -> int:
        """The number of answers that were alike."""
        return self._comparison.compared

    def make(self) -> None:
        """Create the topics of the application, most times, and its group's settings."""
        for name in self._shape.sources:
            if self._has_endpoints or self._source.random() < 0.9:
                self._create(name)
        for side in self._sides:
            side.ask("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": [self.name]})
        self._set(
            session_timeout_ms=self.kind.session_ms,
            assignment_interval_ms=self.kind.assignment_interval_ms,
            initial_rebalance_delay_ms=self.kind.initial_delay_ms,
            num_standby_replicas=self._source.randrange(3),
        )
        self._quiet_at = time.monotonic()

    def run(self, steps: int) -> None:
        weighted: dict[Callable[[Thread], None], int] = {
            self._join: 12,
            self._beat: 40,
            self._round: 8,
            self._lose_answer: 4,
            self._keep: 4,
            self._say_nothing: 3,
            self._err: 4,
            self._invent_tasks: 2,
            self._join_otherwise: 2,
            self._leave: 3,
            self._step_aside: 3,
            self._come_back: 4,
            self._change: 2,
            self._report: 2,
            self._commit: 8,
            self._fetch: 3,
            self._describe: 6,
            self._configure: 2,
            self._ask_to_end: 1,
            self._delete: 1,
            self._forget_offsets: 1,
        }
        if not self._has_endpoints:
            weighted |= {self._grow: 1, self._lose_topic: 1, self._make_topics: 2}
        for _ in range(steps):
            (step,) = self._source.choices(list(weighted), list(weighted.values()))
            step(self._source.choice(self._members() or self._threads))
            if self.kind.has_deadlines and time.monotonic() > self._quiet_at + BURST_SECONDS:
                self._be_quiet()
        self._make_topics(self._threads[0])
        self._describe(self._threads[0])
        self._come_too_soon()

    def _be_quiet(self) -> None:
        """Wait until all deadlines that were set are over."""
        time.sleep(QUIET_SECONDS)
        self._comparison.note("all deadlines pass")
        self._quiet_at = time.monotonic()

    def _members(self) -> list[Thread]:
        return [each for each in self._threads if each.is_member]

    # Asking.

    def _ask(self, label: str, api: str, version: int, body: dict[str, Plain]) -> Plain:
        """What both answered."""
        told = {side.name: side.ask(api, version, body) for side in self._sides}
        plain = {name: _compared(answer) for name, answer in told.items()}
        self._comparison.same(label, plain)
        return told["ours"]

    def _heartbeat(self, thread: Thread, label: str, epoch: int, *, adopt: bool = True, **more: Plain) -> Plain:
        body = {
            "group_id": self.name,
            "member_id": thread.name,
            "member_epoch": epoch,
            "endpoint_information_epoch": thread.endpoint_epoch,
            "instance_id": thread.instance,
            **more,
        }
        shown = {name: value for name, value in more.items() if name != "topology"}
        answer = self._ask(
            f"{thread.name} {label} in epoch {epoch} {shown}", "StreamsGroupHeartbeat", self._source.randrange(2), body
        )
        if answer["error_code"] in FENCED:
            thread.forget()
        elif adopt and answer["error_code"] == ErrorCode.NONE and epoch >= 0:
            thread.hear(answer)
        if any(status["status_code"] == MISSING_INTERNAL_TOPICS for status in answer["status"] or ()):
            self._await_topics(self._shape.internal)
        return answer

    def _topology(self, epoch: int = 0) -> dict[str, Plain]:
        return {"epoch": epoch, "subtopologies": self._shape.subtopologies}

    # Members.

    def _join(self, _: Thread) -> None:
        idle = [each for each in self._threads if not each.is_member and each.name not in self._used]
        if not idle or len(self._members()) >= MEMBERS_MAX:
            return
        thread = self._source.choice(idle)
        if self.kind.assigns_late:
            self._used.add(thread.name)
        thread.process = self._source.choice(thread.processes)
        instance = f"i{self._source.randrange(4)}"
        is_static = instance not in self._instances and self._source.random() < 0.3
        thread.instance = instance if is_static else None
        self._enter(thread, "joins")

    def _enter(self, thread: Thread, label: str, topology: dict[str, Plain] | None = None) -> None:
        thread.forget()
        if thread.instance is not None:
            self._instances.add(thread.instance)
        more: dict[str, Plain] = {}
        # Kafka forgets the endpoint of the member that makes a streams group of one that has but offsets.
        if self._has_endpoints and self._members() and self._source.random() < 0.6:
            more["user_endpoint"] = {"host": f"h{thread.process}", "port": 80 + thread.number}
        if self._source.random() < 0.2:
            more["client_tags"] = [{"key": "zone", "value": self._source.choice("ab")}]
        if self._source.random() < 0.2:
            more["rack_id"] = self._source.choice("ab")
        self._heartbeat(
            thread,
            label,
            0,
            process_id=thread.process,
            rebalance_timeout_ms=self.kind.rebalance_ms,
            topology=topology or self._topology(),
            **told_tasks(thread.tasks),
            **more,
        )

    def _join_otherwise(self, thread: Thread) -> None:
        """With a topology of another epoch or another application, or without any."""
        changed = [{**self._shape.subtopologies[0], "source_topics": [f"{self.name}-x"]}]
        topology = self._source.choice(
            [
                self._topology(1),
                {"epoch": 0, "subtopologies": changed},
                {"epoch": 1, "subtopologies": changed},
                {"epoch": 0, "subtopologies": []},
            ]
        )
        if self._members() and not self.kind.assigns_late:
            self._enter(self._source.choice(self._threads), "joins otherwise", topology)

    def _beat(self, thread: Thread) -> None:
        """Tell what it has, having given up what was taken from it."""
        self._heartbeat(thread, "beats", thread.epoch or 1, **told_tasks(thread.tasks))

    def _round(self, _: Thread) -> None:
        for thread in self._members():
            self._beat(thread)

    def _lose_answer(self, thread: Thread) -> None:
        self._heartbeat(thread, "loses an answer", thread.epoch or 1, adopt=False, **told_tasks(thread.tasks))

    def _keep(self, thread: Thread) -> None:
        """It has yet to give up what was taken."""
        self._heartbeat(thread, "keeps", thread.epoch or 1, **told_tasks(thread.was))

    def _say_nothing(self, thread: Thread) -> None:
        self._heartbeat(thread, "tells no tasks", thread.epoch or 1)

    def _err(self, thread: Thread) -> None:
        """In an epoch that is not its own."""
        epoch = self._source.choice([thread.previous_epoch, thread.epoch + 1, thread.epoch - 1, thread.epoch + 7])
        tasks = self._source.choice([thread.tasks, thread.was])
        self._heartbeat(thread, "errs", max(1, epoch), adopt=False, **told_tasks(tasks))

    def _invent_tasks(self, thread: Thread) -> None:
        invented = self._source.choice([{"9": {0}}, {"0": {99}}, {"0": {0}, "1": {0}}])
        self._heartbeat(
            thread, "invents tasks", thread.epoch or 1, **told_tasks({**thread.tasks, "standby_tasks": invented})
        )

    def _change(self, thread: Thread) -> None:
        """The member itself changes: its process, rack, tags or timeout."""
        choices: list[dict[str, Plain]] = [
            {"process_id": self._source.choice(thread.processes)},
            {"rack_id": self._source.choice("ab")},
            {"client_tags": [{"key": "zone", "value": self._source.choice("ab")}]},
            {"rebalance_timeout_ms": self.kind.rebalance_ms},
        ]
        if self._has_endpoints:
            choices.append({"user_endpoint": {"host": "moved", "port": 80}})
        more = self._source.choice(choices)
        self._heartbeat(thread, "changes", thread.epoch or 1, **told_tasks(thread.tasks), **more)

    def _report(self, thread: Thread) -> None:
        """The offsets of its stores."""
        offsets = [
            {"subtopology_id": name, "partition": part, "offset": self._source.randrange(100)}
            for name, parts in thread.tasks["standby_tasks"].items()
            for part in parts
        ]
        self._heartbeat(
            thread,
            "reports offsets",
            thread.epoch or 1,
            **told_tasks(thread.tasks),
            task_offsets=offsets,
            task_end_offsets=offsets,
        )

    def _ask_to_end(self, thread: Thread) -> None:
        self._heartbeat(thread, "shuts down", thread.epoch or 1, shutdown_application=True, **told_tasks(thread.tasks))

    def _leave(self, thread: Thread) -> None:
        answer = self._heartbeat(thread, "leaves", -1)
        if answer["error_code"] == ErrorCode.NONE and thread.instance is not None:
            self._instances.discard(thread.instance)
        thread.forget()

    def _step_aside(self, thread: Thread) -> None:
        """A static member goes for a while."""
        answer = self._heartbeat(thread, "steps aside", -2)
        if answer["error_code"] == ErrorCode.NONE and thread.instance is not None:
            self._away[thread.instance] = thread.processes, thread.process
        thread.forget()

    def _come_back(self, _: Thread) -> None:
        """A static member returns, perhaps under another id."""
        if not self._away:
            return
        instance = self._source.choice(sorted(self._away))
        processes, process = self._away[instance]
        idle = [each for each in self._threads if not each.is_member and each.processes == processes]
        idle = [each for each in idle if each.name not in self._used]
        if idle:
            del self._away[instance]
            thread = self._source.choice(idle)
            thread.instance, thread.process = instance, process
            if self.kind.assigns_late:
                self._used.add(thread.name)
            self._enter(thread, f"comes back as {instance}")

    def _come_too_soon(self) -> None:
        """A static member returns while another has its instance id. It is the last step of a life: in Kafka the other
        loses its tasks by that."""
        holders = [each for each in self._members() if each.instance is not None]
        idle = [each for each in self._threads if not each.is_member]
        if holders and idle:
            idle[0].instance = holders[0].instance
            self._enter(idle[0], f"comes too soon as {idle[0].instance}")

    # Offsets.

    def _commit(self, thread: Thread) -> None:
        epoch = self._source.choice([thread.epoch] * 3 + [thread.previous_epoch, thread.epoch + 1, -1])
        member = self._source.choice([thread.name] * 4 + ["", "nobody"])
        partition = {"partition_index": self._source.randrange(3), "committed_offset": 5, "committed_metadata": ""}
        topics = [{"name": name, "partitions": [partition]} for name in self._counts]
        body = {
            "group_id": self.name,
            "generation_id_or_member_epoch": epoch,
            "member_id": member,
            "group_instance_id": thread.instance,
            "topics": topics,
        }
        self._ask(f"{member} commits {partition['partition_index']} in epoch {epoch}", "OffsetCommit", 9, body)

    def _fetch(self, thread: Thread) -> None:
        """Kafka fails when an epoch is given without a member."""
        member = self._source.choice([thread.name, thread.name, None, "nobody"])
        epochs = [thread.epoch, thread.epoch + 1, thread.previous_epoch, -1]
        epoch = -1 if member is None else self._source.choice(epochs)
        topics = [{"name": name, "partition_indexes": [0, 1, 2]} for name in self._counts]
        asked = self._source.choice([topics, None])
        group = {"group_id": self.name, "member_id": member, "member_epoch": epoch, "topics": asked}
        self._ask(f"{member} fetches in epoch {epoch}", "OffsetFetch", 9, {"groups": [group]})

    def _forget_offsets(self, _: Thread) -> None:
        topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in self._counts]
        self._ask("offsets are deleted", "OffsetDelete", 0, {"group_id": self.name, "topics": topics})

    # The group.

    def _describe(self, _: Thread) -> None:
        body = {"group_ids": [self.name], "include_authorized_operations": False}
        self._ask("described", "StreamsGroupDescribe", self._source.randrange(2), body)
        listed = {}
        for side in self._sides:
            groups = side.ask("ListGroups", 5, {"states_filter": [], "types_filter": []})["groups"]
            listed[side.name] = [_compared(each) for each in groups if each["group_id"] == self.name]
        self._comparison.same("listed", listed)

    def _configure(self, _: Thread) -> None:
        self._set(num_standby_replicas=self._source.randrange(3))

    def _set(self, **values: int) -> None:
        configs = [
            {"name": f"streams.{name.replace('_', '.')}", "config_operation": 0, "value": str(value)}
            for name, value in values.items()
        ]
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": self.name, "configs": configs}
        self._ask(f"set {values}", "IncrementalAlterConfigs", 1, {"resources": [resource]})
        time.sleep(KNOWN_SECONDS)

    def _delete(self, _: Thread) -> None:
        self._ask("the group is deleted", "DeleteGroups", 2, {"groups_names": [self.name]})

    # Topics.

    def _create(self, name: str) -> None:
        self._counts[name] = self._source.choice([1, 2, 3])
        topic = {"name": name, "num_partitions": self._counts[name], "replication_factor": 1}
        self._ask(f"create {topic}", "CreateTopics", 5, {"topics": [topic], "timeout_ms": 10_000})
        self._await_topics([name])

    def _make_topics(self, _: Thread) -> None:
        for name in self._shape.sources:
            if name not in self._counts:
                self._create(name)

    def _grow(self, _: Thread) -> None:
        if self._counts:
            name = self._source.choice(sorted(self._counts))
            self._counts[name] += 1
            topic = {"name": name, "count": self._counts[name], "assignments": None}
            self._ask(f"grow {topic}", "CreatePartitions", 2, {"topics": [topic], "timeout_ms": 10_000})
            self._await_topics([name])

    def _lose_topic(self, _: Thread) -> None:
        """A source or an internal topic is deleted. Kafka does not create a topic again that it has created lately."""
        names = [each for each in (*self._shape.sources, *self._shape.internal) if each not in self._lost]
        if not names:
            return
        name = self._source.choice(names)
        self._lost.add(name)
        self._ask(f"delete {name}", "DeleteTopics", 5, {"topic_names": [name], "timeout_ms": 10_000})
        self._counts.pop(name, None)
        for side in self._sides:
            self._comparison.until(f"{side.name} forgets {name}", lambda s=side: not self._known(s, [name]))
        time.sleep(KNOWN_SECONDS)

    def _await_topics(self, names: list[str]) -> None:
        """Until both know the topics, with all their partitions, where the number is known."""
        for side in self._sides:
            self._comparison.until(f"{side.name} knows {names}", lambda s=side: self._has(s, names))
        time.sleep(KNOWN_SECONDS)

    def _has(self, side: Side, names: list[str]) -> bool:
        known = self._known(side, names)
        return len(known) == len(names) and all(count >= self._counts.get(name, 1) for name, count in known.items())

    def _known(self, side: Side, names: list[str]) -> dict[str, int]:
        asked = {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False}
        told = side.ask("Metadata", 12, asked)["topics"]
        return {each["name"]: len(each["partitions"]) for each in told if each["error_code"] == ErrorCode.NONE}


def _compared(value: Plain) -> Plain:
    """What both sides have to answer alike."""
    if isinstance(value, dict):
        return {name: _compared(each) for name, each in value.items() if name not in LEFT_OUT}
    return sorted((_compared(each) for each in value), key=repr) if isinstance(value, list) else value
