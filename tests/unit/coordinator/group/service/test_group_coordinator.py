"""The service: what each version of each API is told, before and beside what the group decides."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft.common.errors import ApiError, NotLeader
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.service.group_coordinator import PARTITIONS_A_WRITE
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.join_group_response import JoinGroupResponse
from kraft.protocol.messages.leave_group_request import LeaveGroupRequest
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponse
from tests.unit.coordinator.fakes import Topics
from tests.unit.coordinator.group.service.coordinated_groups import stable_member
from tests.unit.coordinator.group_host import (
    TestCaller,
    commit_request,
    heartbeat_request,
    join_request,
    leaving,
    subscription,
    sync_request,
)
from tests.unit.coordinator.service import CALLER, ask, run, serving

TOPIC_ID = Topics("t").topic_id("t")


@pytest.mark.parametrize("version", range(10))
def test_join_responses_can_be_encoded_in_every_version(version):
    async def scenario():
        async with serving() as service:
            refused = await service.coordinator.join_group(join_request("g", protocols=()), TestCaller(version))
            assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            assert JoinGroupResponse.decode(refused.encode(version), version).protocol_name == (
                "" if version < 7 else None
            )
            joined = await service.coordinator.join_group(join_request("g"), TestCaller(version))
            if version >= 4:
                assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
                joined = await service.coordinator.join_group(join_request("g", joined.member_id), TestCaller(version))
            again = JoinGroupResponse.decode(joined.encode(version), version)
            assert (again.error_code, again.generation_id, again.protocol_name, again.leader) == (
                0,
                1,
                "range",
                joined.member_id,
            )
            assert [member.member_id for member in again.members] == [joined.member_id]

    run(scenario)


def test_member_ids_are_the_client_id_or_instance_id_followed_by_a_uuid():
    async def scenario():
        async with serving() as service:
            assert [len(part) for part in (await stable_member(service)).split("-")] == [6, 8, 4, 4, 4, 12]
            assert (await stable_member(service, "h", "one")).startswith("one-")

    run(scenario)


@pytest.mark.parametrize(
    ("group", "session_ms", "code"),
    [
        ("", 10_000, ErrorCode.INVALID_GROUP_ID),
        ("g", 5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        ("g", 1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
        ("g", 6_000, ErrorCode.MEMBER_ID_REQUIRED),
        ("g", 1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
    ],
)
def test_join_requests_are_validated_before_any_group_is_changed(group, session_ms, code):
    async def scenario():
        async with serving() as service:
            response = await service.coordinator.join_group(join_request(group, session_ms=session_ms), CALLER)
            assert response.error_code == code

    run(scenario)


@pytest.mark.parametrize(("client_id", "instance_id"), [("c" * 32_767, None), ("client", "i" * 32_767)])
def test_a_member_id_too_long_for_a_response_is_refused_without_changing_the_group(client_id, instance_id):
    async def scenario():
        async with serving() as service:
            member_id = await stable_member(service)
            request = join_request("g", instance_id=instance_id)
            refused = await service.coordinator.join_group(request, TestCaller(5 if instance_id else 3, client_id))
            assert refused.error_code == ErrorCode.INVALID_REQUEST
            assert (await service.coordinator.heartbeat(heartbeat_request("g", member_id, 1), CALLER)).error_code == 0

    run(scenario)


def test_an_empty_group_id_is_refused_for_membership_and_allowed_for_offsets():
    async def scenario():
        async with serving() as service:
            coordinator = service.coordinator
            assert (
                await coordinator.sync_group(sync_request("", "m", 1), TestCaller(4))
            ).error_code == ErrorCode.INVALID_GROUP_ID
            assert (
                await coordinator.heartbeat(heartbeat_request("", "m", 1), CALLER)
            ).error_code == ErrorCode.INVALID_GROUP_ID
            assert (
                await coordinator.leave_group(LeaveGroupRequest(members=[leaving("m")]), TestCaller(5))
            ).error_code == ErrorCode.INVALID_GROUP_ID
            assert (
                await coordinator.offset_delete(OffsetDeleteRequest(), CALLER)
            ).error_code == ErrorCode.INVALID_GROUP_ID
            committed = await coordinator.offset_commit(commit_request("", {("t", 0): 3}), CALLER)
            assert committed.topics[0].partitions[0].error_code == 0

    run(scenario)


def test_from_version_5_a_sync_request_must_name_its_protocol():
    async def scenario():
        async with serving() as service:
            member_id = await stable_member(service)
            request = sync_request("g", member_id, 1)
            assert (
                await service.coordinator.sync_group(request, TestCaller(5))
            ).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            request.protocol_name = "sticky"
            assert (
                await service.coordinator.sync_group(request, TestCaller(5))
            ).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            request.protocol_name = "range"
            response = await service.coordinator.sync_group(request, TestCaller(5))
            assert (response.error_code, response.protocol_type, response.protocol_name, response.assignment) == (
                0,
                "consumer",
                "range",
                b"all",
            )

    run(scenario)


def test_a_leave_request_before_version_3_names_one_member():
    async def scenario():
        async with serving() as service:
            member_id = await stable_member(service)
            unknown = LeaveGroupRequest(group_id="g", member_id="nobody")
            assert (
                await service.coordinator.leave_group(unknown, TestCaller(2))
            ).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            response = await service.coordinator.leave_group(
                LeaveGroupRequest(group_id="g", member_id=member_id), TestCaller(0)
            )
            assert response.encode(0) == b"\x00\x00"
            assert service.coordinator.group_states() == {"g": "Empty"}

    run(scenario)


def test_a_batch_leave_request_is_answered_per_member():
    async def scenario():
        async with serving() as service:
            member_id = await stable_member(service, instance_id="one")
            members = [leaving("nobody"), leaving("nobody", "one"), leaving("", "two"), leaving("", "one")]
            response = await service.coordinator.leave_group(
                LeaveGroupRequest(group_id="g", members=members), TestCaller(5)
            )
            codes = [member.error_code for member in response.members]
            assert codes == [
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.NONE,
            ]
            assert response.error_code == 0
            assert (
                await service.coordinator.heartbeat(heartbeat_request("g", member_id, 1), CALLER)
            ).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            gone = await service.coordinator.leave_group(
                LeaveGroupRequest(group_id="none", members=[leaving("m")]), TestCaller(5)
            )
            assert (gone.error_code, gone.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)

    run(scenario)


def test_a_large_commit_is_answered_per_partition():
    async def scenario():
        async with serving() as service:
            service.topics.counts["t"] = 5_000
            indexes = (0, 1, 2_047, 2_048, 4_999)
            wanted = {("t", index): index + 7 for index in indexes}
            for _ in range(2):
                answer = await service.coordinator.offset_commit(commit_request("g", wanted), CALLER)
                answers = [part for topic in answer.topics for part in topic.partitions]
                assert [(part.partition_index, part.error_code) for part in answers] == [
                    (index, 0) for index in indexes
                ]
            kept = (await service.coordinator.committed_offsets())["g"]
            assert {key.partition: each.offset for key, each in kept.items()} == {index: index + 7 for index in indexes}

    run(scenario)


def test_commits_for_unknown_partitions_are_refused_and_the_others_are_kept():
    async def scenario():
        async with serving() as service:
            response = await service.coordinator.offset_commit(
                commit_request("g", {("t", 0): 1, ("t", 2): 2, ("x", 0): 3}), CALLER
            )
            codes = {
                (topic.name, partition.partition_index): partition.error_code
                for topic in response.topics
                for partition in topic.partitions
            }
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert codes == {("t", 0): 0, ("t", 2): unknown, ("x", 0): unknown}
            assert [topic.name for topic in response.topics] == ["t", "x"]
            assert [each.offset for each in (await service.coordinator.committed_offsets())["g"].values()] == [1]

    run(scenario)


def test_offset_requests_of_version_10_name_topics_by_id():
    async def scenario():
        async with serving() as service:
            coordinator = service.coordinator
            partitions = [
                OffsetCommitRequestPartition(
                    partition_index=1, committed_offset=11, committed_leader_epoch=4, committed_metadata=None
                )
            ]
            topics = [
                OffsetCommitRequestTopic(topic_id=topic_id, partitions=partitions) for topic_id in (TOPIC_ID, b"?" * 16)
            ]
            committed = await coordinator.offset_commit(
                OffsetCommitRequest(group_id="g", topics=topics), TestCaller(10)
            )
            codes = {topic.topic_id: topic.partitions[0].error_code for topic in committed.topics}
            assert codes == {TOPIC_ID: 0, b"?" * 16: ErrorCode.UNKNOWN_TOPIC_ID}
            wanted = [
                OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0, 1])
                for topic_id in (TOPIC_ID, b"?" * 16)
            ]
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=wanted)])
            (group,) = (await coordinator.offset_fetch(request, TestCaller(10))).groups
            known, unknown = group.topics
            assert [
                (each.committed_offset, each.committed_leader_epoch, each.metadata) for each in known.partitions
            ] == [(-1, -1, ""), (11, 4, "")]
            assert {each.error_code for each in unknown.partitions} == {ErrorCode.UNKNOWN_TOPIC_ID}
            everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
            (group,) = (await coordinator.offset_fetch(everything, TestCaller(10))).groups
            assert [(topic.topic_id, len(topic.partitions)) for topic in group.topics] == [(TOPIC_ID, 1)]

    run(scenario)


def test_a_recreated_topic_does_not_inherit_committed_offsets():
    async def scenario():
        async with serving() as service:
            await service.coordinator.offset_commit(commit_request("g", {("t", 0): 5}), CALLER)
            service.coordinator.topics.topic_name = lambda topic_id: "t"
            wanted = [OffsetFetchRequestTopics(topic_id=b"new".ljust(16, b"."), partition_indexes=[0])]
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=wanted)])
            response = await service.coordinator.offset_fetch(request, TestCaller(10))
            assert response.groups[0].topics[0].partitions[0].committed_offset == -1

    run(scenario)


@pytest.mark.parametrize("version", range(1, 11))
def test_offset_fetch_works_in_every_version(version):
    async def scenario():
        async with serving() as service:
            await service.coordinator.offset_commit(commit_request("g", {("t", 0): 5}, metadata="note"), CALLER)
            if version < 8:
                request = OffsetFetchRequest(
                    group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
                )
            else:
                topic = OffsetFetchRequestTopics(name="t", topic_id=TOPIC_ID, partition_indexes=[0, 1])
                request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])
            request = OffsetFetchRequest.decode(request.encode(version), version)
            answer = await service.coordinator.offset_fetch(request, TestCaller(version))
            response = OffsetFetchResponse.decode(answer.encode(version), version)
            partitions = (response.topics if version < 8 else response.groups[0].topics)[0].partitions
            assert [(each.committed_offset, each.metadata, each.error_code) for each in partitions] == [
                (5, "note", 0),
                (-1, "", 0),
            ]

    run(scenario)


@pytest.mark.parametrize("version", range(1, 11))
def test_an_offset_fetch_to_the_wrong_coordinator_fails_in_the_field_of_its_version(version):
    async def scenario():
        async with serving(lead=False) as service:
            if version < 8:
                request = OffsetFetchRequest(
                    group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
                )
            else:
                request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
            response = await service.coordinator.offset_fetch(request, TestCaller(version))
            code = ErrorCode.NOT_COORDINATOR
            if version == 1:
                assert response.topics[0].partitions[0].error_code == code
            else:
                assert (response.error_code if version < 8 else response.groups[0].error_code) == code
            OffsetFetchResponse.decode(response.encode(version), version)

    run(scenario)


def test_the_limit_of_commit_metadata_counts_characters_as_java_does():
    async def scenario():
        async with serving(config=GroupCoordinatorConfig(offset_metadata_max_bytes=4)) as service:
            for metadata, code in (
                ("abcd", 0),
                ("abcde", ErrorCode.OFFSET_METADATA_TOO_LARGE),
                ("\U0001f600" * 2, 0),
                ("\U0001f600" * 2 + "a", 12),
            ):
                response = await service.coordinator.offset_commit(
                    commit_request("g", {("t", 0): 1}, metadata=metadata), CALLER
                )
                assert response.topics[0].partitions[0].error_code == code

    run(scenario)


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_commit_with_a_generation_in_an_unknown_group_is_refused(version, code):
    async def scenario():
        async with serving() as service:
            response = await service.coordinator.offset_commit(
                commit_request("g", {("t", 0): 1}, "m", 3), TestCaller(version)
            )
            assert response.topics[0].partitions[0].error_code == code

    run(scenario)


def test_an_offset_with_its_own_retention_time_expires_on_its_own():
    async def scenario():
        config = GroupCoordinatorConfig(offsets_retention_check_interval_ms=1_000)
        async with serving(config=config) as service:
            await service.coordinator.offset_commit(
                commit_request("g", {("t", 0): 1}, retention_ms=60_000), TestCaller(4)
            )
            await service.coordinator.offset_commit(commit_request("g", {("t", 1): 1}), TestCaller(4))
            await trio.sleep(59)
            assert len((await service.coordinator.committed_offsets())["g"]) == 2
            await trio.sleep(3)
            assert [key.partition for key in (await service.coordinator.committed_offsets())["g"]] == [1]

    run(scenario)


def test_an_offset_with_an_unlimited_retention_time_never_expires():
    async def scenario():
        async with serving() as service:
            answer = await service.coordinator.offset_commit(
                commit_request("g", {("t", 0): 1}, retention_ms=2**63 - 1), TestCaller(4)
            )
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
            assert [
                offset.expire_timestamp_ms for offset in (await service.coordinator.committed_offsets())["g"].values()
            ] == [2**63 - 1]

    run(scenario)


def test_offsets_of_a_subscribed_topic_cannot_be_deleted():
    async def scenario():
        async with serving() as service:
            coordinator = service.coordinator

            def request(*names: str) -> OffsetDeleteRequest:
                partitions = [OffsetDeleteRequestPartition(partition_index=0)]
                return OffsetDeleteRequest(
                    group_id="g", topics=[OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in names]
                )

            assert (await coordinator.offset_delete(request("t"), CALLER)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
            member_id = await stable_member(service)
            await coordinator.offset_commit(commit_request("g", {("t", 0): 1, ("u", 0): 2}, member_id, 1), CALLER)
            response = await coordinator.offset_delete(request("t", "u", "x"), CALLER)
            codes = {topic.name: topic.partitions[0].error_code for topic in response.topics}
            assert codes == {
                "t": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
                "u": 0,
                "x": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
            assert [key.topic for key in (await coordinator.committed_offsets())["g"]] == ["t"]

    run(scenario)


def test_a_group_of_another_protocol_type_keeps_its_offsets_while_it_has_members():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            ask(nursery, service.coordinator.join_group(join_request("g", protocol_type="connect"), TestCaller(3)))
            await trio.testing.wait_all_tasks_blocked()
            request = OffsetDeleteRequest(group_id="g")
            assert (await service.coordinator.offset_delete(request, CALLER)).error_code == ErrorCode.NON_EMPTY_GROUP

    run(scenario)


def test_groups_are_described_with_their_members():
    async def scenario():
        async with serving() as service:
            member_id = await stable_member(service, instance_id="one")
            await service.coordinator.offset_commit(commit_request("simple", {("t", 0): 1}), CALLER)
            request = DescribeGroupsRequest(groups=["g", "simple", "none"])
            described = (await service.coordinator.describe_groups(request, TestCaller(6))).groups
            summary = [
                (group.error_code, group.group_state, group.protocol_type, group.protocol_data) for group in described
            ]
            assert summary == [
                (0, "Stable", "consumer", "range"),
                (0, "Empty", "", ""),
                (ErrorCode.GROUP_ID_NOT_FOUND, "Dead", "", ""),
            ]
            (member,) = described[0].members
            assert (member.member_id, member.group_instance_id, member.client_id, member.client_host) == (
                member_id,
                "one",
                "client",
                "/127.0.0.1",
            )
            assert (bytes(member.member_assignment), bytes(member.member_metadata)[:6]) == (
                b"all",
                b"\x00\x00\x00\x00\x00\x01",
            )
            older = (
                await service.coordinator.describe_groups(DescribeGroupsRequest(groups=["none"]), TestCaller(5))
            ).groups
            assert (older[0].error_code, older[0].group_state) == (0, "Dead")

    run(scenario)


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ([], [], ["g", "simple"]),
        (["stable"], [], ["g"]),
        ([" EMPTY "], [], ["simple"]),
        (["Nonsense"], [], []),
        ([], ["Classic"], ["g", "simple"]),
        ([], ["consumer"], []),
        (["Stable", "Empty"], ["consumer", "classic"], ["g", "simple"]),
    ],
)
def test_groups_are_listed_with_filters(states, types, expected):
    async def scenario():
        async with serving() as service:
            await stable_member(service)
            await service.coordinator.offset_commit(commit_request("simple", {("t", 0): 1}), CALLER)
            response = await service.coordinator.list_groups(
                ListGroupsRequest(states_filter=states, types_filter=types), TestCaller(5)
            )
            assert sorted(group.group_id for group in response.groups) == expected
            assert {group.group_type for group in response.groups} <= {"classic"}

    run(scenario)


def test_deleting_groups_returns_one_result_per_group():
    async def scenario():
        async with serving() as service:
            await stable_member(service)
            await service.coordinator.offset_commit(commit_request("simple", {("t", 0): 1}), CALLER)
            names = ["g", "simple", "none", "simple"]
            response = await service.coordinator.delete_groups(DeleteGroupsRequest(groups_names=names), TestCaller(2))
            codes = {result.group_id: result.error_code for result in response.results}
            assert codes == {"g": ErrorCode.NON_EMPTY_GROUP, "simple": 0, "none": ErrorCode.GROUP_ID_NOT_FOUND}
            assert len(response.results) == 3
            assert (await service.coordinator.committed_offsets()) == {}

    run(scenario)


def test_a_silent_member_is_removed_by_the_clock_of_the_node():
    async def scenario():
        async with serving() as service:
            await stable_member(service)
            await trio.sleep(9)
            assert service.coordinator.group_states() == {"g": "Stable"}
            await trio.sleep(1.1)
            assert service.coordinator.group_states() == {"g": "Empty"}

    run(scenario)


def test_equal_seeds_produce_equal_logs():
    async def scenario():
        async with serving() as service:
            for group in ("a", "b", "c"):
                await stable_member(service, group)
            return service.log.batches

    assert run(scenario) == run(scenario)


def test_heartbeats_keep_a_member_in_the_group():
    async def scenario():
        async with serving() as service:
            member_id = await stable_member(service)
            for _ in range(10):
                await trio.sleep(6)
                assert (
                    await service.coordinator.heartbeat(heartbeat_request("g", member_id, 1), TestCaller(4))
                ).error_code == 0
            await trio.sleep(9.9)
            assert service.coordinator.group_states() == {"g": "Stable"}

    run(scenario)


def test_committed_offsets_can_be_read_for_lag():
    async def scenario():
        async with serving() as service:
            await service.coordinator.offset_commit(commit_request("g", {("u", 1): 2, ("t", 0): 1}), CALLER)
            assert [(key.topic, each.offset) for key, each in service.coordinator.offsets_of("g").items()] == [
                ("t", 1),
                ("u", 2),
            ]
            assert service.coordinator.offsets_of("none") == {}
            before = service.coordinator.snapshots()
            await service.coordinator.offset_commit(commit_request("g", {("t", 0): 9}), CALLER)
            assert [each.offset for state in before for key, each in sorted(state.offsets_of("g").items())] == [1, 2], (
                "a snapshot stays as it was"
            )
            service.coordinator.on_resignation(service.partition("g").partition)
            with pytest.raises(ApiError):
                service.coordinator.offsets_of("g")

    run(scenario)


def test_a_returning_static_member_gets_its_new_subscription_immediately():
    async def scenario():
        async with serving() as service:
            coordinator = service.coordinator
            member_id = await stable_member(service, instance_id="one")
            await coordinator.offset_commit(
                commit_request("g", {("t", 0): 1, ("u", 0): 2}, member_id, 1, instance_id="one"), CALLER
            )
            again = join_request("g", instance_id="one", protocols=(("range", subscription("u")),))
            assert (await coordinator.join_group(again, TestCaller(5))).generation_id == 1
            partitions = [OffsetDeleteRequestPartition(partition_index=0)]
            request = OffsetDeleteRequest(
                group_id="g", topics=[OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in "tu"]
            )
            response = await coordinator.offset_delete(request, CALLER)
            codes = {topic.name: topic.partitions[0].error_code for topic in response.topics}
            assert codes == {"t": 0, "u": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}

    run(scenario)


def test_a_refused_first_commit_creates_no_group():
    async def scenario():
        async with serving(config=GroupCoordinatorConfig(offset_metadata_max_bytes=4)) as service:
            request = commit_request("g", {("t", 0): 1}, metadata="abcde")
            response = await service.coordinator.offset_commit(request, CALLER)
            assert response.topics[0].partitions[0].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE
            listed = await service.coordinator.list_groups(ListGroupsRequest(), TestCaller(5))
            assert listed.groups == []
            assert service.log.batches == {}

    run(scenario)


@pytest.mark.parametrize("order", [("range", "roundrobin"), ("roundrobin", "range")])
def test_among_protocols_with_equal_votes_the_preference_of_the_oldest_member_wins(order):
    async def scenario():
        config = GroupCoordinatorConfig(group_initial_rebalance_delay_ms=100)
        async with serving(config=config) as service, trio.open_nursery() as nursery:
            chosen = []

            async def join(names: tuple[str, ...]) -> None:
                request = join_request("g", protocols=tuple((name, subscription("t")) for name in names))
                chosen.append((await service.coordinator.join_group(request, TestCaller(3))).protocol_name)

            nursery.start_soon(join, order)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(join, order[::-1])
            await trio.sleep(0.3)
            assert chosen == [order[0]] * 2
            nursery.cancel_scope.cancel()

    run(scenario)


def test_a_large_commit_that_fails_midway_keeps_its_first_chunk(monkeypatch):
    assert PARTITIONS_A_WRITE == 1100
    monkeypatch.setattr(
        "kraft.coordinator.group.service.group_coordinator.PARTITIONS_A_WRITE", 2
    )  # A topic counts as one.

    async def scenario():
        async with serving() as service:
            partition, real_append = service.partition("g"), service.log.append

            async def append(*arguments, **named):
                if service.log.batches.get(partition):
                    raise NotLeader("moved away")
                return await real_append(*arguments, **named)

            service.log.append, service.log.takes_at_once = append, False
            request = commit_request("g", {("t", 0): 1, ("t", 1): 2})
            response = await service.coordinator.offset_commit(request, CALLER)
            codes = {each.partition_index: each.error_code for each in response.topics[0].partitions}
            assert codes == {0: 0, 1: ErrorCode.NOT_COORDINATOR}
            assert [key.partition for key in (await service.coordinator.committed_offsets())["g"]] == [0]

    run(scenario)
