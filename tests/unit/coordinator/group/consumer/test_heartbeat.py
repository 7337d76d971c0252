"""ConsumerGroupHeartbeat: joining, rebalancing, fencing, leaving."""

from __future__ import annotations

import pytest

from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroupState
from kraft.coordinator.group.consumer.member import MemberState
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from tests.unit.coordinator.consumers import GROUP, Consumer, ConsumerHost, settle
from tests.unit.coordinator.group_host import rebuild


@pytest.fixture
def host() -> ConsumerHost:
    host = ConsumerHost()
    host.topics.counts["t"] = 4
    return host


def test_the_first_member_gets_all_partitions(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t").join()
    assert (first.error, first.epoch, first.has) == (ErrorCode.NONE, 2, {0, 1, 2, 3})
    assert host.group.state is ConsumerGroupState.STABLE


def test_partitions_are_revoked_before_they_are_assigned_to_another_member(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t").join()
    host.advance(1_000)
    second = Consumer(host, "b", "t").join()
    assert (second.epoch, second.has) == (3, set())
    assert host.group.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    told = first.send()
    assert told.member_epoch == 2  # It stays in its epoch while it has what is not its any more.
    first.take(told)
    second.beat()
    assert second.has == set()
    first.beat()
    second.beat()
    assert (first.has, second.has, first.epoch, second.epoch) == ({0, 1}, {2, 3}, 3, 3)
    assert host.group.state is ConsumerGroupState.STABLE


def test_no_target_is_computed_before_the_assignment_interval_has_passed(host: ConsumerHost) -> None:
    Consumer(host, "a", "t").join()
    host.advance(999)
    second = Consumer(host, "b", "t").join()
    assert (second.epoch, host.group.group_epoch, host.group.assignment_epoch) == (2, 3, 2)
    host.advance(1)
    assert second.beat().epoch == 3


def test_a_leaving_member_releases_its_partitions(host: ConsumerHost) -> None:
    first, second = Consumer(host, "a", "t").join(), Consumer(host, "b", "t").join()
    settle(host, first, second)
    assert second.leave().epoch == -1
    settle(host, first)
    assert first.has == {0, 1, 2, 3}
    assert set(host.group.members) == {"a"}


def test_an_expired_session_removes_the_member(host: ConsumerHost) -> None:
    first, second = Consumer(host, "a", "t").join(), Consumer(host, "b", "t").join()
    for _ in range(50):
        host.advance(1_000)
        first.beat()
    assert first.has == {0, 1, 2, 3}
    assert second.beat().error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_revoke_in_time_is_removed(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t").join()
    host.advance(1_000)
    second = Consumer(host, "b", "t").join()
    for _ in range(70):
        host.advance(1_000)
        first.assigned = first.owned  # It hears, but does not act.
        first.beat()
        second.beat()
    assert first.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert second.has == {0, 1, 2, 3}


def test_a_repeated_heartbeat_recovers_a_lost_response(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t").join()
    host.advance(1_000)
    second = Consumer(host, "b", "t").join()
    first.beat()
    first.send()  # The answer that raises its epoch is lost.
    assert (first.epoch, host.group.members["a"].member_epoch) == (2, 3)
    first.beat(full=True)
    assert (first.error, first.epoch, first.has) == (ErrorCode.NONE, 3, {0, 1})
    settle(host, first, second)


def test_a_previous_epoch_that_claims_partitions_of_other_members_is_fenced(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t").join()
    host.advance(1_000)
    Consumer(host, "b", "t").join()
    first.beat()
    first.send()
    first.assigned = first.owned = {*first.owned, (host.topics.topic_id("t") or b"", 3)}
    assert first.beat().error == ErrorCode.FENCED_MEMBER_EPOCH


def test_unknown_member_epochs_are_fenced(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t").join()
    first.epoch = 7
    assert first.beat().error == ErrorCode.FENCED_MEMBER_EPOCH
    first.epoch = 1
    for _ in range(2):
        first.topics = ["u"] if first.topics == ["t"] else ["t"]
        host.advance(1_000)
        first.beat(full=True)
        first.beat()
    first.epoch = 1
    assert first.beat().error == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_fenced_member_can_join_again(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t").join()
    first.epoch = 9
    first.beat()
    assert first.join().has == {0, 1, 2, 3}
    assert host.group.group_epoch == 2


def test_added_grown_deleted_and_recreated_topics_change_the_assignment(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t", "later").join()
    assert len(first.owned) == 4
    host.topics.names.append("later")
    settle(host, first)
    assert len(first.owned) == 6
    host.topics.counts["later"] = 3
    settle(host, first)
    assert len(first.owned) == 7
    host.topics.delete_and_recreate()
    settle(host, first)
    assert {topic_id for topic_id, _ in first.owned} == {host.topics.topic_id("t"), host.topics.topic_id("later")}
    host.topics.names.remove("t")
    settle(host, first)
    assert len(first.owned) == 3


def test_the_partitions_of_an_unsubscribed_topic_are_revoked(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t", "u").join()
    first.topics = ["u"]
    first.beat(full=True)
    settle(host, first)
    assert {topic_id for topic_id, _ in first.owned} == {host.topics.topic_id("u")}


def test_a_static_member_keeps_its_partitions_during_its_absence(host: ConsumerHost) -> None:
    first, second = Consumer(host, "a", "t", instance_id="i").join(), Consumer(host, "b", "t").join()
    settle(host, first, second)
    had = set(first.owned)
    assert first.leave(-2).epoch == -2
    epoch = host.group.group_epoch
    settle(host, second)
    back = Consumer(host, "c", "t", instance_id="i").join()
    assert (back.error, back.owned, host.group.group_epoch) == (ErrorCode.NONE, had, epoch)
    assert first.beat().error == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_return_is_removed(host: ConsumerHost) -> None:
    first, second = Consumer(host, "a", "t", instance_id="i").join(), Consumer(host, "b", "t").join()
    settle(host, first, second)
    first.leave(-2)
    for _ in range(50):
        host.advance(1_000)
        second.beat()
    assert second.has == {0, 1, 2, 3}


def test_an_instance_id_in_use_is_refused(host: ConsumerHost) -> None:
    Consumer(host, "a", "t", instance_id="i").join()
    second = Consumer(host, "b", "t", instance_id="i").join()
    assert second.error == ErrorCode.UNRELEASED_INSTANCE_ID
    second.epoch = 1
    assert second.beat().error == ErrorCode.FENCED_INSTANCE_ID
    second.instance_id = "nobody"
    assert second.beat().error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_at_its_maximum_size_refuses_members() -> None:
    host = ConsumerHost(GroupCoordinatorConfig(group_consumer_max_size=1))
    first = Consumer(host, "a", "t").join()
    assert Consumer(host, "b", "t").join().error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.beat().error == ErrorCode.NONE


def test_a_member_of_an_old_client_gets_a_generated_id(host: ConsumerHost) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert host.heartbeat(request, api_version=0).member_id == "made-here"
    assert host.heartbeat(request, api_version=1).error_message == "MemberId can't be empty."


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST, "InstanceId can't be empty."),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST, "InstanceId can't be null."),
        (
            {"rebalance_timeout_ms": -1},
            ErrorCode.INVALID_REQUEST,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            ErrorCode.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (
            {"server_assignor": "mine"},
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor mine is not supported. Supported assignors: uniform, range.",
        ),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found."),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found."),
    ],
)
def test_invalid_heartbeats_are_refused(
    host: ConsumerHost, changes: dict[str, object], code: int, message: str
) -> None:
    request = Consumer(host, "a", "t").request(full=True)
    for name, value in changes.items():
        setattr(request, name, value)
    answer = host.heartbeat(request)
    assert (answer.error_code, answer.error_message) == (code, message)
    assert not host.log


def test_a_new_coordinator_loads_the_group(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t").join()
    host.advance(1_000)
    second = Consumer(host, "b", "t", instance_id="i").join()
    first.beat()
    before = host.state
    host.load()
    assert host.state == before
    assert rebuild(host.shard, host.log) == before
    settle(host, first, second)
    assert (len(first.has), len(second.has), first.has & second.has) == (2, 2, set())


def test_the_revocation_timeout_continues_under_a_new_coordinator(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t").join()
    host.advance(1_000)
    second = Consumer(host, "b", "t").join()
    first.send()
    host.load()
    for _ in range(61):
        host.advance(1_000)
        second.beat()
    assert "a" not in host.group.members


def test_group_configs_are_applied(host: ConsumerHost) -> None:
    host.consumer_configs.settings = type(host.consumer_configs.settings)(
        session_timeout_ms=9_000, heartbeat_interval_ms=1_234
    )
    assert Consumer(host, "a", "t").send().heartbeat_interval_ms == 1_234
    host.advance(8_999)
    assert not host.group.is_empty
    host.advance(1)
    assert host.group.is_empty


def test_the_range_assignor_is_used_when_members_request_it(host: ConsumerHost) -> None:
    first = Consumer(host, "a", "t", "u", server_assignor="range").join()
    second = Consumer(host, "b", "t", "u", server_assignor="range").join()
    settle(host, first, second)
    assert (first.has, second.has) == ({0, 1}, {2, 3, 1})
