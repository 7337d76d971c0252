"""What members of streams groups are told, what is written for them, and what a successor makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.coordinator.group.classic.join import join
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.consumer.heartbeat import consumer_heartbeat
from kraft.coordinator.group.offsets.offset_commit import commit_offsets
from kraft.coordinator.group.streams.configured_topology import Status
from kraft.coordinator.group.streams.heartbeat import check_request
from kraft.coordinator.group.streams.member import MemberState
from kraft.coordinator.group.streams.settings import StreamsGroupSettings
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
)
from tests.unit.coordinator.group.streams.applications import Application, at, reads, statuses, tags, topology
from tests.unit.coordinator.group_host import TestCaller, commit_request, join_request, rebuild

SETTINGS = StreamsGroupSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
SESSION_MS = 45_000


@contextmanager
def refusal(code: int) -> Iterator[None]:
    """A block that must be refused with this code."""
    with pytest.raises(ApiError) as refused:
        yield
    assert refused.value.code == code, refused.value


# Tasks.


def test_the_first_member_gets_all_tasks_in_its_first_response() -> None:
    it = Application(topology(reads("t"), reads("u", name="1")))
    response = it.join("a").response
    assert (response.error_code, response.member_epoch, response.heartbeat_interval_ms) == (0, 2, 5_000)
    assert (response.task_offset_interval_ms, response.acceptable_recovery_lag) == (60_000, 10_000)
    assert it.active("a") == {"0": {0, 1}, "1": {0, 1}}
    assert it.group.state == "Stable"


def test_a_task_moves_only_after_its_owner_has_revoked_it() -> None:
    it = Application()
    it.join("a")
    assert it.join("b").response.active_tasks == []
    told = it.beat("a", adopt=False)
    assert told.response.active_tasks is not None
    assert it.beat("b").response.active_tasks is None, "the task is still owned"
    it.beat("a", adopt=False)  # It still reports the task.
    assert it.group.members["a"].state == MemberState.UNREVOKED_TASKS
    it.beat("b")
    assert it.active("b") == {}
    it.adopt("a", told)
    it.settle("a", "b")
    assert sorted((*it.active("a")["0"], *it.active("b")["0"])) == [0, 1]


def test_tasks_without_changes_are_not_sent_again() -> None:
    it = Application()
    it.join("a")
    response = it.beat("a").response
    assert (response.active_tasks, response.standby_tasks, response.warmup_tasks) == (None, None, None)


def test_standby_tasks_are_in_another_process() -> None:
    it = Application(topology(reads("t", stores=["u"])), settings=replace(SETTINGS, standby_count=1))
    it.join("a")
    it.join("b")
    it.settle("a", "b")
    assert it.standby("a") == it.active("b")
    assert it.standby("b") == it.active("a")


def test_a_changed_number_of_standby_tasks_gives_another_assignment() -> None:
    it = Application(topology(reads("t", stores=["u"])))
    it.join("a")
    it.join("b")
    it.settle("a", "b")
    it.host.streams_configs.settings = replace(SETTINGS, standby_count=1)
    it.settle("a", "b")
    assert it.standby("a") == it.active("b")


def test_a_standby_task_that_becomes_active_is_kept_until_then() -> None:
    it = Application(topology(reads("t", stores=["u"])), settings=replace(SETTINGS, standby_count=1))
    it.join("a")
    it.join("b")
    it.settle("a", "b")
    before = it.standby("b")
    it.leave("a")
    it.settle("b")
    assert before["0"] <= it.active("b")["0"]
    assert it.standby("b") == {}


def test_a_member_that_owns_what_it_was_not_assigned_is_fenced() -> None:
    it = Application()
    it.join("a")
    it.join("b")
    it.beat("a", adopt=False)
    with refusal(ErrorCode.FENCED_MEMBER_EPOCH):
        it.beat("a", member_epoch=9)
    with refusal(ErrorCode.FENCED_MEMBER_EPOCH):
        it.beat("a", member_epoch=1)


def test_tasks_that_do_not_exist_cannot_be_reported() -> None:
    it = Application()
    it.join("a")
    with refusal(ErrorCode.INVALID_REQUEST):
        it.beat("a", active_tasks=[TaskIds(subtopology_id="9", partitions=[0])])
    with refusal(ErrorCode.INVALID_REQUEST):
        it.beat("a", active_tasks=[TaskIds(subtopology_id="0", partitions=[2])])


# Topics.


def test_members_wait_without_tasks_while_source_topics_are_missing() -> None:
    it = Application(topology(reads("t", "x")))
    heard = it.join("a")
    assert statuses(heard) == {Status.MISSING_SOURCE_TOPICS: "Source topics x are missing."}
    assert (it.active("a"), heard.missing, it.group.state) == ({}, {}, "NotReady")
    it.host.topics.names.append("x")
    assert statuses(it.beat("a")) == {}
    assert it.active("a") == {"0": {0, 1}}


def test_missing_internal_topics_are_named_with_their_partitions() -> None:
    store = TopicInfo(name="store", replication_factor=2)
    writes = reads("t", name="0", repartition_sink_topics=["r"])
    counts = Subtopology(
        subtopology_id="1", repartition_source_topics=[TopicInfo(name="r")], state_changelog_topics=[store]
    )
    it = Application(topology(writes, counts))
    it.host.topics.counts["t"] = 3
    heard = it.join("a")
    assert statuses(heard) == {Status.MISSING_INTERNAL_TOPICS: "Internal topics are missing: r, store"}
    assert {name: topic.partitions for name, topic in heard.missing.items()} == {"r": 3, "store": 3}
    it.host.topics.names += ["r", "store"]
    it.host.topics.counts |= {"r": 3, "store": 3}
    it.settle("a")
    assert it.active("a") == {"0": {0, 1, 2}, "1": {0, 1, 2}}


def test_an_internal_topic_with_other_partitions_stops_the_assignment() -> None:
    it = Application(topology(reads("t", stores=["u"])))
    it.host.topics.counts["u"] = 5
    assert statuses(it.join("a")) == {
        Status.INCORRECTLY_PARTITIONED_TOPICS: (
            "Existing topic u has different number of partitions: expected 2, found 5"
        )
    }
    assert it.active("a") == {}


def test_copartitioned_topics_must_have_the_same_partitions() -> None:
    together = CopartitionGroup(source_topics=[0, 1])
    it = Application(topology(reads("t", "u", copartition_groups=[together])))
    it.host.topics.counts["u"] = 3
    assert statuses(it.join("a")) == {
        Status.INCORRECTLY_PARTITIONED_TOPICS: (
            "Following topics do not have the same number of partitions: [{t=2, u=3}]"
        )
    }


def test_new_partitions_of_a_source_topic_give_new_tasks() -> None:
    it = Application()
    it.join("a")
    it.host.topics.counts["t"] = 4
    it.settle("a")
    assert it.active("a") == {"0": {0, 1, 2, 3}}


@pytest.mark.parametrize(
    "shape",
    [
        topology(Subtopology(subtopology_id="0", repartition_source_topics=[TopicInfo(name="r")])),
        topology(
            Subtopology(
                subtopology_id="0", repartition_source_topics=[TopicInfo(name="r")], repartition_sink_topics=["r"]
            )
        ),
        topology(Subtopology(subtopology_id="0")),
        topology(reads("t", copartition_groups=[CopartitionGroup(source_topics=[7])])),
        topology(reads("t"), reads("u")),
        topology(
            Subtopology(
                subtopology_id="0",
                source_topics=["t"],
                state_changelog_topics=[TopicInfo(name="c", partitions=2)],
            )
        ),
    ],
    ids=["never a sink", "loop", "no source", "unknown copartition", "same id", "changelog with partitions"],
)
def test_a_topology_that_no_topics_can_fit_is_refused(shape: Any) -> None:
    with refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY):
        Application(shape).join("a")


# Topologies.


def test_another_topology_is_refused_and_an_older_one_is_reported_as_stale() -> None:
    it = Application(topology(reads("t"), epoch=3))
    it.join("a")
    it.shape = topology(reads("u"), epoch=4)
    with refusal(ErrorCode.INVALID_REQUEST):
        it.join("b")
    it.shape = topology(reads("u"), epoch=2)
    assert statuses(it.join("b")) == {
        Status.STALE_TOPOLOGY: "The member's topology epoch 2 is behind the group's topology epoch 3."
    }


# Members.


def test_members_that_fall_silent_are_removed_and_their_tasks_go_to_others() -> None:
    it = Application()
    it.join("a")
    it.join("b")
    it.settle("a", "b")
    it.host.advance(SESSION_MS - 1)
    it.beat("a")
    it.host.advance(1)
    assert list(it.group.members) == ["a"]
    it.settle("a")
    assert it.active("a") == {"0": {0, 1}}


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    it = Application()
    it.join("a", rebalance_timeout_ms=10_000)
    it.join("b")
    it.beat("a", adopt=False)
    it.host.advance(9_999)
    it.beat("a", adopt=False)
    it.host.advance(1)
    assert list(it.group.members) == ["b"]


def test_a_static_member_keeps_its_tasks_while_it_is_away() -> None:
    it = Application()
    it.instances = {"a": "i", "a2": "i"}
    it.join("a")
    it.join("b")
    it.settle("a", "b")
    epoch, tasks = it.group.group_epoch, it.active("a")
    assert it.leave("a", -2).response.member_epoch == -2
    it.join("a2")
    assert (it.active("a2"), it.group.group_epoch) == (tasks, epoch), "nothing moves"
    assert sorted(it.group.members) == ["a2", "b"]
    with refusal(ErrorCode.UNRELEASED_INSTANCE_ID):
        it.instances["a3"] = "i"
        it.join("a3")
    with refusal(ErrorCode.FENCED_INSTANCE_ID):
        it.beat("a")


def test_a_static_member_cannot_replace_an_unreleased_one() -> None:
    it = Application()
    it.instances = {"a": "i", "a2": "i"}
    it.join("a")
    it.join("b")
    it.settle("a", "b")
    before, tasks = it.group, it.active("a")
    with refusal(ErrorCode.UNRELEASED_INSTANCE_ID):
        it.join("a2")
    it.beat("a")
    assert (it.group, it.active("a")) == (before, tasks)


def test_a_full_group_takes_no_further_member() -> None:
    it = Application(config=GroupCoordinatorConfig(group_streams_max_size=1))
    it.join("a")
    it.join("a")
    with refusal(ErrorCode.GROUP_MAX_SIZE_REACHED):
        it.join("b")


def test_a_shutdown_request_reaches_every_member_until_all_have_left() -> None:
    it = Application()
    it.join("a")
    it.join("b")
    it.beat("a", shutdown_application=True)
    assert list(statuses(it.beat("b"))) == [Status.SHUTDOWN_APPLICATION]
    assert "Streams group member a " in statuses(it.beat("b"))[Status.SHUTDOWN_APPLICATION]
    it.leave("a")
    assert list(statuses(it.beat("b"))) == [Status.SHUTDOWN_APPLICATION]
    it.leave("b")
    assert statuses(it.join("a")) == {}


def test_members_without_the_tags_of_the_group_get_a_status() -> None:
    it = Application(settings=replace(SETTINGS, rack_aware_tags=("zone", "rack")))
    heard = it.join("a", client_tags=tags(zone="1"))
    assert "[rack]" in statuses(heard)[Status.MISSING_CLIENT_TAGS]
    assert statuses(it.beat("a", version=0)) == {}, "an older client does not know the status"


# Time.


def test_the_first_assignment_waits_for_more_members() -> None:
    it = Application(settings=replace(SETTINGS, initial_rebalance_delay_ms=3_000))
    assert list(statuses(it.join("a"))) == [Status.ASSIGNMENT_DELAYED]
    assert (it.epochs["a"], it.active("a"), it.group.state) == (1, {}, "Assigning")
    it.host.advance(1_000)
    it.join("b")
    it.host.advance(1_999)
    assert list(statuses(it.beat("a"))) == [Status.ASSIGNMENT_DELAYED]
    it.host.advance(1)
    it.settle("a", "b")
    assert (len(it.active("a")["0"]), len(it.active("b")["0"])) == (1, 1)


def test_assignments_keep_their_interval() -> None:
    it = Application(settings=replace(SETTINGS, assignment_interval_ms=1_000))
    it.join("a")
    heard = it.join("b")
    assert statuses(heard) == {
        Status.ASSIGNMENT_DELAYED: "Assignment delayed due to the configured assignment interval."
    }
    assert heard.response.member_epoch == 2
    it.host.advance(1_000)
    it.settle("a", "b")


def test_a_member_that_left_and_returns_waits_for_the_next_assignment() -> None:
    it = Application(settings=replace(SETTINGS, assignment_interval_ms=1_000))
    it.join("a")
    it.join("b")
    it.host.advance(1_000)
    it.settle("a", "b")
    it.leave("b")
    heard = it.join("b")
    assert list(statuses(heard)) == [Status.ASSIGNMENT_DELAYED]
    assert not it.active("b")
    it.host.advance(1_000)
    it.settle("a", "b")
    assert it.active("b")


# Endpoints.


def test_endpoints_are_sent_to_members_that_do_not_know_them() -> None:
    it = Application()
    it.join("a", user_endpoint=at("one"))
    it.join("b", user_endpoint=at("two"))
    it.settle("a", "b")
    response = it.beat("a", endpoint_information_epoch=0).response
    assert response.endpoint_information_epoch > 0
    assert response.partitions_by_user_endpoint is not None
    found = {
        each.user_endpoint.host: [(part.topic, list(part.partitions)) for part in each.active_partitions]
        for each in response.partitions_by_user_endpoint
    }
    assert found == {"one": [("t", sorted(it.active("a")["0"]))], "two": [("t", sorted(it.active("b")["0"]))]}
    known = it.beat("a", endpoint_information_epoch=response.endpoint_information_epoch).response
    assert known.partitions_by_user_endpoint is None


def test_a_member_with_an_endpoint_is_told_that_topics_are_missing() -> None:
    it = Application(topology(reads("absent")))
    heard = it.join("a", user_endpoint=at("one"))
    assert list(statuses(heard)) == [Status.MISSING_SOURCE_TOPICS]
    [told] = heard.response.partitions_by_user_endpoint or []
    assert (told.user_endpoint.host, told.active_partitions, told.standby_partitions) == ("one", [], [])


def test_a_group_of_offsets_alone_starts_no_epoch_of_endpoints() -> None:
    it = Application()
    it.host.run(lambda draft: commit_offsets(draft, commit_request("g", {("t", 0): 7}), 9))
    assert it.join("a", user_endpoint=at("one")).response.endpoint_information_epoch == 0


# Groups of other types.


def test_a_group_of_another_type_is_refused() -> None:
    it = Application()
    it.host.run(_classic_join)
    with refusal(ErrorCode.GROUP_ID_NOT_FOUND):
        it.join("a")


def _classic_join(draft: Any) -> Any:
    return join(draft, join_request("g", instance_id="i"), TestCaller(5), "x")


def test_a_streams_group_takes_no_members_of_other_protocols() -> None:
    it = Application()
    it.join("a")
    assert it.host.run(_classic_join)[1].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="c", subscribed_topic_names=["t"])
    with refusal(ErrorCode.GROUP_ID_NOT_FOUND):
        it.host.run(lambda draft: consumer_heartbeat(draft, request, TestCaller(1), "c", lambda _: True))
    it.leave("a")
    it.host.run(_classic_join)
    assert (list(it.host.state.groups), list(it.host.state.streams_groups)) == (["g"], [])
    assert not rebuild(it.host.shard, it.host.log).streams_groups


def test_an_empty_classic_group_becomes_a_streams_group_and_keeps_its_offsets() -> None:
    it = Application()
    it.host.run(lambda draft: commit_offsets(draft, commit_request("g", {("t", 0): 7}), 9))
    it.join("a")
    assert (list(it.host.state.groups), len(it.host.offsets("g"))) == ([], 1)


# Records.


def test_a_successor_has_the_same_group() -> None:
    it = Application(topology(reads("t", stores=["u"])), settings=replace(SETTINGS, standby_count=1))
    it.instances = {"a": "i"}
    it.join("a", client_tags=tags(zone="1"), user_endpoint=at("one"), rack_id="r")
    it.join("b")
    told = it.beat("a", adopt=False)
    assert rebuild(it.host.shard, it.host.log).streams_groups == it.host.state.streams_groups
    it.adopt("a", told)
    it.settle("a", "b")
    it.leave("a", -2)
    assert rebuild(it.host.shard, it.host.log).streams_groups == it.host.state.streams_groups
    it.host.load()
    it.host.advance(SESSION_MS - 1)
    assert len(it.group.members) == 2, "sessions start anew"
    it.host.advance(1)
    assert it.group.state == "Empty"


def test_task_offsets_are_described_and_may_not_be_reported_twice() -> None:
    it = Application()
    it.join("a")
    offset = TaskOffset(subtopology_id="0", partition=0, offset=5_000)
    it.beat("a", task_offsets=[offset])
    assert dict(it.group.offsets_of("a").offsets) == {("0", 0): 5_000}
    with refusal(ErrorCode.INVALID_REQUEST):
        it.beat("a", task_offsets=[offset, offset])


# Requests.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active_tasks": [TaskIds()]}, "ActiveTasks must be empty when (re-)joining."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"warmup_tasks": None}, "If one task-type is non-null, all must be non-null."),
        ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
        ({"member_epoch": -2, "topology": None}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        (
            {"topology": topology(reads("t", source_topic_regex=["x"]))},
            "Regular expressions for source topics are not supported yet.",
        ),
    ],
)
def test_an_invalid_request_is_refused_with_the_reason(changes: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "rebalance_timeout_ms": 1,
        "topology": topology(reads("t")),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    }
    with pytest.raises(ApiError) as refused:
        check_request(StreamsGroupHeartbeatRequest(**(fields | changes)))
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_a_heartbeat_to_a_missing_group_is_refused() -> None:
    it = Application()
    it.epochs["a"], it.owned["a"] = 0, ({}, {}, {})
    with refusal(ErrorCode.GROUP_ID_NOT_FOUND):
        it.beat("a", member_epoch=1)
    with refusal(ErrorCode.GROUP_ID_NOT_FOUND):
        it.leave("a")
