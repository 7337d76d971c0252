"""Share groups on a whole node in the simulated world: who gets which record, how often, and until when."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.share_fetch_request import ForgottenTopic
from kraft.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kraft.rpc_client.connection import connect
from kraft.world.simulated import Universe
from tests.unit.server.brokers import simulate
from tests.unit.server.nodes import HOST, PORT, Running, configuration, create, produce, running
from tests.unit.server.share.members import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Member,
    acquired,
    configure,
    set_share_version,
    turn_on,
    values,
)

CONFIG = ("share.coordinator.state.topic.num.partitions=2",)
LOCK_SECONDS = 30
EARLIEST = {"share.auto.offset.reset": "earliest"}


@asynccontextmanager
async def serving(universe: Universe, records: int = 10) -> AsyncIterator[tuple[Running, Member]]:
    """A node with a topic of one partition, and a member of the group g that begins with its first record."""
    async with running(universe, configuration(*CONFIG)) as run:
        await turn_on(run.client)
        await create(run.client, "t")
        await configure(run.client, "g", EARLIEST)
        for number in range(records):
            await produce(run.client, "t", 0, b"%d" % number)
        member = Member(run.client, "a")
        await member.join(universe)
        yield run, member


async def until_acquired(universe: Universe, member: Member) -> Any:
    """Fetch until there are records: the first fetches may only have the share partition loaded."""
    while True:
        response = await member.fetch_whole()
        assert response.error_code == 0, response
        if acquired(response):
            return response
        await universe.sleep(0.1)


def play(scenario: Callable[[Universe, Running, Member], Awaitable[None]], records: int = 10) -> None:
    async def whole(universe: Universe) -> None:
        async with serving(universe, records) as (run, member):
            await scenario(universe, run, member)

    simulate(whole)


@asynccontextmanager
async def another(universe: Universe, member_id: str) -> AsyncIterator[Member]:
    """A member with a connection of its own."""
    async with connect(universe.world_for(f"client-{member_id}"), HOST, PORT) as client:
        member = Member(client, member_id)
        await member.join(universe)
        yield member


def test_a_member_gets_its_assignment_within_a_second_and_then_all_records() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        response = await until_acquired(universe, member)
        assert acquired(response) == [(0, 9, 1)]
        assert values(response) == [b"%d" % number for number in range(10)]
        assert response.acquisition_lock_timeout_ms == 30_000
        assert await member.acknowledge((0, 9, [ACCEPT])) == ErrorCode.NONE
        assert await member.fetch() == []

    async def whole(universe: Universe) -> None:
        start = universe.world_for("client").clock.now()
        async with serving(universe) as (run, member):
            assert universe.world_for("client").clock.now() - start < 5
            await scenario(universe, run, member)

    simulate(whole)


def test_a_released_record_is_delivered_again_with_a_higher_count_and_a_rejected_one_never() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        await until_acquired(universe, member)
        assert await member.acknowledge((0, 3, [ACCEPT]), (4, 5, [RELEASE]), (6, 6, [REJECT]), (7, 9, [ACCEPT])) == 0
        assert await member.fetch() == [(4, 5, 2)]
        assert await member.fetch(0, (4, 4, [ACCEPT]), (5, 5, [RELEASE])) == [(5, 5, 3)]

    play(scenario)


def test_a_waiting_fetch_is_answered_as_soon_as_another_member_releases() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        await until_acquired(universe, member)
        async with another(universe, "b") as other:
            found: list[Any] = []

            async def wait() -> None:
                found.extend(await other.fetch(max_wait_ms=20_000))
                found.append(universe.world_for("client").clock.now())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await universe.sleep(2)
                released_at = universe.world_for("client").clock.now()
                await member.acknowledge((0, 9, [RELEASE]))
            assert found[0] == (0, 9, 2)
            assert found[1] - released_at < 0.5

    play(scenario)


def test_records_whose_lock_expires_go_to_another_member_and_the_first_may_not_acknowledge_them() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        await until_acquired(universe, member)
        async with another(universe, "b") as other:
            assert await other.fetch() == [], "they are held"
            await universe.sleep(31)
            assert await other.fetch() == [(0, 9, 2)]
            assert await member.acknowledge((0, 9, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
            assert await other.acknowledge((0, 9, [ACCEPT])) == ErrorCode.NONE

    play(scenario)


def test_a_waiting_fetch_gets_records_as_soon_as_their_lock_expires() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        await configure(run.client, "g", {"share.record.lock.duration.ms": "15000"})
        clock = universe.world_for("client").clock
        await until_acquired(universe, member)
        locked_at = clock.now()
        async with another(universe, "b") as other:
            assert await other.fetch(max_wait_ms=60_000) == [(0, 9, 2)]
        assert 14 < clock.now() - locked_at < 16

    play(scenario)


def test_a_renewed_lock_lasts_longer() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        await until_acquired(universe, member)
        async with another(universe, "b") as other:
            await universe.sleep(20)
            assert await member.acknowledge((0, 4, [RENEW]), is_renew_ack=True) == ErrorCode.NONE
            assert await member.acknowledge((5, 5, [RENEW])) == ErrorCode.INVALID_REQUEST
            await universe.sleep(12)
            assert await other.fetch() == [(5, 9, 2)], "only what was not renewed"
            assert await member.acknowledge((0, 4, [ACCEPT])) == ErrorCode.NONE

    play(scenario)


def test_a_record_is_delivered_at_most_as_often_as_the_group_allows() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        await configure(run.client, "g", {"share.delivery.count.limit": "3"})
        response = await until_acquired(universe, member)
        found = [acquired(response)]
        for _ in range(3):
            (first, last, _), *_ = found[-1]
            assert await member.acknowledge((first, last, [RELEASE])) == 0
            found.append(await member.fetch())
        assert found == [[(0, 0, 1)], [(0, 0, 2)], [(0, 0, 3)], []]

    play(scenario, records=1)


def test_the_end_of_a_connection_or_of_a_session_releases_what_its_member_holds() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        async with another(universe, "b") as other:
            await until_acquired(universe, other)
        await universe.sleep(1)
        assert await member.fetch() == [(0, 9, 2)]
        member.session_epoch = -1
        closed = await member.fetch_whole(0, (0, 3, [ACCEPT]))
        assert closed.error_code == 0
        await universe.sleep(1)
        member.session_epoch = 0
        assert acquired(await until_acquired(universe, member)) == [(4, 9, 3)]

    play(scenario)


def test_sessions_have_epochs_and_only_their_first_request_opens_them() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        assert (await member.fetch_whole(share_session_epoch=3)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert await member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert (await member.fetch_whole(0, (0, 0, [ACCEPT]))).error_code == ErrorCode.INVALID_REQUEST
        await until_acquired(universe, member)
        wrong = member.session_epoch + 1
        assert (await member.fetch_whole(share_session_epoch=wrong)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert await member.acknowledge((0, 9, [ACCEPT]), share_session_epoch=wrong) == (
            ErrorCode.INVALID_SHARE_SESSION_EPOCH
        )
        assert await member.acknowledge((0, 9, [ACCEPT])) == ErrorCode.NONE

    play(scenario)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ([(3, 2, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 4, [ACCEPT]), (3, 9, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 9, [ACCEPT, ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 9, [])], ErrorCode.INVALID_REQUEST),
        ([(0, 0, [9])], ErrorCode.INVALID_REQUEST),
        ([(5, 20, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(each, each, [ACCEPT]) for each in range(30_000)], ErrorCode.INVALID_REQUEST),
    ],
    ids=["backwards", "overlapping", "too few types", "no type", "unknown type", "not acquired", "too many"],
)
def test_a_wrong_acknowledgement_changes_nothing(wrong: list[Any], code: int) -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        await until_acquired(universe, member)
        assert await member.acknowledge(*wrong) == code
        assert await member.acknowledge((0, 9, [ACCEPT])) == ErrorCode.NONE

    play(scenario)


def test_what_was_accepted_is_not_delivered_again_after_the_node_restarts() -> None:
    async def whole(universe: Universe) -> None:
        async with serving(universe) as (run, member):
            await until_acquired(universe, member)
            assert await member.acknowledge((0, 3, [ACCEPT]), (6, 6, [ACCEPT])) == 0
            await run.stop()
        async with running(universe, configuration(*CONFIG)) as run:
            member = Member(run.client, "b")
            await member.join(universe)
            assert acquired(await until_acquired(universe, member)) == [(4, 5, 1), (7, 9, 1)]
            assert await member.acknowledge((4, 5, [ACCEPT]), (7, 9, [ACCEPT])) == 0
            await produce(run.client, "t", 0, b"10")
            assert acquired(await until_acquired(universe, member)) == [(10, 10, 1)]

    simulate(whole)


async def described(run: Running, group_id: str = "g") -> list[tuple[int, int]]:
    """Start offset and lag of the partitions with a state."""
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    response = await run.client.call(DescribeShareGroupOffsetsRequest(groups=[wanted]))
    assert response.groups[0].error_code == 0, response
    return [(part.start_offset, part.lag) for topic in response.groups[0].topics for part in topic.partitions]


def test_lag_counts_what_is_not_settled_yet() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        assert await described(run) == [(-1, -1)], "nobody has chosen where it begins"
        await until_acquired(universe, member)
        assert await member.acknowledge((0, 3, [ACCEPT]), (6, 6, [REJECT])) == 0
        assert await described(run) == [(4, 5)]

    play(scenario)


async def alter(run: Running, offset: int, group_id: str = "g") -> Any:
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[partition])
    return await run.client.call(AlterShareGroupOffsetsRequest(group_id=group_id, topics=[topic]))


def test_altered_offsets_hold_for_the_next_member_however_often_they_are_altered() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        await until_acquired(universe, member)
        assert await member.acknowledge((0, 9, [ACCEPT])) == 0
        assert (await alter(run, 2)).error_code == ErrorCode.NON_EMPTY_GROUP
        member.session_epoch = -1
        await member.fetch_whole()
        await member.leave()
        await universe.sleep(1)
        for offset in (2, 8, 5):
            response = await alter(run, offset)
            assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, 0), response
            assert await described(run) == [(offset, 10 - offset)]
        later = Member(run.client, "b")
        await later.join(universe)
        assert acquired(await until_acquired(universe, later)) == [(5, 9, 1)]
        assert await later.acknowledge((5, 9, [ACCEPT])) == 0

    play(scenario)


def test_offsets_and_groups_are_deleted_with_their_states() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        await until_acquired(universe, member)
        assert await member.acknowledge((0, 4, [ACCEPT])) == 0
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
        delete = DeleteShareGroupOffsetsRequest(group_id="g", topics=topics)
        assert (await run.client.call(delete)).error_code == ErrorCode.NON_EMPTY_GROUP
        groups = DeleteGroupsRequest(groups_names=["g"])
        assert (await run.client.call(groups)).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        member.session_epoch = -1
        await member.fetch_whole()
        await member.leave()
        response = await run.client.call(delete)
        assert [topic.error_code for topic in response.responses] == [0], response
        assert await described(run) == []
        named = DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[named])
        found = (await run.client.call(DescribeShareGroupOffsetsRequest(groups=[wanted]))).groups[0].topics[0]
        assert [part.start_offset for part in found.partitions] == [-1], "the share coordinator has no state"
        response = await run.client.call(delete)
        assert [topic.error_code for topic in response.responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert (await run.client.call(groups)).results[0].error_code == 0
        assert (await run.client.call(groups)).results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await run.client.call(ListGroupsRequest())).groups == []
        later = Member(run.client, "b")
        await later.join(universe)
        assert acquired(await until_acquired(universe, later)) == [(0, 9, 1)], "from the beginning"

    play(scenario)


def test_a_share_group_is_listed_and_described_and_its_id_is_no_other_groups() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        listed = (await run.client.call(ListGroupsRequest())).groups
        assert [(each.group_id, each.group_type, each.group_state) for each in listed] == [("g", "share", "Stable")]
        found = (await run.client.call(ShareGroupDescribeRequest(group_ids=["g", "h"]))).groups
        assert [each.error_code for each in found] == [0, ErrorCode.GROUP_ID_NOT_FOUND]
        assert [each.member_id for each in found[0].members] == ["a"]
        assert found[0].members[0].assignment.topic_partitions[0].partitions == [0]
        beat = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        assert (await run.client.call(beat)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
        topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
        commit = OffsetCommitRequest(group_id="g", topics=topics)
        answer = await run.client.call(commit, version=9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND

    play(scenario)


def test_nothing_is_served_while_share_groups_are_off() -> None:
    async def whole(universe: Universe) -> None:
        async with running(universe, configuration(*CONFIG)) as run:
            await create(run.client, "t")
            await set_share_version(run.client, 0)
            member = Member(run.client, "a")
            assert (await member.beat()).error_code == ErrorCode.UNSUPPORTED_VERSION
            assert (await member.fetch_whole()).error_code == ErrorCode.UNSUPPORTED_VERSION
            assert await member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.UNSUPPORTED_VERSION
            await turn_on(run.client)
            await member.join(universe)

    simulate(whole)


def test_the_end_of_a_session_also_releases_records_of_partitions_that_it_has_forgotten() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        async with another(universe, "b") as other:
            await until_acquired(universe, other)
            forgotten = [ForgottenTopic(topic_id=other.topic_id, partitions=[0])]
            request = {"topics": [], "forgotten_topics_data": forgotten, "max_wait_ms": 0}
            assert await other.fetch(**request) == []
        clock = universe.world_for("client").clock
        left_at = clock.now()
        assert acquired(await until_acquired(universe, member)) == [(0, 9, 2)]
        assert clock.now() - left_at < LOCK_SECONDS / 2

    play(scenario)


def test_a_waiting_fetch_acquires_nothing_once_its_member_has_begun_another_session() -> None:
    async def scenario(universe: Universe, run: Running, member: Member) -> None:
        async with another(universe, "b") as other, connect(universe.world_for("again"), HOST, PORT) as client:
            await other.fetch()
            found: list[Any] = []

            async def wait() -> None:
                found.extend(await other.fetch(max_wait_ms=5_000))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await universe.sleep(1)
                again = Member(client, "b")
                again.topic_id = other.topic_id
                await again.fetch(max_wait_ms=0)
                await produce(run.client, "t", 0, b"late")
                await universe.sleep(1)
                assert await again.fetch() == [(0, 0, 1)]
            assert found == []

    play(scenario, records=0)
