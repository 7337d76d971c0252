"""A targeted fault: three leaders in a row, of which two never learn of each other. Replica a leads in one epoch, b in
the next, then a again. Each has records of an epoch that the other missed, so b has to find where their logs diverge by
an epoch that it never had (KIP-279).

All is done by an operator's means, the order of replicas and preferred elections, while the network between the two is
cut. Randomly drawn faults hardly ever bring this about: a replica that was away is not in sync and cannot lead.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import trio

from jepsen.checker.operations import Partition
from jepsen.simulation.clients.admins import elect, reassign
from jepsen.simulation.clients.session import Session, Unanswered
from jepsen.simulation.faults.scene import Scene
from jepsen.simulation.observer import ACTIVE_CONTROLLER, Observer
from jepsen.simulation.recorder import Recorder

KIND: Final = "missed epoch"
ROLE: Final = "leaders by turns"
COUNTS: Final = (0, 1, 1, 2)
REPLICAS_LEAST: Final = 3
FIRST_SECONDS_MAX: Final = 12.0
LEADS_SECONDS: Final = (0.3, 0.6)
"""Long enough for clients to find the leader. The whole fault takes less than replica.lag.time.max.ms."""
SECONDS_MAX: Final = 2.8
PATIENCE_SECONDS: Final = 0.5
"""Pause between two searches for suitable replicas."""


class Pair(NamedTuple):
    """Two replicas of a partition that lead in turn. `others` are its other replicas."""

    place: Partition
    first: int
    second: int
    others: tuple[int, ...]


class MissedEpochs:
    """Strikes while it is `armed`. The seed decides how often."""

    def __init__(
        self,
        scene: Scene,
        recorder: Recorder,
        observer: Observer,
        session: Session,
        places: Sequence[Partition],
        chance: random.Random,
    ) -> None:
        self._scene = scene
        self._recorder = recorder
        self._observer = observer
        self._session = session
        self._places = places
        self._chance = chance
        self._left = chance.choice(COUNTS)
        self.armed = False
        self.stopping = trio.Event()

    async def run(self) -> None:
        universe = self._scene.universe
        while self._left and not self.stopping.is_set():
            await universe.sleep(self._chance.uniform(0.0, FIRST_SECONDS_MAX) if self.armed else PATIENCE_SECONDS)
            pair = self._pair() if self.armed else None
            if pair is not None:
                self._left -= 1
                await self._strike(pair)
        self._session.close()

    def _pair(self) -> Pair | None:
        """Two in-sync replicas of a partition that can lead in turn. Neither is the active controller, which has to
        reach both."""
        controllers = self._observer.roles()[ACTIVE_CONTROLLER]
        living = {int(name) for name, _ in self._observer.living()} - {int(name) for name in controllers}
        found = []
        for place in self._places:
            now = self._observer.registration(place)
            if (
                len(controllers) == 1
                and now is not None
                and len(now.isr) == len(now.replicas) >= REPLICAS_LEAST
                and not now.is_reassigning
            ):
                able = [member for member in now.isr if member in living]
                found += [
                    Pair(place, first, second, tuple(each for each in now.replicas if each not in (first, second)))
                    for first in able
                    for second in able
                    if first not in (second, now.leader)
                ]
        return self._chance.choice(found) if found else None

    async def _strike(self, pair: Pair) -> None:
        universe = self._scene.universe
        first, second = str(pair.first), str(pair.second)
        note = self._recorder.fault(KIND, second, ROLE)
        universe.cut(first, second)
        with trio.CancelScope() as scope:
            limit = universe.time.call_after(SECONDS_MAX, scope.cancel)
            try:
                note.bit = await self._lead_by_turns(pair)
            except Unanswered:
                pass  # Some other fault was faster.
            finally:
                universe.time.cancel(limit)
        heal = partial(universe.internet.heal, universe.host(first).name, universe.host(second).name)
        heal()
        note.ended = self._recorder.now()

    async def _lead_by_turns(self, pair: Pair) -> bool:
        """Make the first, the second and again the first replica leader. Returns whether each of them led."""
        for leader, other in ((pair.first, pair.second), (pair.second, pair.first), (pair.first, pair.second)):
            await reassign(self._session, pair.place, [leader, other, *pair.others])
            await elect(self._session, pair.place)
            now = self._observer.registration(pair.place)
            if now is None or now.leader != leader:
                return False
            await self._scene.universe.sleep(self._chance.uniform(*LEADS_SECONDS))
        return True
