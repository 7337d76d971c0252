"""Tiered topics in a simulated cluster, with an object store that has faults of its own.

In some runs the topics that keep all records have tiny segments, of which few stay on local disks. Readers that start
early, and followers that start empty, then need the store. The checker's rules are those of all topics.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from jepsen.checker.operations import FaultInjected, Partition
from jepsen.simulation.faults.node_faults import LASTS_SECONDS_MAX
from jepsen.simulation.observer import Observer
from jepsen.simulation.recorder import Recorder
from kraft.common.ids import Uuid, uuid_to_text
from kraft.world.simulated import Universe
from kraft.world.simulated.objects import ObjectFaults

URI: Final = "s3://bucket/kraft"
STORE: Final = "store"
TIERED_RATE: Final = 0.4
SETTINGS: Final = {
    "remote.log.storage.system.enable": "true",
    "kraft.remote.storage.uri": URI,
    "remote.log.manager.task.interval.ms": "500",
    "remote.log.manager.task.retry.backoff.max.ms": "2000",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
}
CONFIGS: Final = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "4000",
    "local.retention.bytes": "6000",
    "retention.ms": "-1",
    "file.delete.delay.ms": "500",
}
STRIKE_SECONDS_MEAN: Final = 3.0
USUAL: Final = ObjectFaults(delay_mean=0.005)
KINDS: Final[Mapping[str, Callable[[random.Random], ObjectFaults]]] = {
    "store out": lambda chance: replace(USUAL, failure_rate=1.0),
    "store refuses": lambda chance: replace(USUAL, refuses=True),
    "store fails": lambda chance: replace(USUAL, failure_rate=chance.choice((0.05, 0.3))),
    "store silent": lambda chance: replace(USUAL, lost_answer_rate=chance.choice((0.02, 0.2))),
    "store late": lambda chance: replace(USUAL, late_rate=0.1, late_seconds=chance.uniform(1.0, 40.0)),
    "store slow": lambda chance: replace(USUAL, delay_mean=chance.choice((0.1, 0.5))),
    "store damages": lambda chance: replace(USUAL, damage_rate=chance.choice((0.05, 0.3))),
}


class Tiering:
    """The object store of one run and its faults. `is_on` says whether the run has a store."""

    def __init__(self, universe: Universe, recorder: Recorder) -> None:
        self._universe = universe
        self._recorder = recorder
        self._chance = universe.stream("tiering")
        self.is_on = self._chance.random() < TIERED_RATE
        self.settings = SETTINGS if self.is_on else {}
        self._server = universe.object_servers.at(URI)
        self._server.faults = USUAL
        self._current: FaultInjected | None = None
        self._bitten = 0

    def configs(self, configs: Mapping[str, str]) -> dict[str, str]:
        """The topic configs of a topic that keeps its records, with those of tiering added."""
        return {**configs, **CONFIGS} if self.is_on else dict(configs)

    async def strike(self, seconds: float) -> None:
        """Inject one fault after another for `seconds`."""
        end = self._universe.time.now + seconds
        while self.is_on and self._universe.time.now < end:
            await self._sleep(self._chance.expovariate(1 / STRIKE_SECONDS_MEAN), end)
            kind = self._chance.choice(sorted(KINDS))
            self._server.faults = KINDS[kind](self._chance)
            self._current, self._bitten = self._recorder.fault(kind, STORE, STORE), self._bites()
            await self._sleep(self._chance.uniform(0.5, LASTS_SECONDS_MAX), end)
            self.heal()

    def heal(self) -> None:
        """End the fault, and break the connections of requests whose responses were lost: nodes would wait half a
        minute for them."""
        if self._current is not None:
            self._current.bit, self._current.ended = self._bites() > self._bitten, self._recorder.now()
            self._current = None
        self._server.faults = USUAL
        self._server.break_connections()

    async def _sleep(self, seconds: float, end: float) -> None:
        await self._universe.sleep(max(0.0, min(seconds, end - self._universe.time.now)))

    def _bites(self) -> int:
        return sum(self._server.bites.values())

    def has_moved(self, observer: Observer, places: Iterable[Partition]) -> bool:
        """Whether some replica of `places` has records that are only in the store."""
        return any(
            replica.log.local_log_start_offset > replica.log.log_start_offset
            for place in places
            for replica in observer.replicas(place).values()
        )

    def leftovers(self, topic: str, living: bytes | None) -> list[str]:
        """The objects of deleted incarnations of `topic` in the store."""
        ours = "" if living is None else f"{topic}-{uuid_to_text(Uuid(living))}/"
        return [
            name
            for name in self._server.objects
            if name.startswith(f"{topic}-") and not (ours and name.startswith(ours))
        ]
