"""Members that subscribe to patterns: matching, refreshing, forgetting."""

from __future__ import annotations

import pytest

from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.consumer.consumer_group import ResolvedRegex
from kraft.coordinator.group.consumer.describe import describe_consumer_group
from kraft.coordinator.group.consumer.expressions import REFRESH_MS_MIN, adopt_expressions
from kraft.protocol.error_codes import ErrorCode
from kraft.world.steps import at_once
from tests.unit.coordinator.classic_consumers import ClassicConsumer
from tests.unit.coordinator.consumers import GROUP, Consumer, ConsumerHost
from tests.unit.coordinator.fakes import Topics
from tests.unit.coordinator.group_host import WALL_START_MS, rebuild

REFRESH_MS = 3 * REFRESH_MS_MIN


@pytest.fixture
def host() -> ConsumerHost:
    return ConsumerHost(
        GroupCoordinatorConfig(group_consumer_regex_refresh_interval_ms=REFRESH_MS), Topics("a1", "a2", "b1")
    )


def pattern(host: ConsumerHost, member_id: str, text: str, *topics: str, instance_id: str | None = None) -> Consumer:
    member = Consumer(host, member_id, *topics, instance_id=instance_id)
    member.pattern = text
    return member


def beat(host: ConsumerHost, *members: Consumer, milliseconds: int = 1_000) -> None:
    """The interval between two targets passes, what was asked for is done, and all send heartbeats until each has what
    it is to have."""
    for _ in range(5):
        host.do_jobs()
        host.advance(milliseconds)
        milliseconds = 1_000
        for member in members:
            member.beat()


def names(host: ConsumerHost, member: Consumer) -> set[str | None]:
    return {host.topics.topic_name(topic_id) for topic_id, _ in member.owned}


def test_a_member_is_assigned_all_topics_that_match_its_pattern(host: ConsumerHost) -> None:
    member = pattern(host, "m", "a[0-9]").join()
    assert (member.error, member.epoch, member.owned, host.group.group_epoch) == (ErrorCode.NONE, 1, set(), 1)
    host.topics.names += ["a10", "ba1"]
    beat(host, member)
    assert names(host, member) == {"a1", "a2"}
    assert (member.epoch, host.group.group_epoch) == (2, 2)
    assert host.group.regexes["a[0-9]"].topics == {"a1", "a2"}


def test_the_first_heartbeat_after_a_match_assigns_the_matched_topics(host: ConsumerHost) -> None:
    """A client sends it at once, and the next one a whole interval later."""
    member = pattern(host, "m", "a[0-9]").join()
    host.do_jobs()
    member.beat()
    assert (names(host, member), member.epoch) == ({"a1", "a2"}, 2)


def test_topic_names_and_a_pattern_are_combined(host: ConsumerHost) -> None:
    member = pattern(host, "m", "a1", "b1").join()
    assert names(host, member) == {"b1"}
    beat(host, member)
    assert names(host, member) == {"a1", "b1"}


def test_a_pattern_without_matches_changes_nothing(host: ConsumerHost) -> None:
    member = pattern(host, "m", "c.*").join()
    beat(host, member)
    assert (member.epoch, host.group.group_epoch, member.owned) == (1, 1, set())
    assert host.group.regexes["c.*"].topics == frozenset()
    assert host.jobs == {}


def test_an_invalid_pattern_is_refused_with_the_reason(host: ConsumerHost) -> None:
    member = pattern(host, "m", "a(").join()
    assert member.error == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert member.message == "SubscribedTopicRegex is not valid: missing ): a(."
    assert host.state.consumer_group(GROUP) is None
    other = pattern(host, "o", "a1").join()
    beat(host, other)
    other.pattern = "a("
    assert other.beat(full=True).error == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert host.group.members["o"].regex == "a1"


def test_topics_without_describe_permission_are_not_matched(host: ConsumerHost) -> None:
    host.hidden = {"a2"}
    member = pattern(host, "m", "a.*").join()
    beat(host, member)
    assert names(host, member) == {"a1"}
    assert host.group.regexes["a.*"].topics == {"a1"}


def test_a_topic_subscribed_by_name_stays_assigned_when_the_pattern_stops_matching_it(host: ConsumerHost) -> None:
    host.hidden = {"a2"}
    member = pattern(host, "m", "a.*", "a2").join()
    beat(host, member)
    assert names(host, member) == {"a1", "a2"}


def test_a_second_member_with_the_same_pattern_needs_no_matching(host: ConsumerHost) -> None:
    first = pattern(host, "m", "a.*").join()
    beat(host, first)
    second = pattern(host, "n", "a.*").join()
    assert (host.jobs, host.group.group_epoch) == ({}, 3)
    beat(host, first, second)
    assert len(first.owned) == len(second.owned) == 2


def test_created_and_deleted_topics_change_the_matches_of_a_pattern(host: ConsumerHost) -> None:
    member = pattern(host, "m", "a.*").join()
    beat(host, member)
    host.topics.names.append("a3")
    member.beat()
    assert host.jobs == {}  # The last matching was less than ten seconds ago.
    beat(host, member, milliseconds=REFRESH_MS_MIN)
    assert names(host, member) == {"a1", "a2", "a3"}
    epoch = host.group.group_epoch
    host.topics.names.remove("a1")
    beat(host, member, milliseconds=REFRESH_MS_MIN)
    assert names(host, member) == {"a2", "a3"}
    assert host.group.regexes["a.*"].topics == {"a2", "a3"}
    assert host.group.group_epoch == epoch + 1


def test_patterns_are_matched_again_after_the_interval(host: ConsumerHost) -> None:
    member = pattern(host, "m", "a.*").join()
    beat(host, member)
    host.hidden = {"a2"}  # No topic came or went.
    host.advance(REFRESH_MS - host.now_ms)
    member.beat()
    assert host.jobs == {}
    host.advance(1)
    member.beat()
    beat(host, member)
    assert names(host, member) == {"a1"}


def test_a_clock_set_backwards_does_not_delay_matching(host: ConsumerHost) -> None:
    member = pattern(host, "m", "a.*").join()
    beat(host, member)
    later = ResolvedRegex(frozenset({"a1"}), 0, WALL_START_MS + host.now_ms + 10**9)
    host.run(lambda draft: adopt_expressions(draft, GROUP, {"a.*": later._replace(version=99)}))
    member.beat()
    assert list(host.jobs) == [GROUP]


def test_a_pattern_is_removed_with_its_last_subscriber(host: ConsumerHost) -> None:
    first, second = pattern(host, "m", "a.*").join(), pattern(host, "n", "a.*").join()
    beat(host, first, second)
    second.leave()
    assert list(host.group.regexes) == ["a.*"]
    first.pattern = ""
    first.topics = ["b1"]
    first.beat(full=True)
    assert dict(host.group.regexes) == {}
    beat(host, first)
    assert names(host, first) == {"b1"}


def test_a_member_may_replace_its_pattern(host: ConsumerHost) -> None:
    member = pattern(host, "m", "a.*").join()
    beat(host, member)
    member.pattern = "b.*"
    member.beat(full=True)
    assert dict(host.group.regexes) == {}
    beat(host, member)
    assert names(host, member) == {"b1"}
    assert list(host.group.regexes) == ["b.*"]


@pytest.mark.parametrize("goes", ["leaves", "expires"])
def test_the_pattern_is_removed_when_the_last_member_leaves(host: ConsumerHost, goes: str) -> None:
    member = pattern(host, "m", "a.*").join()
    beat(host, member)
    if goes == "leaves":
        member.leave()
    else:
        host.advance(46_000)
    assert (dict(host.group.members), dict(host.group.regexes)) == ({}, {})


def test_a_member_that_returns_with_the_classic_protocol_has_no_pattern(host: ConsumerHost) -> None:
    first = pattern(host, "m", "a.*", instance_id="i").join()
    other = Consumer(host, "o", "b1").join()
    beat(host, first, other)
    first.leave(-2)
    ClassicConsumer(host, "c", "a1", instance_id="i").join()
    assert dict(host.group.regexes) == {}


def test_a_replaced_static_member_keeps_its_pattern(host: ConsumerHost) -> None:
    first = pattern(host, "m", "a.*", instance_id="i").join()
    beat(host, first)
    first.leave(-2)
    again = pattern(host, "n", "a.*", instance_id="i").join()
    assert (names(host, again), host.jobs) == ({"a1", "a2"}, {})


def test_the_result_of_an_outdated_matching_is_dropped(host: ConsumerHost) -> None:
    member = pattern(host, "m", "a.*").join()
    (job,) = host.jobs.values()
    late = host.outcome_of(job)
    host.topics.names.append("a3")
    beat(host, member)
    before = host.state
    host.run(late)
    assert host.state == before


def test_the_result_of_a_matching_without_subscribers_is_dropped(host: ConsumerHost) -> None:
    member = pattern(host, "m", "a.*").join()
    member.pattern = ""
    member.beat(full=True)
    host.do_jobs()
    assert dict(host.group.regexes) == {}
    member.leave()
    host.run(lambda draft: adopt_expressions(draft, "gone", {"a.*": ResolvedRegex(frozenset(), 1, 1)}))
    assert host.state.consumer_group("gone") is None


def test_a_new_coordinator_loads_the_matches_of_patterns(host: ConsumerHost) -> None:
    member = pattern(host, "m", "a.*").join()
    beat(host, member)
    before = host.group
    assert rebuild(host.shard, host.log).consumer_group(GROUP) == before
    host.load()
    member.beat()
    assert (host.jobs, host.group.regexes, names(host, member)) == ({}, before.regexes, {"a1", "a2"})


def test_a_pattern_is_shown_in_the_group_description(host: ConsumerHost) -> None:
    member = pattern(host, "m", "a.*", "b1").join()
    beat(host, member)
    (told,) = at_once(describe_consumer_group(host.group, host.topics, "uniform")).members
    assert (told.subscribed_topic_regex, told.subscribed_topic_names) == ("a.*", ["b1"])
