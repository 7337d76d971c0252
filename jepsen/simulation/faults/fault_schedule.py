"""The faults of a run, their targets and their times, drawn from the seed.

Each run draws its own mixture (swarm testing): a few kinds of fault, and how often they strike. So over many seeds the
kinds meet in all combinations, and no kind drowns the others. Every second fault is taken from the table of all kinds
and roles instead, at a position that follows from the seed, so that consecutive seeds cover every cell.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jepsen.checker.operations import FaultInjected
from jepsen.simulation.faults.node_faults import DEADLY, KINDS, NEED_FLUSH, heal
from jepsen.simulation.faults.scene import Bite, Scene
from jepsen.simulation.recorder import Recorder

CELLS_A_SEED: Final = 4
MADE_UP: Final = "any"
STRIKE_SECONDS_MEANS: Final = (1.5, 2.0, 3.0)


class FaultSchedule:
    """The faults of one run. With `flush` they include kinds that lose data that was not synced."""

    def __init__(self, seed: int, chance: random.Random, roles: Sequence[str], *, flush: bool) -> None:
        able = [kind for kind in KINDS if flush or kind not in NEED_FLUSH]
        kinds = [kind for kind in able if chance.random() < 0.35]
        if not any(kind in DEADLY for kind in kinds):
            kinds.append(chance.choice([kind for kind in able if kind in DEADLY]))
        self.kinds = tuple(kinds)
        self.cells = [(kind, role) for kind in able for role in roles]
        self._next_cell = seed * CELLS_A_SEED
        self._roles = tuple(roles)
        self._mean = chance.choice(STRIKE_SECONDS_MEANS)
        self._bites: list[tuple[FaultInjected, Bite]] = []

    async def strike(
        self, scene: Scene, recorder: Recorder, seconds: float, roles_now: Callable[[], Mapping[str, Sequence[str]]]
    ) -> None:
        """Inject faults for `seconds`. `roles_now` returns the living nodes of each role."""
        universe, chance = scene.universe, scene.universe.stream("fate")
        end = universe.time.now + seconds
        by_table = True
        while True:
            await universe.sleep(min(chance.expovariate(1 / self._mean), end - universe.time.now))
            if universe.time.now >= end:
                return
            holders = roles_now()
            found = self._from_table(holders) if by_table else self._drawn(chance, holders)
            by_table = not by_table
            if found is not None:
                kind, role = found
                self._hit(scene, recorder, chance, kind, role, chance.choice(sorted(holders[role])))

    def strike_once(self, scene: Scene, recorder: Recorder, kind: str, nodes: Sequence[str]) -> None:
        """Inject a fault of `kind` at one of `nodes`, if there are any, beside the schedule."""
        chance = scene.universe.stream("make up")
        if nodes:
            self._hit(scene, recorder, chance, kind, MADE_UP, chance.choice(sorted(nodes)))

    def bitten(self) -> set[str]:
        """The kinds of fault that have had an effect so far."""
        return {note.kind for note, bit in self._bites if bit()}

    def _from_table(self, holders: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
        for _ in self.cells:
            cell = self.cells[self._next_cell % len(self.cells)]
            self._next_cell += 1
            if holders.get(cell[1]):
                return cell
        return None

    def _drawn(self, chance: random.Random, holders: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
        able = [role for role in self._roles if holders.get(role)]
        return (chance.choice(self.kinds), chance.choice(able)) if able else None

    def _hit(self, scene: Scene, recorder: Recorder, chance: random.Random, kind: str, role: str, node: str) -> None:
        note = recorder.fault(kind, node, role)
        self._bites.append((note, KINDS[kind](scene, chance, node)))

    def heal(self, scene: Scene, recorder: Recorder) -> None:
        """End all faults, and record which of them had an effect."""
        heal(scene)
        for note, bit in self._bites:
            note.bit, note.ended = bit(), recorder.now()
        recorder.phase("healed")
