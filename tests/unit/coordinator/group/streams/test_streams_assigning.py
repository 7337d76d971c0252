"""Targets of large streams groups, computed by jobs beside the heartbeats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraft.coordinator.group.streams import assigning
from kraft.coordinator.group.streams.assigning import INLINE_TASKS_MAX
from kraft.coordinator.group.streams.configured_topology import Status
from kraft.coordinator.group.streams.settings import StreamsGroupSettings
from tests.unit.coordinator.group.streams.applications import Application, statuses
from tests.unit.coordinator.group_host import rebuild

SETTINGS = StreamsGroupSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=0)


@pytest.fixture
def it(monkeypatch: pytest.MonkeyPatch) -> Application:
    """Every group is a large one."""
    monkeypatch.setattr(assigning, "INLINE_TASKS_MAX", 0)
    made = Application(settings=SETTINGS)
    made.host.topics.counts = {"t": 4}
    return made


def do_jobs(it: Application) -> None:
    it.host.end_streams_targets(it.host.begin_streams_targets())


def settle(it: Application, *members: str) -> None:
    for member in members:
        it.beat(member)
    do_jobs(it)
    it.settle(*members)


def test_a_member_of_a_large_group_waits_for_its_tasks(it: Application) -> None:
    heard = it.join("a")
    assert list(statuses(heard)) == [Status.ASSIGNMENT_DELAYED]
    assert (heard.response.member_epoch, it.active("a"), it.group.state) == (1, {}, "Assigning")
    do_jobs(it)
    it.beat("a")
    assert (it.active("a"), it.group.state) == ({"0": {0, 1, 2, 3}}, "Stable")


def test_members_of_a_large_group_keep_their_tasks_while_the_next_target_is_computed(it: Application) -> None:
    it.join("a")
    settle(it, "a")
    it.join("b")
    it.beat("a")
    assert it.active("a") == {"0": {0, 1, 2, 3}}
    settle(it, "a", "b")
    assert [len(it.active(member)["0"]) for member in "ab"] == [2, 2]


@pytest.mark.parametrize(("tasks", "is_inline"), [(INLINE_TASKS_MAX - 1, True), (INLINE_TASKS_MAX, False)])
def test_a_small_group_gets_its_tasks_in_the_same_response(tasks: int, is_inline: bool) -> None:
    it = Application(settings=SETTINGS)
    it.host.topics.counts = {"t": tasks}
    it.join("a")
    assert (len(it.active("a").get("0", ())), list(it.host.streams_targets_asked)) == (
        (tasks, []) if is_inline else (0, ["g"])
    )


def test_a_computed_target_of_tasks_is_dropped_when_the_group_epoch_is_newer(it: Application) -> None:
    it.join("a")
    computed = it.host.begin_streams_targets()
    it.join("b")
    before = it.group
    it.host.end_streams_targets(computed)
    assert it.group == before, "the second member has no part in it"
    settle(it, "a", "b")
    assert [len(it.active(member)["0"]) for member in "ab"] == [2, 2]


def test_a_computed_target_of_tasks_is_dropped_when_a_static_member_was_replaced(it: Application) -> None:
    it.instances = {"a": "i", "a2": "i"}
    it.join("a")
    settle(it, "a")
    it.join("b")
    computed = it.host.begin_streams_targets()
    it.leave("a", -2)
    it.join("a2")
    before = it.group.targets
    it.host.end_streams_targets(computed)
    assert it.group.targets == before


def test_a_target_computed_for_a_group_without_members_is_dropped(it: Application) -> None:
    it.join("a")
    computed = it.host.begin_streams_targets()
    it.leave("a")
    before = it.group
    it.host.end_streams_targets(computed)
    assert it.group == before


def test_the_delayed_first_assignment_of_a_large_group_is_computed_by_a_job(it: Application) -> None:
    it.host.streams_configs.settings = replace(SETTINGS, initial_rebalance_delay_ms=1_000)
    it.join("a")
    assert not it.host.streams_targets_asked
    it.host.advance(1_000)
    settle(it, "a")
    assert it.active("a") == {"0": {0, 1, 2, 3}}


def test_records_of_tasks_encoded_in_a_worker_equal_those_in_the_log(it: Application) -> None:
    for member in "abc":
        it.join(member)
    settle(it, *"abc")
    assert rebuild(it.host.shard, it.host.log).streams_groups == it.host.state.streams_groups
