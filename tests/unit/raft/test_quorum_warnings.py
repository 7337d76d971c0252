"""What is told of a quorum in trouble, and how often."""

from __future__ import annotations

from kraft.common.logging import Loggers, LogLine
from kraft.raft.core import events
from kraft.raft.core.raft_node import RaftNode
from kraft.raft.disk_space import DiskSpaceMonitor
from kraft.raft.quorum_warnings import LEADER_MISSING_INTERVAL_S, REFUSED_EPOCHS_INTERVAL_S, QuorumWarnings
from kraft.world.real import RealWorld
from tests.unit.raft.builders import node
from tests.unit.raft.core.steps import THREE, ask, follower, vote


class HandClock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return int(self.seconds * 1000)


class Scene:
    def __init__(self, replica: RaftNode) -> None:
        self.lines: list[LogLine] = []
        self.clock = HandClock()
        log = Loggers(self.lines.append, self.clock).get("raft")
        world = RealWorld(log_sink=self.lines.append)
        self.room = DiskSpaceMonitor(world, "/", 0, log)
        addresses = [(1, "a", 9093), (2, "b", 9093)]
        self.warnings = QuorumWarnings(replica, self.room, lambda: addresses, self.clock, log)  # type: ignore[arg-type]


def test_a_missing_leader_is_logged_with_the_voters_from_the_second_check_on() -> None:
    scene = Scene(node(1, THREE))
    for _ in range(3):
        scene.warnings.look_for_leader()
        scene.clock.seconds += LEADER_MISSING_INTERVAL_S
    assert [(line["seconds"], line["voters"]) for line in scene.lines] == [
        (10, "1@a:9093,2@b:9093"),
        (20, "1@a:9093,2@b:9093"),
    ]


def test_a_leader_ends_the_missing_leader_warnings_and_a_full_disk_suppresses_them() -> None:
    replica = node(1, THREE)
    scene = Scene(replica)
    scene.room.is_missing = True
    for _ in range(3):
        scene.warnings.look_for_leader()
    assert not scene.lines
    led = Scene(follower())
    for _ in range(3):
        led.warnings.look_for_leader()
    assert not led.lines


def test_refused_epochs_are_counted_and_logged_once_per_interval() -> None:
    replica = node(1, THREE)
    scene = Scene(replica)
    for _ in range(5):
        ask(replica, vote((1 << 31) - 1, 2))
        scene.warnings.look_for_refused_epochs()
    scene.clock.seconds += REFUSED_EPOCHS_INTERVAL_S
    replica.step(events.Tick(), 2)
    scene.warnings.look_for_refused_epochs()
    scene.warnings.look_for_refused_epochs()
    assert [line["refused"] for line in scene.lines] == [1, 4]
