"""When a plan's next fault begins."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from jepsen.history import Sample
from jepsen.nemesis.injection import Context
from jepsen.nemesis.runner import RECOVERY_SECONDS_MAX, Nemesis


class Recovering:
    """A cluster that recovers while the nemesis waits: each wait takes a second and the next of `changes`."""

    def __init__(self, *changes: Callable[[Recovering], None]) -> None:
        self.changes = list(changes)
        self.acknowledged: list[float] = []
        self.seconds = 100.0
        self.latest = sample(self.seconds, leader=-1)
        self.nemesis = Nemesis(
            cast(
                "Context",
                SimpleNamespace(
                    cluster=SimpleNamespace(network=None, store=None),
                    observer=self,
                    recorder=self,
                    chance=random.Random(1),
                ),
            ),
            "calm",
            flush=False,
        )
        self.nemesis._stopped = cast("Any", self)

    def now(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> bool:
        self.seconds += 1
        if self.changes:
            self.changes.pop(0)(self)
        return False


def sample(at: float, leader: int) -> Sample:
    return Sample(at=at, partitions={"t-0": (leader, 1, [1], [1, 2])})


def nothing(cluster: Recovering) -> None:
    pass


def acknowledges(cluster: Recovering) -> None:
    cluster.acknowledged.append(cluster.seconds)


def sees(leader: int) -> Callable[[Recovering], None]:
    def change(cluster: Recovering) -> None:
        cluster.latest = sample(cluster.seconds, leader)

    return change


def test_the_next_fault_waits_until_leaders_are_known_after_an_acknowledged_record() -> None:
    cluster = Recovering(nothing, sees(1), acknowledges, nothing, sees(-1), sees(2), nothing)
    cluster.nemesis._until_it_works()
    assert cluster.changes == [nothing]


def test_the_wait_for_a_cluster_that_does_not_recover_is_bounded() -> None:
    for changes in ((), (acknowledges, sees(-1))):
        cluster = Recovering(*changes)
        cluster.nemesis._until_it_works()
        assert cluster.seconds == 100.0 + RECOVERY_SECONDS_MAX
