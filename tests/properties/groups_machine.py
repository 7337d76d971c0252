"""Random lives of groups: actors that join, sync, beat, commit, leave, fall asleep and come back, while time passes
and coordinators die."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.coordinator.group.classic.classic_group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from kraft.coordinator.group.classic.heartbeat import heartbeat
from kraft.coordinator.group.classic.join import join
from kraft.coordinator.group.classic.leave import leave
from kraft.coordinator.group.classic.sync import sync
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.deletion import delete_groups, forgetting
from kraft.coordinator.group.offsets.offset_commit import commit_offsets
from kraft.coordinator.group.offsets.offset_expiry import expiring
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.coordinator.shard import PARKED
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.sync_group_response import SyncGroupResponse
from tests.unit.coordinator.group_host import (
    GroupHost,
    TestCaller,
    commit_request,
    heartbeat_request,
    join_request,
    leaving,
    rebuild,
    subscription,
    sync_request,
)

GROUPS = ("g", "h")
ACTORS = 5
CONFIG = GroupCoordinatorConfig(
    group_initial_rebalance_delay_ms=500,
    offsets_retention_minutes=10,
    offsets_retention_check_interval_ms=120_000,
    group_max_size=4,
)
PROTOCOLS = ("range", "sticky"), ("sticky", "range"), ("range",), ("sticky",)

actors = st.integers(0, ACTORS - 1)
commands = st.one_of(
    st.tuples(
        st.just("join"),
        actors,
        st.sampled_from(PROTOCOLS),
        st.sampled_from((0, 3, 4, 8, 9)),
        st.sampled_from(("t", "u")),
    ),
    st.tuples(st.just("sync"), actors),
    st.tuples(st.just("sync"), actors),
    st.tuples(st.just("join_all"), st.integers(0, 1)),
    st.tuples(st.just("sync_all"), st.integers(0, 1)),
    st.tuples(st.just("heartbeat"), actors),
    st.tuples(st.just("commit"), actors, st.integers(0, 2), st.integers(0, 99)),
    st.tuples(st.just("commit_outside"), st.integers(0, 1), st.integers(0, 2), st.integers(0, 99)),
    st.tuples(st.just("leave"), actors),
    st.tuples(st.just("evict"), actors),
    st.tuples(st.just("restart"), actors),
    st.tuples(st.just("zombie"), actors, actors),
    st.tuples(st.just("wait"), st.sampled_from((1, 500, 3_000, 6_000, 20_000, 700_000))),
    st.tuples(st.just("delete"), st.integers(0, 1)),
    st.tuples(st.just("forget_topic"), st.sampled_from(("t", "u"))),
    st.tuples(st.just("expire")),
    st.tuples(st.just("reload")),
)


# How often each command comes in a long life: mostly clients that behave, now and then something that ends what they
# built.
WEIGHTS = {
    "join": 14,
    "join_all": 10,
    "sync": 14,
    "sync_all": 14,
    "heartbeat": 12,
    "commit": 14,
    "commit_outside": 3,
    "leave": 3,
    "evict": 1,
    "restart": 4,
    "zombie": 3,
    "wait": 14,
    "delete": 1,
    "forget_topic": 1,
    "expire": 1,
    "reload": 2,
}


def random_command(source: Random) -> tuple[Any, ...]:
    """One command, drawn by weight: for lives longer than Hypothesis likes to build."""
    name = source.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    actor, group, offset = source.randrange(ACTORS), source.randrange(2), source.randrange(100)
    arguments: dict[str, tuple[Any, ...]] = {
        "join": (actor, source.choice(PROTOCOLS), source.choice((0, 3, 4, 8, 9)), source.choice("tu")),
        "commit": (actor, source.randrange(3), offset),
        "commit_outside": (group, source.randrange(3), offset),
        "zombie": (actor, source.randrange(ACTORS)),
        "wait": (source.choice((1, 1, 500, 500, 500, 3_000, 6_000, 20_000, 700_000)),),
        "forget_topic": (source.choice("tu"),),
        "expire": (),
        "reload": (),
    }
    return name, *arguments.get(name, (group,) if name in ("join_all", "sync_all", "delete") else (actor,))


class Actor:
    """A client as it believes itself to be. Odd actors are static members; actors 0-2 are in group g, the others in
    h."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.group = GROUPS[0] if number < 3 else GROUPS[1]
        self.instance_id = f"i{number}" if number % 2 else None
        self.member_id = ""
        self.generation = -1
        self.protocols: tuple[str, ...] = ("range",)
        self.requests: dict[int, str] = {}


class GroupLife:
    """Runs commands and watches. `check` holds after every command."""

    def __init__(self) -> None:
        self.host = GroupHost(CONFIG)
        self.actors = [Actor(number) for number in range(ACTORS)]
        self.joins = 0
        # What the outside world has been promised.
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        self.told: dict[str, int] = {}
        self.generations: dict[tuple[str, int], tuple[str, str | None]] = {}
        self.assigned: dict[tuple[str, int], dict[str, bytes]] = {}
        self.seen_answers: set[int] = set()
        self.parked: dict[int, tuple[Actor, str, int]] = {}

    def do(self, command: tuple[Any, ...]) -> None:
        before = self.host.state
        picture = plain(before)
        getattr(self, f"_{command[0]}")(*command[1:])
        self._listen()
        for group in GROUPS:
            if group not in self.host.state.groups:
                self._new_life(group)
        assert plain(before) == picture, "an operation changed the state that it started from"
        self.check()

    # Commands.

    def _join(self, number: int, protocols: tuple[str, ...], version: int, topic: str) -> None:
        actor = self.actors[number]
        if actor.instance_id is not None and version < 5:
            version = 5
        actor.protocols = protocols
        request = join_request(
            actor.group,
            actor.member_id,
            instance_id=actor.instance_id,
            protocols=tuple((name, subscription(topic)) for name in protocols),
            session_ms=6_000 + 1_000 * number,
            rebalance_ms=9_000,
        )
        self.joins += 1
        suffix = str(self.joins)
        self._ask(actor, "join", lambda draft: join(draft, request, TestCaller(version, f"c{number}"), suffix))

    def _join_all(self, group: int) -> None:
        for actor in self.actors:
            if actor.group == GROUPS[group]:
                self._join(actor.number, ("range", "sticky"), 9, "t")
                self._listen()
                if actor.member_id and not any(self.parked[token][0] is actor for token in self.parked):
                    self._join(actor.number, ("range", "sticky"), 9, "t")

    def _sync(self, number: int) -> None:
        actor = self.actors[number]
        group = self.host.state.group(actor.group)
        assignments = {}
        if group is not None and group.leader == actor.member_id:
            assignments = {
                member_id: f"{member_id}@{actor.generation}#{len(self.host.log)}".encode()
                for member_id in group.members
            }
            if group.state is COMPLETING_REBALANCE and group.generation == actor.generation:
                self.assigned[actor.group, actor.generation] = assignments
        request = sync_request(actor.group, actor.member_id, actor.generation, assignments, actor.instance_id)
        self._ask(actor, "sync", lambda draft: sync(draft, request))

    def _sync_all(self, group: int) -> None:
        for actor in self.actors:
            if actor.group == GROUPS[group]:
                self._sync(actor.number)

    def _heartbeat(self, number: int) -> None:
        actor = self.actors[number]
        request = heartbeat_request(actor.group, actor.member_id, actor.generation, actor.instance_id)
        self._try(lambda draft: heartbeat(draft, request))

    def _commit(self, number: int, partition: int, offset: int) -> None:
        actor = self.actors[number]
        if actor.generation < 0:
            return
        request = commit_request(
            actor.group, {("t", partition): offset}, actor.member_id, actor.generation, instance_id=actor.instance_id
        )
        if self._try(lambda draft: commit_offsets(draft, request, 9)):
            self.committed[actor.group, TopicPartition("t", partition)] = offset
            assert actor.generation >= self.told.get(actor.group, -1), "a commit of a fenced generation was accepted"
            group = self.host.state.groups[actor.group]
            assert actor.member_id in group.members, "a commit of somebody who is not a member was accepted"

    def _commit_outside(self, group: int, partition: int, offset: int) -> None:
        request = commit_request(GROUPS[group], {("u", partition): offset})
        before = self.host.state.group(GROUPS[group])
        if self._try(lambda draft: commit_offsets(draft, request, 9)):
            assert before is None or before.state is EMPTY, (
                "an outsider's commit was accepted while the group has members"
            )
            self.committed[GROUPS[group], TopicPartition("u", partition)] = offset

    def _leave(self, number: int) -> None:
        actor = self.actors[number]
        self.host.run(lambda draft: leave(draft, actor.group, [leaving(actor.member_id, actor.instance_id)]))
        actor.member_id, actor.generation = "", -1

    def _evict(self, number: int) -> None:
        actor = self.actors[number]
        if actor.instance_id is not None:
            self.host.run(lambda draft: leave(draft, actor.group, [leaving("", actor.instance_id)]))

    def _restart(self, number: int) -> None:
        self.actors[number].member_id, self.actors[number].generation = "", -1

    def _zombie(self, number: int, of: int) -> None:
        """One client takes over another's beliefs, which may be old by the time it acts on them."""
        actor, other = self.actors[number], self.actors[of]
        if actor.group == other.group:
            actor.member_id, actor.generation, actor.instance_id = other.member_id, other.generation, other.instance_id

    def _wait(self, milliseconds: int) -> None:
        before = set(self.committed)
        self.host.advance(milliseconds)
        # Only expiry may take offsets away, and only where nobody can be using them; the laws of expiry have tests of
        # their own.
        self.committed = {
            key: offset for key, offset in self.committed.items() if key[1] in self.host.state.offsets_of(key[0])
        }
        if milliseconds < 120_000 and before != set(self.committed):
            assert self.host.now_ms >= 600_000, "offsets went before their time"

    def _delete(self, group: int) -> None:
        _, results = self.host.run(lambda draft: delete_groups(draft, [GROUPS[group]]))
        if results[0].error_code == 0:
            self.committed = {key: offset for key, offset in self.committed.items() if key[0] != GROUPS[group]}

    def _forget_topic(self, topic: str) -> None:
        self.host.walk(forgetting([(topic, bytes(16))]))
        self.committed = {key: offset for key, offset in self.committed.items() if key[1].topic != topic}

    def _expire(self) -> None:
        self.host.walk(expiring(None))
        self.committed = {
            key: offset for key, offset in self.committed.items() if key[1] in self.host.state.offsets_of(key[0])
        }

    def _reload(self) -> None:
        self.host.load()
        self.parked = {}
        for group in GROUPS:
            self._new_life(group)

    def _new_life(self, group: str) -> None:
        """Generations that were never settled are not remembered, so their numbers come again."""
        self.told.pop(group, None)
        for history in (self.generations, self.assigned):
            for key in [key for key in history if key[0] == group]:
                del history[key]  # type: ignore[attr-defined]  # Both are dicts with the same kind of key.

    # Watching.

    def _ask(self, actor: Actor, kind: str, operation: Any) -> None:
        generation = actor.generation
        token, _ = self.host.run(operation)
        self.parked[token] = (actor, kind, generation)

    def _try(self, operation: Any) -> bool:
        try:
            _, response = self.host.run(operation)
        except ApiError:
            return False
        assert response is not PARKED
        return getattr(response, "error_code", 0) == 0

    def _listen(self) -> None:
        """Actors hear what has been answered; the laws of agreement are about this."""
        for token in [token for token in self.parked if token in self.host.answers]:
            actor, _, generation = self.parked.pop(token)
            response = self.host.answers[token]
            if isinstance(response, JoinGroupResponse):
                self._heard_join(actor, response)
            elif isinstance(response, SyncGroupResponse) and response.error_code == 0:
                assignment = self.assigned.get((actor.group, generation))
                if assignment is not None:
                    assert bytes(response.assignment) in assignment.values(), (
                        "a member got an assignment of another generation"
                    )

    def _heard_join(self, actor: Actor, response: JoinGroupResponse) -> None:
        if response.error_code in (0, 79):
            actor.member_id = response.member_id
        if response.error_code:
            return
        generation = response.generation_id
        actor.generation = generation
        assert generation >= self.told.get(actor.group, -1), "generations went back"
        self.told[actor.group] = generation
        leads = response.leader == response.member_id
        if leads:
            assert response.member_id in [member.member_id for member in response.members]
        known = self.generations.setdefault((actor.group, generation), (response.leader, response.protocol_name))
        assert known[1] == response.protocol_name, "members of one generation were told different protocols"

    def check(self) -> None:
        for group_id in sorted(self.host.state.groups):
            check_group(self.host.state.groups[group_id])
        again = rebuild(self.host.shard, self.host.log)
        assert sorted(again.groups) == sorted(self.host.state.groups)
        assert again.offsets == self.host.state.offsets
        for group_id in sorted(again.groups):
            live = self.host.state.groups[group_id]
            if live.state in (STABLE, EMPTY):
                assert settled(live) == settled(again.groups[group_id]), (
                    "what the log says is not what the coordinator believes"
                )
            else:
                assert again.groups[group_id].generation <= live.generation
        for (group_id, partition), offset in self.committed.items():
            assert self.host.offsets(group_id)[partition].offset == offset, "a committed offset is gone or changed"


def check_group(group: ClassicGroup) -> None:
    """What is true of every group at every moment."""
    members = group.members.values()
    assert group.awaiting_join_count == sum(member.awaiting_join is not None for member in members)
    supporters: dict[str, int] = {}
    for member in members:
        for name, _ in member.protocols:
            supporters[name] = supporters.get(name, 0) + 1
    assert group.supporters == supporters
    assert group.static_members == {
        member.group_instance_id: member.member_id for member in members if member.group_instance_id is not None
    }
    assert all(key == member.member_id for key, member in group.members.items())
    assert not set(group.pending_joins) & set(group.members)
    assert set(group.pending_syncs) <= set(group.members)
    assert (group.state is EMPTY) == (not members) or (
        group.state is PREPARING_REBALANCE and group.join_deadline_ms is not None
    )
    assert (group.leader in group.members) == bool(members)
    assert (group.leader is None) == (not members)
    for member in members:
        assert member.session_deadline_ms is not None or member.satisfies_heartbeat, "a member without an end"
    if group.state is PREPARING_REBALANCE:
        assert group.join_deadline_ms is not None, "a join phase without an end"
        assert not any(member.awaiting_sync is not None for member in members)
        assert not group.pending_syncs
    else:
        assert group.awaiting_join_count == 0
    if group.state in (COMPLETING_REBALANCE, STABLE):
        assert all(any(name == group.protocol for name, _ in member.protocols) for member in members)
        assert not group.pending_syncs or group.sync_deadline_ms is not None, "a sync phase without an end"
    if group.state in (STABLE, EMPTY):
        assert not any(member.awaiting_sync is not None for member in members)


def settled(group: ClassicGroup) -> tuple[Any, ...]:
    """What a group's record has to say of it."""
    members = [
        (
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata_for(group.protocol),
            member.assignment,
        )
        for member in group.members.values()
    ]
    topics = group.subscribed_topics
    return (
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader,
        group.state_timestamp_ms,
        members,
        group.static_members,
        topics,
    )


def plain(state: GroupShardState) -> Any:
    """The whole state as plain values that share nothing with it."""
    groups = {
        group_id: tuple(
            dict(value) if isinstance(value := getattr(state.groups[group_id], name), dict) else value
            for name in ClassicGroup.__slots__
        )
        for group_id in sorted(state.groups)
    }
    return groups, {group_id: dict(state.offsets[group_id]) for group_id in sorted(state.offsets)}
