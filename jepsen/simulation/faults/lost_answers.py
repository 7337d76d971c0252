"""A targeted fault: the controller adds a follower to the in-sync set, and the leader does not learn of it. The
AlterPartition response is late, or arrives after the leader has given up on it. Meanwhile the follower gets no records.
Then all other in-sync replicas die, and the follower becomes leader: records acknowledged without it are lost.

A leader that waits for every replica that may be in sync by now (KIP-497) acknowledges nothing in that time. Randomly
drawn faults hardly ever meet in this way.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

from jepsen.simulation.faults.node_faults import heal_later
from jepsen.simulation.faults.scene import Scene
from jepsen.simulation.faults.targeted_fault import PROPOSED
from jepsen.simulation.layouts import CONTROLLER_PORT
from jepsen.simulation.observer import ACTIVE_CONTROLLER, Observer
from jepsen.simulation.recorder import Recorder
from kraft.replication.partition import Partition
from kraft.server.node import Node

KIND: Final = "answer lost"
ROLE: Final = "joining follower"
COUNTS: Final = (0, 1, 3, 3)
RATE: Final = 0.7
LATE_SECONDS: Final = (0.3, 1.5)
LOST_SECONDS: Final = (3.1, 3.4)
"""A little longer than the timeout of a broker's request to the controller (request.timeout.ms)."""
LEADER_DIES_LATER_SECONDS: Final = 0.4
"""Time until the other brokers have registered again, so that only the follower is left."""


class LostAnswers:
    """Strikes while it is `armed`. The seed decides how often."""

    def __init__(
        self, scene: Scene, recorder: Recorder, observer: Observer, nodes: Mapping[str, Node], chance: random.Random
    ) -> None:
        self._scene = scene
        self._recorder = recorder
        self._observer = observer
        self._nodes = nodes
        self._chance = chance
        self._left = chance.choice(COUNTS)
        self._is_busy = False
        self.armed = False

    def heard(self, name: str, line: Mapping[str, Any]) -> None:
        """Called with each line that a node logs; strikes when the node proposes a larger in-sync set."""
        if not self.armed or self._is_busy or not self._left or line.get("event") != PROPOSED:
            return
        controllers = self._observer.roles()[ACTIVE_CONTROLLER]
        found = self._joining(name)
        if found is None or len(controllers) != 1 or self._chance.random() >= RATE:
            return
        partition, joining = found
        if controllers[0] not in (name, joining):
            self._left -= 1
            self._strike(name, controllers[0], joining, [str(member) for member in partition.isr])

    def _joining(self, name: str) -> tuple[Partition, str] | None:
        """A partition led by the node, and the living follower that the node wants to add to the in-sync set. All
        in-sync replicas live, so that the partition would go on acknowledging without the follower."""
        node = self._nodes.get(name)
        if node is None or node.broker is None:
            return None
        alive = {other for other, _ in self._observer.living()}
        for partition in node.broker.replicas:
            pending = partition.pending_isr or ()
            joining = [member for member in pending if member not in partition.isr]
            if joining and partition.has_enough_in_sync and all(str(member) in alive for member in pending):
                return partition, str(joining[0])
        return None

    def _strike(self, leader: str, controller: str, joining: str, in_sync: list[str]) -> None:
        universe = self._scene.universe
        note = self._recorder.fault(KIND, joining, ROLE)
        held = self._chance.uniform(*self._chance.choice((LATE_SECONDS, LOST_SECONDS, LOST_SECONDS)))
        universe.mute(controller, CONTROLLER_PORT, leader)
        universe.cut(leader, joining)
        for other in (controller, joining):
            heal_later(self._scene, held + LEADER_DIES_LATER_SECONDS, leader, other)
        self._is_busy = True

        def kill(name: str) -> None:
            if universe.world_of(name).node.alive:
                universe.kill(name)

        def kill_others() -> None:
            for member in in_sync:
                if member != leader:
                    kill(member)

        def kill_leader() -> None:
            kill(leader)
            note.bit, note.ended, self._is_busy = True, self._recorder.now(), False

        universe.time.call_after(held, kill_others)
        universe.time.call_after(held + LEADER_DIES_LATER_SECONDS, kill_leader)
