"""Laws of consumer groups (KIP-848), whatever clients do and lose:

- No partition has two owners: what two members believe to have, in epochs that are not fenced, is disjoint.
- Once everybody has settled, each partition of a subscribed topic has exactly one owner.
- A target that was computed for the group's epoch is the one that the assignor finds for its members.
- Nobody gets a topic that a pattern matches and that the member may not describe.
- The log tells what the coordinator believes: replayed from the start, whole or compacted, it gives the same state.

And of the assignors: every partition goes to one of its subscribers, `uniform` is as even as the subscriptions allow,
and moves no more than that takes.
"""

from __future__ import annotations

import os
from random import Random
from unittest.mock import patch

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kraft.coordinator.group.consumer import assigning
from kraft.coordinator.group.consumer.assignors.subscriber import Subscriber
from kraft.coordinator.group.consumer.target import ASSIGNORS
from kraft.protocol.error_codes import ErrorCode
from tests.unit.coordinator.consumers import GROUP, Consumer, ConsumerHost, is_target_of_its_members
from tests.unit.coordinator.group_host import rebuild

EXAMPLES = 2000 if os.environ.get("KRAFT_SOAK") else 60
STEPS = 80
TOPICS = ("t", "u", "v")
HIDDEN = "hidden"
PATTERNS = ("", "", "t|u", "[uv]", ".*")
FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID)

relaxed = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


class ConsumerLife:
    """Some clients, in a group, and what may happen to them. A client that is fenced gives up everything and joins
    again; one that crashes is silent."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.host = ConsumerHost()
        self.host.topics.names = [*TOPICS, HIDDEN]
        self.host.topics.counts = {"t": 3, "u": 1, "v": 4}
        self.host.hidden = {HIDDEN}
        self.clients: list[Consumer] = []
        self.made = 0

    def step(self) -> None:
        deeds = [self.beat] * 8 + [self.join] * 2 + [self.advance] * 3 + [self.host.do_jobs] * 2
        deeds += [self.host.begin_targets] * 2 + [self.host.end_targets] * 2
        deeds += [self.lose_answer, self.leave, self.crash, self.subscribe, self.change_topics, self.reload, self.away]
        self.random.choice(deeds)()
        self.check()

    def pick(self) -> Consumer | None:
        return self.random.choice(self.clients) if self.clients else None

    def join(self) -> None:
        if len(self.clients) < 6:
            self.made += 1
            names = self.random.sample(TOPICS, self.random.randint(1, 3))
            assignor = self.random.choice([{}, {"server_assignor": "range"}])
            client = Consumer(self.host, f"member-{self.made}", *names, **assignor)
            client.pattern = self.random.choice(PATTERNS)
            self.clients.append(client)
            client.join()

    def beat(self) -> None:
        client = self.pick()
        if client is not None:
            self.take(client, client.send(full=self.random.random() < 0.2))

    def take(self, client: Consumer, answer: object) -> None:
        client.take(answer)  # type: ignore[arg-type]  # What `send` gave.
        if client.error in FENCED:
            client.join()
            if client.error != ErrorCode.NONE:
                self.clients.remove(client)

    def lose_answer(self) -> None:
        client = self.pick()
        if client is not None:
            client.send()

    def leave(self) -> None:
        client = self.pick()
        if client is not None:
            self.clients.remove(client)
            client.leave()

    def away(self) -> None:
        """A static member restarts; most come back at once."""
        self.made += 1
        client = Consumer(self.host, f"static-{self.made}", *TOPICS, instance_id="i")
        holder = next((each for each in self.clients if each.instance_id), None)
        if holder is not None:
            self.clients.remove(holder)
            holder.leave(-2)
        if self.random.random() < 0.8 and client.join().error == ErrorCode.NONE:
            self.clients.append(client)

    def crash(self) -> None:
        client = self.pick()
        if client is not None:
            self.clients.remove(client)
            client.owned, client.assigned = set(), set()

    def subscribe(self) -> None:
        client = self.pick()
        if client is not None:
            client.topics = self.random.sample(TOPICS, self.random.randint(0, 3))
            client.pattern = self.random.choice(PATTERNS)
            self.take(client, client.send(full=True))

    def change_topics(self) -> None:
        name = self.random.choice(TOPICS)
        change = self.random.randrange(3)
        if change == 0:
            self.host.topics.counts[name] += 1
        elif name in self.host.topics.names:
            self.host.topics.names.remove(name)
        else:
            self.host.topics.recreate(name)

    def advance(self) -> None:
        self.host.advance(self.random.choice([10, 1_000, 5_000, 46_000]))

    def reload(self) -> None:
        before = self.host.state
        self.host.load()
        assert self.host.state == before

    def check(self) -> None:
        owners: dict[tuple[bytes, int], str] = {}
        group = self.host.state.consumer_group(GROUP)
        members = {} if group is None else group.members
        for client in self.clients:
            member = members.get(client.member_id)
            if member is None or client.epoch not in (member.member_epoch, member.previous_epoch):
                continue  # It is fenced: its session is over at its own place as well.
            for key in client.owned:
                assert self.host.topics.topic_name(key[0]) != HIDDEN, "a hidden topic is shown"
                assert owners.setdefault(key, client.member_id) == client.member_id, f"{key} has two owners"
        if group is not None:
            assert is_target_of_its_members(group, self.host.topics), "a target of other members"
            held: dict[tuple[bytes, int], str] = {}
            for member in group.members_in_order():
                for owned in (member.assigned, member.revoking):
                    for topic_id, partitions in owned.items():
                        for partition in partitions:
                            assert held.setdefault((topic_id, partition), member.member_id) == member.member_id
                assert not any(
                    set(member.assigned.get(topic_id, {})) & set(member.revoking[topic_id])
                    for topic_id in member.revoking
                )
            assert dict(group.owners.items()) == held

    def settle(self) -> None:
        for _ in range(60):
            self.host.do_jobs()
            self.host.advance(1_000)
            for client in list(self.clients):
                self.take(client, client.send())
            self.check()

    def check_settled(self) -> None:
        group = self.host.state.consumer_group(GROUP)
        if group is None or not self.clients:
            return
        topics = self.host.topics
        wanted = {
            (topics.topic_id(name), partition)
            for client in self.clients
            for name in client.wants()
            if topics.topic_id(name) is not None
            for partition in range(topics.partition_count(name))
        }
        has = sorted(key for client in self.clients for key in client.owned)
        assert has == sorted(wanted)  # type: ignore[type-var]  # Ids of topics that exist.
        assert group.state.value == "Stable"


@relaxed
@given(st.integers(0, 2**32 - 1), st.sampled_from([0, assigning.INLINE_COST_MAX]))
@example(699798, 0)  # A member's new expression waits while its former one is forgotten.
@example(1936627, 0)  # A target is computed while a topic is deleted, which then is recreated.
def test_no_partition_ever_has_two_owners_and_every_partition_eventually_has_one(
    seed: int, inline_cost_max: int
) -> None:
    life = ConsumerLife(seed)
    with patch.object(assigning, "INLINE_COST_MAX", inline_cost_max):
        for _ in range(STEPS):
            life.step()
        life.settle()
    life.check_settled()
    log = life.host.log
    last = {key: position for position, (key, _) in enumerate(log)}
    compacted = [record for position, record in enumerate(log) if last[record[0]] == position]
    assert rebuild(life.host.shard, log) == rebuild(life.host.shard, compacted) == life.host.state


IDS = [bytes([number]) * 16 for number in range(4)]


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Subscriber], dict[bytes, int]]:
    """Subscribers with a previous assignment, which may be of topics that shrank since."""
    source = Random(draw(st.integers(0, 2**32 - 1)))
    counts = {topic_id: source.randint(0, 9) for topic_id in IDS}
    same = source.random() < 0.4
    chosen = frozenset(source.sample(IDS, source.randint(1, 4)))
    previous = {(topic_id, partition): source.randint(0, 7) for topic_id in IDS for partition in range(9)}
    subscribers = []
    for number in range(draw(st.integers(1, 7))):
        current: dict[bytes, frozenset[int]] = {}
        for (topic_id, partition), owner in previous.items():
            if owner == number:
                current[topic_id] = current.get(topic_id, frozenset()) | {partition}
        topics = chosen if same else frozenset(source.sample(IDS, source.randint(0, 4)))
        instance = f"i{source.randint(0, 99)}-{number}" if source.random() < 0.3 else None
        subscribers.append(Subscriber(f"m{number}", instance, topics, current))
    subscribed = frozenset().union(*(subscriber.topic_ids for subscriber in subscribers))
    return subscribers, {topic_id: count for topic_id, count in counts.items() if topic_id in subscribed}


@relaxed
@given(groups(), st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_is_assigned_to_one_of_its_subscribers(
    group: tuple[list[Subscriber], dict[bytes, int]], name: str
) -> None:
    subscribers, counts = group
    assignment = ASSIGNORS[name](subscribers, counts)
    topics = {subscriber.member_id: subscriber.topic_ids for subscriber in subscribers}
    given_out = sorted(
        (topic_id, partition)
        for member_id, parts in assignment.items()
        for topic_id, partitions in parts.items()
        for partition in partitions
        if topic_id in topics[member_id]
    )
    assert given_out == sorted((topic_id, partition) for topic_id in counts for partition in range(counts[topic_id]))


def best(subscribers: list[Subscriber], counts: dict[bytes, int]) -> tuple[list[int], int]:
    """The most even loads there are, sorted, and how many partitions can stay in place with them: each partition in its
    turn goes the cheapest way through the residual network, as Bellman and Ford find it."""
    partitions = [(topic_id, partition) for topic_id in counts for partition in range(counts[topic_id])]
    owners: dict[tuple[bytes, int], int] = {}
    loads = [0] * len(subscribers)

    def cost(place: tuple[bytes, int], member: int) -> int:
        return int(place[1] not in subscribers[member].current.get(place[0], ()))

    for start in partitions:
        ways: dict[int, tuple[int, list[tuple[tuple[bytes, int], int]]]] = {}
        for member, subscriber in enumerate(subscribers):
            if start[0] in subscriber.topic_ids:
                ways[member] = (cost(start, member), [(start, member)])
        for _ in subscribers:
            for place, owner in owners.items():
                if owner not in ways:
                    continue
                for member, subscriber in enumerate(subscribers):
                    price = ways[owner][0] - cost(place, owner) + cost(place, member)
                    if place[0] in subscriber.topic_ids and (member not in ways or price < ways[member][0]):
                        ways[member] = (price, [*ways[owner][1], (place, member)])
        last = min(ways, key=lambda member: (loads[member], ways[member][0]))
        owners.update(ways[last][1])
        loads[last] += 1
    return sorted(loads), sum(1 - cost(place, owner) for place, owner in owners.items())


@relaxed
@given(groups())
def test_the_uniform_assignor_is_optimally_even_with_the_fewest_moves(
    group: tuple[list[Subscriber], dict[bytes, int]],
) -> None:
    subscribers, counts = group
    assignment = ASSIGNORS["uniform"](subscribers, counts)
    kept = sum(
        len(assignment[each.member_id].get(topic_id, set()) & partitions)
        for each in subscribers
        for topic_id, partitions in each.current.items()
    )
    loads = sorted(sum(map(len, parts.values())) for parts in assignment.values())
    assert (loads, kept) == best(subscribers, counts)


@relaxed
@given(groups())
def test_the_uniform_assignor_keeps_a_balanced_assignment(group: tuple[list[Subscriber], dict[bytes, int]]) -> None:
    subscribers, counts = group
    first = ASSIGNORS["uniform"](subscribers, counts)
    again = [
        Subscriber(
            each.member_id,
            each.instance_id,
            each.topic_ids,
            {topic_id: frozenset(partitions) for topic_id, partitions in first[each.member_id].items()},
        )
        for each in subscribers
    ]
    assert ASSIGNORS["uniform"](again, counts) == first
