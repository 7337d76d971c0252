"""A targeted fault: a leader proposes to add a follower to the in-sync set, its request to the active controller is
delayed on the way, and the follower dies. The proposal arrives when it is no longer true (KIP-903).

Randomly drawn faults hardly ever hit that moment, which lasts a millisecond. It is found by the lines that nodes log,
in the step in which they log them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

from jepsen.simulation.faults.node_faults import heal_later
from jepsen.simulation.faults.scene import Scene
from jepsen.simulation.observer import ACTIVE_CONTROLLER, Observer
from jepsen.simulation.recorder import Recorder
from kraft.server.node import Node

KIND: Final = "ambush"
ROLE: Final = "joining follower"
PROPOSED: Final = "in-sync sets proposed"
COUNTS: Final = (0, 0, 1, 3)
RATE: Final = 0.5
HELD_SECONDS_MAX: Final = 0.4


class TargetedFault:
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
        self.armed = False

    def heard(self, name: str, line: Mapping[str, Any]) -> None:
        """Called with each line that a node logs. A failed background task ends the run as a defect; a real node would
        log the failure and continue."""
        assert line.get("event") != "background_work_failed", (name, line)
        if not self.armed or not self._left or line.get("event") != PROPOSED:
            return
        joining = self._joining(name)
        controllers = self._observer.roles()[ACTIVE_CONTROLLER]
        if (
            joining is not None
            and len(controllers) == 1
            and controllers[0] not in (name, joining)
            and self._chance.random() < RATE
        ):
            self._left -= 1
            self._strike(name, controllers[0], joining)

    def _joining(self, name: str) -> str | None:
        """A living follower that the node wants to add to an in-sync set."""
        node = self._nodes.get(name)
        if node is None or node.broker is None:
            return None
        alive = {other for other, _ in self._observer.living()}
        for partition in node.broker.replicas:
            for member in partition.pending_isr or ():
                if member not in partition.isr and str(member) in alive:
                    return str(member)
        return None

    def _strike(self, leader: str, controller: str, joining: str) -> None:
        universe = self._scene.universe
        note = self._recorder.fault(KIND, joining, ROLE)
        universe.cut(leader, controller)
        heal_later(self._scene, self._chance.uniform(0.0, HELD_SECONDS_MAX), leader, controller)

        def kill() -> None:
            universe.kill(joining)
            note.bit, note.ended = True, self._recorder.now()

        universe.time.call_after(0.0, kill)
