"""Laws of a group whose members speak the classic and the consumer protocol in turns, whatever they do and lose:

- No partition has two owners: what members of either protocol believe to have, in a generation or an epoch that is not
  fenced, is disjoint. Nor has it two in what the coordinator holds.
- Offsets that were committed stay, whichever way the group goes.
- A static member keeps its place: its instance id belongs to whoever joined with it last.
- The log tells what the coordinator believes, whole or compacted.
- Nobody gets a topic that a pattern matches and that the member may not describe.
- Once everybody has settled, each partition of a subscribed topic has exactly one owner.
- A target that was computed for the group's epoch is the one that the assignor finds for its members.
- A group that members of another protocol type are in is never taken over.

A seed is a life for each policy. `python -m tests.properties.migrating_group --these SEED...` runs seeds, and says in a
line of JSON what came of each.
"""

from __future__ import annotations

import sys
import traceback
from random import Random
from unittest.mock import patch

from kraft.coordinator.group.classic.classic_group import EMPTY, STABLE
from kraft.coordinator.group.config import GroupCoordinatorConfig, MigrationPolicy
from kraft.coordinator.group.consumer import assigning
from kraft.protocol.error_codes import ErrorCode
from tests.properties.groups_machine import check_group, settled
from tests.properties.seeds import run_seeds
from tests.unit.coordinator.classic_consumers import ClassicConsumer
from tests.unit.coordinator.consumers import GROUP, Consumer, ConsumerHost, is_target_of_its_members
from tests.unit.coordinator.group_host import rebuild

STEPS = 80
TOPICS = ("t", "u", "v")
FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID)
INSTANCE = "i"
HIDDEN = "hidden"
PATTERNS = ("", "", "t|u", "[uv]", ".*")

AnyConsumer = ClassicConsumer | Consumer


class MigratingLife:
    """Some clients of either protocol in one group. A client that is fenced gives up everything and joins again; one
    that crashes is silent."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.host = ConsumerHost(GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0))
        self.host.topics.names = [*TOPICS, HIDDEN]
        self.host.hidden = {HIDDEN}
        self.host.topics.counts = {"t": 3, "u": 1, "v": 4}
        self.clients: list[AnyConsumer] = []
        self.made = 0
        self.committed: dict[tuple[str, int], int] = {}
        self.kinds: set[str] = set()

    def step(self) -> None:
        deeds = [self.beat] * 10 + [self.join] * 3 + [self.advance] * 3 + [self.commit] * 2 + [self.restart] * 2
        deeds += [self.join_foreign, self.lose_answer, self.leave, self.crash, self.subscribe, self.grow, self.reload]
        deeds += [self.host.do_jobs] + [self.host.begin_targets] * 3 + [self.host.end_targets]
        self.random.choice(deeds)()
        self.check()

    def pick(self) -> AnyConsumer | None:
        return self.random.choice(self.clients) if self.clients else None

    def make(self, instance_id: str | None = None) -> AnyConsumer:
        self.made += 1
        # Nobody rebalances for a static member that comes back to a classic group with another subscription (KIP-345).
        names = list(TOPICS) if instance_id else self.random.sample(TOPICS, self.random.randint(1, 3))
        if self.random.random() < 0.5:
            made = Consumer(self.host, f"member-{self.made}", *names, instance_id=instance_id)
            made.pattern = "" if instance_id else self.random.choice(PATTERNS)
            return made
        cooperative = self.random.random() < 0.5
        name = f"classic-{self.made}"
        return ClassicConsumer(
            self.host,
            name,
            *names,
            instance_id=instance_id,
            cooperative=cooperative,
            prompt=self.random.random() < 0.5,
        )

    def start(self, client: AnyConsumer) -> None:
        """A client that may not join gives up, as a consumer that ends with a fatal error."""
        client.join()
        if client.error == ErrorCode.NONE or (isinstance(client, ClassicConsumer) and not client.is_dead):
            self.clients.append(client)
        else:
            client.owned.clear()

    def join(self) -> None:
        if len(self.clients) < 6:
            self.start(self.make())

    def join_foreign(self) -> None:
        """A member of another kind, of Kafka Connect for one, comes to a group that nobody is in."""
        if not self.clients:
            self.made += 1
            self.start(ClassicConsumer(self.host, f"foreign-{self.made}", "t", protocol_type="connect"))

    def restart(self) -> None:
        """The static member's process is replaced by one of either protocol, with a word or without."""
        holder = next((each for each in self.clients if each.instance_id is not None), None)
        if holder is not None:
            self.clients.remove(holder)
            if isinstance(holder, Consumer):
                holder.leave(-2)
            else:
                holder.owned = set()
        self.start(self.make(INSTANCE))

    def beat(self) -> None:
        client = self.pick()
        if client is None:
            return
        if isinstance(client, ClassicConsumer):
            client.beat()
            if client.is_dead:
                self.clients.remove(client)
        else:
            self.take(client, client.send(full=self.random.random() < 0.2))

    def take(self, client: Consumer, answer: object) -> None:
        client.take(answer)  # type: ignore[arg-type]  # What `send` gave.
        if client.error in (*FENCED, ErrorCode.GROUP_ID_NOT_FOUND):
            client.join()
            if client.error != ErrorCode.NONE:
                client.owned.clear()
                self.clients.remove(client)

    def lose_answer(self) -> None:
        client = self.pick()
        if isinstance(client, Consumer):
            client.send()
        elif client is not None:
            client.lose_answer()

    def commit(self) -> None:
        client = self.pick()
        if isinstance(client, ClassicConsumer) and client.owned:
            key, offset = self.random.choice(sorted(client.owned)), self.random.randrange(1000)
            if client.commit({key: offset}) == [ErrorCode.NONE]:
                self.committed[key] = offset

    def leave(self) -> None:
        client = self.pick()
        if client is not None:
            self.clients.remove(client)
            client.leave()

    def crash(self) -> None:
        client = self.pick()
        if client is not None:
            self.clients.remove(client)
            client.owned.clear()

    def subscribe(self) -> None:
        client = self.pick()
        if client is None or client.instance_id is not None:
            return
        client.topics = self.random.sample(TOPICS, self.random.randint(1, 3))
        if isinstance(client, Consumer):
            client.pattern = self.random.choice(PATTERNS)
            self.take(client, client.send(full=True))
        elif client.waits_for is None:
            client.join()

    def grow(self) -> None:
        self.host.topics.counts[self.random.choice(TOPICS)] += 1

    def advance(self) -> None:
        self.host.advance(self.random.choice([10, 1_000, 5_000, 46_000]))

    def reload(self) -> None:
        """Another node takes the coordinator over: who waited for an answer asks again."""
        before = self.host.state
        self.host.load()
        assert self.host.state.consumer_groups == before.consumer_groups
        for client in self.clients:
            if isinstance(client, ClassicConsumer):
                client.lose_answer()

    def check(self) -> None:
        self.check_owners()
        self.check_target()
        self.check_log()
        classic, consumer = self.host.state.group(GROUP), self.host.state.consumer_group(GROUP)
        assert classic is None or consumer is None
        if classic is not None and classic.members:
            check_group(classic)
            self.kinds.add("classic")
        if consumer is not None:
            held: dict[tuple[bytes, int], str] = {}
            for member in consumer.members_in_order():
                for owned in (member.assigned, member.revoking):
                    for topic_id, partitions in owned.items():
                        for partition in partitions:
                            assert held.setdefault((topic_id, partition), member.member_id) == member.member_id
            assert dict(consumer.owners.items()) == held
            assert consumer.classic_count == sum(1 for each in consumer.members_in_order() if each.classic is not None)
            if consumer.members:
                self.kinds.add("mixed" if consumer.classic_count else "consumer")
        offsets = self.host.state.offsets_of(GROUP)
        for (topic, partition), offset in self.committed.items():
            assert [each.offset for key, each in offsets.items() if key == (topic, partition)] == [offset]
        for client in self.clients:
            if isinstance(client, ClassicConsumer) and client.protocol_type != "consumer":
                assert consumer is None or client.member_id not in consumer.members, "a foreign member is converted"
            if client.instance_id is not None and self.is_member(client):
                statics = classic.static_members if classic is not None else consumer and consumer.static_members
                assert statics
                assert statics[INSTANCE] == client.member_id

    def is_member(self, client: AnyConsumer) -> bool:
        """Whether what the client believes still counts."""
        classic, consumer = self.host.state.group(GROUP), self.host.state.consumer_group(GROUP)
        member = None if consumer is None else consumer.members.get(client.member_id)
        if isinstance(client, Consumer):
            return member is not None and client.epoch in (member.member_epoch, member.previous_epoch)
        if classic is not None:
            return client.member_id in classic.members and client.generation == classic.generation
        return member is not None and client.generation == member.member_epoch

    def check_target(self) -> None:
        group = self.host.state.consumer_group(GROUP)
        assert group is None or is_target_of_its_members(group, self.host.topics), "a target of other members"

    def check_owners(self) -> None:
        owners: dict[tuple[str | None, int], str] = {}
        for client in self.clients:
            if self.is_member(client):
                for topic, partition in client.owned:
                    name = topic if isinstance(topic, str) else self.host.topics.topic_name(topic)
                    assert name != HIDDEN, "a hidden topic is shown"
                    owner = owners.setdefault((name, partition), client.member_id)
                    assert owner == client.member_id, f"{name}-{partition} belongs to {owner} and {client.member_id}"

    def check_log(self) -> None:
        again = rebuild(self.host.shard, self.host.log)
        assert again.consumer_groups == self.host.state.consumer_groups
        assert again.offsets == self.host.state.offsets
        assert sorted(again.groups) == sorted(self.host.state.groups)
        classic = self.host.state.group(GROUP)
        if classic is not None and classic.state in (STABLE, EMPTY):
            assert settled(classic) == settled(again.groups[GROUP])

    def settle(self) -> None:
        for client in self.clients:
            if isinstance(client, ClassicConsumer) and client.instance_id is not None:
                # A leader that came back to its place does not know which topics have grown while it was away.
                client.must_join = True
        for _ in range(120):
            self.host.do_jobs()
            self.host.advance(1_000)
            for client in list(self.clients):
                if isinstance(client, ClassicConsumer):
                    client.beat()
                    if client.is_dead:
                        self.clients.remove(client)
                else:
                    self.take(client, client.send())
            self.check_owners()

    def check_settled(self) -> None:
        if not self.clients:
            return
        topics = self.host.topics
        wanted = [
            (name, partition)
            for name in sorted({name for client in self.clients for name in subscribed(client)})
            for partition in range(topics.partition_count(name))
        ]
        has = sorted(
            (topic if isinstance(topic, str) else topics.topic_name(topic) or "", partition)
            for client in self.clients
            for topic, partition in client.owned
        )
        assert has == wanted
        group = self.host.state.group(GROUP) or self.host.state.consumer_group(GROUP)
        assert group is not None
        assert group.state.value == "Stable"


def subscribed(client: AnyConsumer) -> set[str]:
    return client.wants() if isinstance(client, Consumer) else set(client.topics)


def run_life(seed: int, policy: MigrationPolicy) -> MigratingLife:
    """A whole life, to its end. In every other one targets are computed by jobs. Raises AssertionError where a law is
    broken."""
    life = MigratingLife(seed)
    life.host.shard.config = GroupCoordinatorConfig(
        group_initial_rebalance_delay_ms=0, group_consumer_migration_policy=policy
    )
    with patch.object(assigning, "INLINE_COST_MAX", seed % 2 * assigning.INLINE_COST_MAX):
        for _ in range(STEPS):
            life.step()
        life.settle()
    life.check()
    life.check_settled()
    log = life.host.log
    last = {key: position for position, (key, _) in enumerate(log)}
    compacted = [record for position, record in enumerate(log) if last[record[0]] == position]
    again = rebuild(life.host.shard, compacted)
    assert (again.consumer_groups, again.offsets) == (life.host.state.consumer_groups, life.host.state.offsets)
    assert sorted(again.groups) == sorted(life.host.state.groups)
    return life


def broken_law(seed: int) -> str:
    """What is broken in the lives of a seed, one for each policy; empty if nothing is."""
    for policy in MigrationPolicy:
        try:
            run_life(seed, policy)
        except AssertionError as broken:
            place = traceback.extract_tb(broken.__traceback__)[-1]
            return f"{policy.name} {place.name}: {str(broken).splitlines()[:1]} {place.line}"
    return ""


def violation_of(seed: int) -> str:
    """Empty where the law holds."""
    violation = broken_law(seed)
    return f"group: {violation}" if violation else ""


if __name__ == "__main__":
    sys.exit(run_seeds("migrating_group", __doc__, violation_of))
