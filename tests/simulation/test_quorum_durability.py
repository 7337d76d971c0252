"""What an observer can tell of the disks of voters that it does not see."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jepsen.simulation.faults.quorum_durability import QuorumDurability


def raft(end: int, durable: int, high_watermark: int = 0, voters: tuple[int, ...] = (1, 2, 3)) -> Any:
    """As much of a driver as is looked at."""
    keys = [SimpleNamespace(key=SimpleNamespace(id=voter)) for voter in voters]
    return SimpleNamespace(
        log_end_offset=end, log_durable_end=durable, high_watermark=high_watermark, voters=SimpleNamespace(voters=keys)
    )


def test_a_leader_that_commits_unsynced_records_is_detected() -> None:
    durability = QuorumDurability()
    leader = raft(end=10, durable=7, high_watermark=10)
    durability.look({"1": leader, "2": raft(10, 10), "3": raft(7, 7)}, {}, hidden=False)
    assert durability.holders(leader) == 1


def test_a_down_node_counts_up_to_the_log_end_at_its_first_absence() -> None:
    durability = QuorumDurability()
    durability.look({"1": raft(10, 10), "2": raft(10, 10)}, {"3": 1}, hidden=False)
    leader = raft(end=20, durable=20, high_watermark=20)
    durability.look({"1": leader, "2": raft(15, 15)}, {"3": 1}, hidden=False)
    assert durability.holders(leader) == 1


def test_a_node_that_ran_again_meanwhile_counts_as_a_possible_holder() -> None:
    durability = QuorumDurability()
    durability.look({"1": raft(10, 10), "2": raft(10, 10)}, {"3": 1}, hidden=False)
    leader = raft(end=20, durable=20, high_watermark=20)
    durability.look({"1": leader, "2": raft(15, 15)}, {"3": 2}, hidden=False)
    assert durability.holders(leader) == 2


def test_unobserved_nodes_count_as_possible_holders() -> None:
    durability = QuorumDurability()
    leader = raft(end=20, durable=20, high_watermark=20)
    durability.look({"1": leader}, {"3": 1}, hidden=True)
    assert durability.holders(leader) == 3
    durability.look({"1": leader}, {"3": 1}, hidden=False)
    assert durability.holders(leader) == 3
