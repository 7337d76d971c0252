"""kraft/raft/raft_metrics.py, alone and within drivers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.common.metrics import MetricsRegistry, render_prometheus
from kraft.raft.core.log_state import Batch
from kraft.raft.core.roles import Candidate, Follower, Leader, Prospective, Unattached
from kraft.raft.raft_metrics import RaftMetrics
from kraft.server.metrics.raft_families import LATENCIES, PREFIX, register_raft
from tests.unit.raft.members import alone, leader_of, leading, run, running, three, until


class Measured:
    def __init__(self) -> None:
        self.now = 100.0
        clock: Any = SimpleNamespace(now=lambda: self.now)
        self.metrics = RaftMetrics(clock)

    def is_now(self, role: type) -> None:
        self.metrics.saw(role.__new__(role))

    def wrote(self, base: int, end: int, *, is_leader: bool = True) -> None:
        self.metrics.wrote([Batch(base, end - 1, 1, b"")], is_leader)


LEADS = {"election_latency_avg": 0.0, "election_latency_max": 0.0}


def test_commit_latency_is_measured_per_record() -> None:
    it = Measured()
    it.is_now(Leader)
    it.wrote(0, 10)
    it.wrote(10, 11)
    it.now += 0.05
    it.metrics.committed(10)
    assert it.metrics.latencies() == {
        "commit_latency_avg": pytest.approx(5.0),
        "commit_latency_max": pytest.approx(5.0),
        **LEADS,
    }
    it.now += 0.05
    it.metrics.committed(11)
    assert it.metrics.latencies()["commit_latency_max"] == pytest.approx(100.0)
    assert (it.metrics.append_records_rate, it.metrics.fetch_records_rate) == (pytest.approx(11 / 30.1), 0.0)


def test_records_of_a_deposed_leader_are_not_measured() -> None:
    it = Measured()
    it.is_now(Leader)
    it.wrote(0, 1)
    it.is_now(Follower)
    it.wrote(0, 5, is_leader=False)
    it.metrics.committed(5)
    assert it.metrics.latencies() == LEADS
    assert it.metrics.fetch_records_rate == pytest.approx(5 / 30)


@pytest.mark.parametrize("ending", [Leader, Follower])
def test_election_latency_starts_with_the_pre_vote(ending: type) -> None:
    it = Measured()
    it.is_now(Unattached)
    it.now += 5
    it.is_now(Prospective)
    it.now += 0.25
    it.is_now(Candidate)
    it.is_now(Unattached)
    it.now += 0.25
    it.is_now(ending)
    it.now += 1
    it.is_now(ending)
    assert it.metrics.latencies() == {
        "election_latency_avg": pytest.approx(500.0),
        "election_latency_max": pytest.approx(500.0),
    }
    assert it.metrics.state == ending.__name__.lower()


def test_a_driver_measures_its_commits_and_elections(tmp_path: Path) -> None:
    async def body() -> None:
        member = alone(tmp_path)
        async with leading(member):
            member.driver.append(1, ["a", "b"])
            await until(lambda: len(member.listener.records) == 2)
            registry = MetricsRegistry()
            register_raft(registry, member.driver)
            text = "".join(render_prometheus(registry.families()))
            assert all(f"\n{PREFIX}{name} " in text for name in LATENCIES)
            assert f'{PREFIX}current_state{{state="leader"}} 1' in text
            assert {
                name: registry.value(PREFIX + name)
                for name in ("current_vote", "log_end_epoch", "number_unknown_voter_connections")
            } == {
                "current_vote": 1,
                "log_end_epoch": 1,
                "number_unknown_voter_connections": 0,
            }
            assert registry.value(f"{PREFIX}append_records_rate") > 0

    run(body)


def test_followers_measure_their_fetch_rate(tmp_path: Path) -> None:
    async def body() -> None:
        members = three(tmp_path)
        async with running(*members):
            leader = await leader_of(members)
            leader.driver.append(leader.driver.leader_and_epoch.epoch, ["a"])
            await until(lambda: all(member.listener.records for member in members))
            # More than one, if the machine stood still for a while.
            led = {told.leader_id for member in members for told in member.listener.leaders}
            for member in members:
                assert (member.driver.metrics.append_records_rate > 0) == (member.id in led)
                assert member.driver.metrics.fetch_records_rate > 0 or member.id in led
            assert any(member.driver.metrics.fetch_records_rate > 0 for member in members)
            assert "election_latency_avg" in leader.driver.metrics.latencies()

    run(body)
