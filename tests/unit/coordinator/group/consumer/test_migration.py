"""A group changes between the classic and the consumer protocol while its members live on."""

from __future__ import annotations

from functools import partial

import pytest

from kraft.coordinator.group.classic.classic_group import PREPARING_REBALANCE, STABLE
from kraft.coordinator.group.classic.heartbeat import heartbeat
from kraft.coordinator.group.classic.join import join
from kraft.coordinator.group.classic.sync import sync
from kraft.coordinator.group.config import GroupCoordinatorConfig, MigrationPolicy
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroupState
from kraft.coordinator.group.consumer.describe import describe_consumer_group
from kraft.coordinator.group.consumer.offsets import check_fetch
from kraft.protocol.error_codes import ErrorCode
from tests.unit.coordinator.classic_consumers import ClassicConsumer, assignment_of, subscription_of
from tests.unit.coordinator.consumers import GROUP, Consumer, ConsumerHost
from tests.unit.coordinator.group_host import (
    TestCaller,
    heartbeat_request,
    join_request,
    rebuild,
    result_of,
    sync_request,
)


def make_host(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL, **config: int) -> ConsumerHost:
    host = ConsumerHost(
        GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy=policy, **config)
    )
    host.topics.counts["t"] = 4
    host.consumer_configs.settings = type(host.consumer_configs.settings)(assignment_interval_ms=0)
    return host


def classic_pair(host: ConsumerHost, *, cooperative: bool = False) -> list[ClassicConsumer]:
    """A stable classic group of two, the second of which is static."""
    pair = [
        ClassicConsumer(host, "one", "t", cooperative=cooperative).join(),
        ClassicConsumer(host, "two", "t", instance_id="i", cooperative=cooperative).join(),
    ]
    host.advance(0)
    run(*pair)
    assert sorted(partition for each in pair for _, partition in each.owned) == [0, 1, 2, 3]
    return pair


def run(*clients: ClassicConsumer | Consumer, times: int = 12) -> None:
    for _ in range(times):
        for client in clients:
            client.beat()
        clients[0].host.advance(100)


def numbers(client: ClassicConsumer | Consumer) -> set[int]:
    return {partition for _, partition in client.owned}


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_consumer_member_upgrades_a_classic_group(cooperative: bool) -> None:
    host = make_host()
    one, two = classic_pair(host, cooperative=cooperative)
    generation = one.generation
    assert one.commit({("t", 0): 7}) == [ErrorCode.NONE]
    joining = Consumer(host, "new", "t").join()
    assert (joining.error, joining.epoch, joining.has) == (ErrorCode.NONE, generation + 1, set())
    assert host.state.group(GROUP) is None
    group = host.group
    assert {member.member_id: member.member_epoch for member in group.members_in_order()} == {
        one.member_id: generation,
        two.member_id: generation,
        "new": generation + 1,
    }
    assert group.static_members["i"] == two.member_id
    assert (group.classic_count, dict(group.classic_supporters)) == (2, {"range": 2})
    run(one, two, joining)
    assert host.group.state is ConsumerGroupState.STABLE
    assert sorted([*numbers(one), *numbers(two), *joining.has]) == [0, 1, 2, 3]
    assert numbers(one)
    assert numbers(two)
    assert joining.has
    assert [committed.offset for committed in host.offsets(GROUP).values()] == [7]


def test_the_state_of_a_mixed_group_is_rebuilt_from_the_log() -> None:
    host = make_host()
    one, two = classic_pair(host)
    joining = Consumer(host, "new", "t").join()
    run(one, two, joining)
    assert rebuild(host.shard, host.log) == host.state
    last = {key: position for position, (key, _) in enumerate(host.log)}
    compacted = [record for position, record in enumerate(host.log) if last[record[0]] == position]
    assert rebuild(host.shard, compacted) == host.state


def test_the_last_consumer_member_that_leaves_downgrades_the_group() -> None:
    host = make_host()
    one, two = classic_pair(host)
    ids = {one.member_id, two.member_id}
    joining = Consumer(host, "new", "t").join()
    run(one, two, joining)
    epoch = host.group.group_epoch
    joining.leave()
    group = host.state.group(GROUP)
    assert host.state.consumer_group(GROUP) is None
    assert group is not None
    assert (group.state, group.generation, set(group.members)) == (PREPARING_REBALANCE, epoch, ids)
    assert group.static_members == {"i": two.member_id}
    run(one, two)
    group = host.state.group(GROUP)
    assert group is not None
    assert (group.state, group.generation, set(group.members)) == (STABLE, epoch + 1, ids)
    assert sorted([*numbers(one), *numbers(two)]) == [0, 1, 2, 3]
    again = rebuild(host.shard, host.log)
    assert set(again.groups) == {GROUP}
    assert not again.consumer_groups


def test_partitions_a_member_has_yet_to_revoke_stay_its_own_through_a_downgrade_and_an_upgrade() -> None:
    """A process of the new protocol starts, ends and starts again, and meanwhile nobody has heard of it."""
    host = make_host()
    one = ClassicConsumer(host, "one", "t", cooperative=True).join()
    run(one)
    assert numbers(one) == {0, 1, 2, 3}
    joining = Consumer(host, "new", "t").join()
    one.prompt = False
    one.beat()
    assert any(member.revoking for member in host.group.members_in_order()), "it is told to give up two"
    joining.leave()
    again = Consumer(host, "again", "t").join()
    assert (again.error, again.has) == (ErrorCode.NONE, set())
    one.prompt = True
    for _ in range(12):
        again.beat()
        assert not again.has & numbers(one)
        one.beat()
    assert (len(again.has), len(one.owned)) == (2, 2)


def test_the_expired_session_of_the_last_consumer_member_downgrades_the_group() -> None:
    host = make_host()
    one, two = classic_pair(host)
    joining = Consumer(host, "new", "t").join()
    run(one, two, joining)
    for _ in range(50):
        run(one, two, times=10)
    assert host.state.group(GROUP) is not None
    assert sorted([*numbers(one), *numbers(two)]) == [0, 1, 2, 3]


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_the_migration_policy_may_forbid_upgrades(policy: MigrationPolicy) -> None:
    host = make_host(policy)
    classic_pair(host)
    joining = Consumer(host, "new", "t").join()
    assert joining.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert joining.message == "Cannot upgrade classic group g to consumer group because online upgrade is disabled."
    assert host.state.group(GROUP) is not None


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_the_migration_policy_may_forbid_downgrades(policy: MigrationPolicy) -> None:
    host = make_host(MigrationPolicy.UPGRADE)
    one, two = classic_pair(host)
    joining = Consumer(host, "new", "t").join()
    run(one, two, joining)
    host.shard.config = GroupCoordinatorConfig(group_consumer_migration_policy=policy)
    joining.leave()
    assert len(host.group.members) == 2


def test_a_group_with_only_classic_members_keeps_working() -> None:
    """Its heartbeats compute the target: there are no others."""
    host = make_host(MigrationPolicy.UPGRADE)
    one, two = classic_pair(host)
    joining = Consumer(host, "new", "t").join()
    run(one, two, joining)
    joining.leave()
    run(one, two)
    assert host.group.state is ConsumerGroupState.STABLE
    assert sorted([*numbers(one), *numbers(two)]) == [0, 1, 2, 3]
    host.topics.counts["t"] = 5
    run(one, two)
    assert sorted([*numbers(one), *numbers(two)]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (MigrationPolicy.DISABLED, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (MigrationPolicy.UPGRADE, ErrorCode.NONE),
        (MigrationPolicy.DOWNGRADE, ErrorCode.NONE),
        (MigrationPolicy.BIDIRECTIONAL, ErrorCode.NONE),
    ],
)
def test_a_classic_member_joins_a_consumer_group(policy: MigrationPolicy, code: int) -> None:
    host = make_host(policy)
    first = Consumer(host, "a", "t").join()
    late = ClassicConsumer(host, "late", "t").join()
    assert late.error == code
    if code == ErrorCode.NONE:
        run(first, late)
        assert (numbers(late), first.has) == ({2, 3}, {0, 1})


@pytest.mark.parametrize(
    ("metadata", "assignment", "protocol_type", "reason"),
    [
        (
            subscription_of(["t"]),
            b"",
            "connect",
            "the group does not use the consumer embedded protocol.",
        ),
        (b"\x00", b"", "consumer", "the embedded consumer protocol is malformed."),
        (b"", b"", "consumer", "the embedded consumer protocol is malformed."),
        (b"\xff\xff" + bytes(12), b"", "consumer", "the embedded consumer protocol is malformed."),
        (subscription_of(["t"]), b"\x00", "consumer", "the embedded consumer protocol is malformed."),
        (
            subscription_of(["t"]),
            assignment_of({("t", 0)}, b"own"),
            "consumer",
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        ),
    ],
)
def test_members_of_another_protocol_type_block_the_upgrade(
    metadata: bytes, assignment: bytes, protocol_type: str, reason: str
) -> None:
    host = make_host()
    request = join_request(GROUP, instance_id="i", protocols=(("range", metadata),), protocol_type=protocol_type)
    host.run(lambda draft: join(draft, request, TestCaller(9), "x"))
    host.advance(0)
    answer = sync_request(GROUP, "i-x", 1, {"i-x": assignment})
    answer.protocol_type = None
    host.run(lambda draft: sync(draft, answer))
    joining = Consumer(host, "new", "t").join()
    assert joining.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert joining.message == f"Cannot upgrade classic group g to consumer group because {reason}"
    group = host.state.group(GROUP)
    assert group is not None
    assert (group.state, group.generation) == (STABLE, 1)


def test_too_many_members_block_the_upgrade() -> None:
    host = make_host(group_consumer_max_size=1)
    classic_pair(host)
    joining = Consumer(host, "new", "t").join()
    assert joining.message == (
        "Cannot upgrade classic group g to consumer group because the group size exceeds the consumer group maximum "
        "size."
    )


def test_a_full_group_is_not_upgraded_for_a_member_that_cannot_join() -> None:
    host = make_host(group_consumer_max_size=2)
    classic_pair(host)
    assert Consumer(host, "new", "t").join().error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert host.state.group(GROUP) is not None


def test_members_that_wait_to_join_are_told_to_rejoin() -> None:
    host = make_host()
    one = ClassicConsumer(host, "one", "t").join()
    host.advance(0)
    run(one)
    two = ClassicConsumer(host, "two", "t").join()
    assert two.waits_for is not None
    joining = Consumer(host, "new", "t").join()
    assert host.answers[two.waits_for[1]].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    run(one, two, joining)
    assert sorted([*numbers(one), *numbers(two), *joining.has]) == [0, 1, 2, 3]


def test_members_that_wait_for_an_assignment_are_told_to_rejoin() -> None:
    host = make_host()
    for instance_id in ("i", "j"):
        request = join_request(GROUP, instance_id=instance_id, protocols=(("range", subscription_of(["t"])),))
        host.run(partial(join, request=request, caller=TestCaller(9), new_member_suffix="x"))
    host.advance(0)
    token, _ = host.run(partial(sync, request=sync_request(GROUP, "j-x", 1, instance_id="j")))
    assert token not in host.answers
    assert Consumer(host, "new", "t").join().error == ErrorCode.NONE
    assert host.answers[token].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(host.group.members) == {"i-x", "j-x", "new"}


def test_partitions_of_an_unsettled_generation_count_as_owned() -> None:
    """Its assignment is void, but a cooperative member still reads what it said as it joined."""
    host = make_host()
    one = ClassicConsumer(host, "one", "t", cooperative=True).join()
    host.advance(0)
    run(one)
    requests = [
        join_request(GROUP, one.member_id, protocols=(("range", subscription_of(["t"], one.owned)),)),
        join_request(GROUP, instance_id="i", protocols=(("range", subscription_of(["t"])),)),
        join_request(GROUP, instance_id="j", protocols=(("range", subscription_of(["t"])),)),
    ]
    for request in [requests[1], requests[0], requests[2]]:
        host.run(partial(join, request=request, caller=TestCaller(9), new_member_suffix="x"))
    group = host.state.group(GROUP)
    assert group is not None
    assert (group.state, group.members[one.member_id].assignment) == (PREPARING_REBALANCE, b"")
    joining = Consumer(host, "new", "t").join()
    assert (joining.error, joining.has) == (ErrorCode.NONE, set())


def test_a_group_without_a_generation_is_upgraded() -> None:
    host = make_host()
    host.shard.config = GroupCoordinatorConfig(group_initial_rebalance_delay_ms=3_000)
    one = ClassicConsumer(host, "one", "t").join()
    joining = Consumer(host, "new", "t").join()
    assert joining.error == ErrorCode.NONE
    run(one, joining)
    assert sorted([*numbers(one), *joining.has]) == [0, 1, 2, 3]


def test_a_static_member_changes_the_protocol_without_leaving() -> None:
    host = make_host()
    one, two = classic_pair(host)
    had = numbers(two)
    taker = Consumer(host, "new", "t", instance_id="i").join()
    assert (taker.error, taker.has) == (ErrorCode.NONE, had)
    assert (len(host.group.members), host.group.classic_count) == (2, 1)
    two.beat()
    assert two.is_dead
    run(one, taker)
    assert host.group.state is ConsumerGroupState.STABLE
    generation = host.group.group_epoch
    back = ClassicConsumer(host, "back", "t", instance_id="i").join()
    assert (back.error, numbers(back)) == (ErrorCode.NONE, had)
    group = host.state.group(GROUP)
    assert group is not None
    # Nothing moved: there was nothing to rebalance.
    assert (group.state, group.generation) == (STABLE, generation)
    run(one, back)
    assert sorted([*numbers(one), *numbers(back)]) == [0, 1, 2, 3]


def test_a_static_member_that_returns_to_a_group_in_migration_triggers_a_rebalance() -> None:
    host = make_host()
    one, two = classic_pair(host)
    taker = Consumer(host, "new", "t", instance_id="i").join()
    run(one, taker)
    back = ClassicConsumer(host, "back", "t", "u", instance_id="i").join()
    group = host.state.group(GROUP)
    assert group is not None
    assert group.state is PREPARING_REBALANCE
    run(one, back)
    assert sorted([*one.owned, *back.owned]) == [("t", 0), ("t", 1), ("t", 2), ("t", 3), ("u", 0), ("u", 1)]
    assert two.is_dead or two.beat().is_dead


def test_a_classic_member_is_told_to_rejoin_when_a_new_target_or_free_partition_exists() -> None:
    host = make_host()
    first = Consumer(host, "a", "t").join()
    late = ClassicConsumer(host, "late", "t").join()
    assert numbers(late) == set()
    first.send()  # It is told to give up two, and still has them.
    late.beat()
    assert (late.error, numbers(late)) == (ErrorCode.NONE, set())
    first.beat()
    first.beat()
    late.beat()
    assert numbers(late) == {2, 3}


def test_an_expired_classic_member_gets_an_error_before_it_can_own_partitions_of_others() -> None:
    host = make_host()
    gone = ClassicConsumer(host, "gone", "t", cooperative=True).join()
    first = Consumer(host, "a", "t").join()
    run(first, gone)
    lost = numbers(gone)
    assert lost
    for _ in range(6):
        host.advance(10_000)  # It is silent, and its session ends.
        first.beat()
    assert first.has == {0, 1, 2, 3}
    member_id = gone.member_id
    gone.prompt = False
    gone.join().hear()
    assert (gone.error, numbers(gone), gone.generation) == (ErrorCode.UNKNOWN_MEMBER_ID, set(), -1)
    assert member_id not in host.group.members
    gone.prompt = True
    run(first, gone)
    assert sorted([*numbers(gone), *first.has]) == [0, 1, 2, 3]


def test_a_classic_member_that_does_not_join_or_sync_in_time_is_removed() -> None:
    host = make_host()
    first = Consumer(host, "a", "t").join()
    late = ClassicConsumer(host, "late", "t", session_ms=300_000).join()
    run(first, late)
    other = Consumer(host, "b", "t").join()
    assert late.generation < host.group.assignment_epoch
    request = heartbeat_request(GROUP, late.member_id, late.generation)
    _, told = host.run(partial(heartbeat, request=request))
    assert told.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(59):
        run(first, other, times=10)
    assert late.member_id in host.group.members
    run(first, other, times=20)
    assert late.member_id not in host.group.members


def test_a_classic_member_commits_and_fetches_offsets_with_its_generation() -> None:
    host = make_host()
    first = Consumer(host, "a", "t").join()
    late = ClassicConsumer(host, "late", "t").join()
    run(first, late)
    assert late.commit({("t", 2): 1}) == [ErrorCode.NONE]
    late.generation += 1
    assert late.commit({("t", 2): 1}) == [ErrorCode.ILLEGAL_GENERATION]
    assert check_fetch(host.group, late.member_id, late.generation) == ErrorCode.ILLEGAL_GENERATION
    late.member_id = "nobody"
    assert late.commit({("t", 2): 1}) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_group_description_names_the_protocol_of_each_member() -> None:
    host = make_host()
    first = Consumer(host, "a", "t").join()
    late = ClassicConsumer(host, "late", "t").join()
    run(first, late)
    told = result_of(describe_consumer_group(host.group, host.topics, "uniform"))
    assert {member.member_id: member.member_type for member in told.members} == {"a": 1, late.member_id: 0}
