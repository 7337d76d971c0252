"""Runs group scenarios: text files that say who does what to a group and what comes of it.

One step a line: `WHO does something [-> outcome]`. Names of actors are stable; their member ids and generations are
remembered as the protocol hands them out, so `A heartbeat` means "with the id and generation that A believes in".
Lines starting with # explain; blank lines group. Steps:

    config key=value ...                  before anything else: settings of the group coordinator A join [key=value
    ...]                JoinGroup; keys: protocols=range,roundrobin topics=t,u type=consumer instance=i1 session=10s
    rebalance=60s version=9 A sync [B=p0 C=p1 ...]                SyncGroup; the leader names assignments by actor A
    heartbeat / A leave                 as A believes itself to be; `A leave instance=i1` is an administrator's
    removal A commit t-0=5 ... / anybody commit   OffsetCommit within A's generation, or without one fetch t-0 t-1 ->
    5 -1                 OffsetFetch: committed offsets, -1 where there is none A gets -> outcome
    the answer to a request that had to wait A waits                               it still has to A is a ghost of B
    A knows what B knows now (a zombie keeps old beliefs) A forgets                             A is a new process:
    no member id, no generation wait 3s                               time passes, deadlines fire reload
    the coordinator dies; another rebuilds the group from the log group -> Stable generation 2 members A B leader A
    delete group -> NONE                  DeleteGroups expire                                the offset expiry check
    runs

Outcomes: error names (MEMBER_ID_REQUIRED), `generation 2 leader A` for a join (`leads` when it is A itself, `of A B`
for the members a leader sees), `assigned p0` for a sync, `waits` when there is no answer yet, NONE.
"""

from __future__ import annotations

import re
from typing import Any

from kraft.common.errors import ApiError
from kraft.coordinator.group.classic.heartbeat import heartbeat
from kraft.coordinator.group.classic.join import join
from kraft.coordinator.group.classic.leave import leave
from kraft.coordinator.group.classic.sync import sync
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.deletion import delete_groups
from kraft.coordinator.group.offsets.offset_commit import commit_offsets
from kraft.coordinator.group.offsets.offset_expiry import expiring
from kraft.coordinator.group.offsets.offset_fetch import fetch_offsets
from kraft.coordinator.shard import PARKED
from kraft.protocol.error_codes import name_of
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kraft.protocol.messages.sync_group_response import SyncGroupResponse
from tests.unit.coordinator.group_host import (
    GroupHost,
    TestCaller,
    commit_request,
    heartbeat_request,
    join_request,
    leaving,
    result_of,
    subscription,
    sync_request,
)

GROUP = "g"


class Actor:
    def __init__(self, name: str) -> None:
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.instance_id: str | None = None
        self.waiting: list[int] = []


class Scenario:
    """One run of one file. Fails at the line whose outcome differs, with what came instead."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.host = GroupHost(GroupCoordinatorConfig())
        self.actors: dict[str, Actor] = {}
        self.ids = 0

    def run(self) -> None:
        for number, line in enumerate(self.lines, 1):
            step, _, expected = (part.strip() for part in line.split("#")[0].partition("->"))
            if step:
                try:
                    outcome = self._step(step)
                except AssertionError as problem:
                    raise AssertionError(f"line {number}: {line.strip()}\n    {problem}") from problem
                wanted = expected or ("waits" if outcome == "waits" and step.endswith(" waits") else "")
                if expected or outcome not in ("", "NONE", "waits"):
                    assert outcome == wanted, f"line {number}: {line.strip()}\n    came out as: {outcome}"
        answers = self.host.answers
        unread = [
            f"{actor.name}: {self._outcome(actor, answers[token])}"
            for actor in self.actors.values()
            for token in actor.waiting
            if token in answers
        ]
        assert not unread, f"answers that the scenario does not mention: {unread}"

    def _step(self, step: str) -> str:
        words = step.split()
        method = getattr(self, f"_do_{words[0]}", None)
        if method is not None:
            return str(method(words[1:]))
        actor = self.actors.setdefault(words[0], Actor(words[0]))
        return str(getattr(self, f"_actor_{words[1]}")(actor, words[2:]))

    # Steps about nobody in particular.

    def _do_config(self, words: list[str]) -> str:
        self.host = GroupHost(
            GroupCoordinatorConfig(**{key: int(value) for key, value in (word.split("=") for word in words)})
        )
        return ""

    def _do_wait(self, words: list[str]) -> str:
        self.host.advance(milliseconds(words[0]))
        return ""

    def _do_reload(self, words: list[str]) -> str:
        self.host.load()
        for actor in self.actors.values():
            actor.waiting = []
        return ""

    def _do_group(self, words: list[str]) -> str:
        group = self.host.state.group(GROUP)
        if group is None:
            return "does not exist"
        parts = [group.state.value, f"generation {group.generation}"]
        if group.members:
            parts.append("members " + " ".join(sorted(self._name(member_id) for member_id in group.members)))
            parts.append(f"leader {self._name(group.leader or '')}")
        return " ".join(parts)

    def _do_fetch(self, words: list[str]) -> str:
        wanted = [partition_of(word) for word in words]
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition]) for topic, partition in wanted]
        request = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
        answer = result_of(fetch_offsets(self.host.state, request, lambda name: None))
        return " ".join(str(topic.partitions[0].committed_offset) for topic in answer.topics)

    def _do_delete(self, words: list[str]) -> str:
        _, results = self.host.run(lambda draft: delete_groups(draft, [GROUP]))
        return name_of(results[0].error_code)

    def _do_expire(self, words: list[str]) -> str:
        self.host.walk(expiring(None))
        return ""

    # Steps of an actor.

    def _actor_join(self, actor: Actor, words: list[str]) -> str:
        options = dict(word.split("=") for word in words)
        actor.instance_id = options.get("instance", actor.instance_id)
        topics = options.get("topics", "t").split(",")
        request = join_request(
            GROUP,
            actor.member_id,
            instance_id=actor.instance_id,
            protocols=tuple(
                (name, subscription(*topics)) for name in options.get("protocols", "range").split(",") if name
            ),
            session_ms=milliseconds(options.get("session", "10s")),
            rebalance_ms=milliseconds(options.get("rebalance", "60s")),
            protocol_type=options.get("type", "consumer"),
        )
        self.ids += 1
        caller = TestCaller(int(options.get("version", "9")), client_id=actor.name)
        suffix = f"{actor.name}{self.ids}"
        return self._ask(actor, lambda draft: join(draft, request, caller, suffix))

    def _actor_sync(self, actor: Actor, words: list[str]) -> str:
        given = dict(word.split("=") for word in words)
        assignments = {self.actors[name].member_id: assignment.encode() for name, assignment in given.items()}
        request = sync_request(GROUP, actor.member_id, actor.generation, assignments, actor.instance_id)
        return self._ask(actor, lambda draft: sync(draft, request))

    def _actor_heartbeat(self, actor: Actor, words: list[str]) -> str:
        request = heartbeat_request(GROUP, actor.member_id, actor.generation, actor.instance_id)
        return self._ask(actor, lambda draft: heartbeat(draft, request))

    def _actor_leave(self, actor: Actor, words: list[str]) -> str:
        options = dict(word.split("=") for word in words)
        identity = (
            leaving("", options["instance"]) if "instance" in options else leaving(actor.member_id, actor.instance_id)
        )
        _, response = self.host.run(lambda draft: leave(draft, GROUP, [identity]))
        return name_of(response.members[0].error_code)

    def _actor_commit(self, actor: Actor, words: list[str]) -> str:
        offsets = {partition_of(name): int(offset) for name, offset in (word.split("=") for word in words)}
        request = commit_request(GROUP, offsets, actor.member_id, actor.generation, instance_id=actor.instance_id)
        try:
            self.host.run(lambda draft: commit_offsets(draft, request, 9))
        except ApiError as refused:
            return name_of(refused.code)
        return "NONE"

    def _actor_gets(self, actor: Actor, words: list[str]) -> str:
        assert actor.waiting, f"{actor.name} has asked nothing that waits"
        token = actor.waiting.pop(0)
        assert token in self.host.answers, f"{actor.name} still waits"
        return self._outcome(actor, self.host.answers[token])

    def _actor_waits(self, actor: Actor, words: list[str]) -> str:
        assert actor.waiting, f"{actor.name} has asked nothing that waits"
        answered = [token for token in actor.waiting if token in self.host.answers]
        assert not answered, (
            f"{actor.name} got {[self._outcome(actor, self.host.answers[token]) for token in answered]}"
        )
        return "waits"

    def _actor_is(self, actor: Actor, words: list[str]) -> str:
        original = self.actors[words[-1]]
        actor.member_id, actor.generation, actor.instance_id = (
            original.member_id,
            original.generation,
            original.instance_id,
        )
        return ""

    def _actor_forgets(self, actor: Actor, words: list[str]) -> str:
        actor.member_id, actor.generation, actor.waiting = "", -1, []
        return ""

    def _ask(self, actor: Actor, operation: Any) -> str:
        try:
            token, response = self.host.run(operation)
        except ApiError as refused:
            return name_of(refused.code)
        if response is PARKED and token not in self.host.answers:
            actor.waiting.append(token)
            return "waits"
        return self._outcome(actor, self.host.answers[token])

    def _outcome(self, actor: Actor, response: Any) -> str:
        """What the answer says, and what the actor learns from it."""
        error = name_of(response.error_code)
        if isinstance(response, JoinGroupResponse):
            if error in ("NONE", "MEMBER_ID_REQUIRED"):
                actor.member_id = response.member_id
            if error == "NONE":
                actor.generation = response.generation_id
                return self._joined(actor, response)
        elif isinstance(response, SyncGroupResponse) and error == "NONE":
            return f"assigned {bytes(response.assignment).decode()}".strip()
        return error

    def _joined(self, actor: Actor, response: JoinGroupResponse) -> str:
        leader = "leads" if response.leader == response.member_id else f"leader {self._name(response.leader)}"
        seen = (
            " of " + " ".join(self._name(member.member_id) for member in response.members) if response.members else ""
        )
        skip = " skips assignment" if response.skip_assignment else ""
        return f"generation {response.generation_id} {leader}{seen}{skip}"

    def _name(self, member_id: str) -> str:
        """Member ids end in the name of the actor they were made for, and a number."""
        return re.sub(r"\d+$", "", member_id.rsplit("-", 1)[-1])


def milliseconds(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text).groups()  # type: ignore[union-attr]  # A scenario with a bad time is a bad test: let it fail here.
    return int(number) * {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}[unit]


def partition_of(text: str) -> tuple[str, int]:
    topic, _, partition = text.rpartition("-")
    return topic, int(partition)
