"""The recorder of a simulated run, in which clients and the harness write what they did and saw, in simulated time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from jepsen.checker.history import History
from jepsen.checker.operations import FaultInjected, Operation, Partition, Phase, Stuck, Unexpected
from kraft.world.simulated import Universe

HARNESS: Final = "harness"

SomeOperation = TypeVar("SomeOperation", bound=Operation)


class Recorder:
    """The history of one run while it is written."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self.history = History()
        self._told: set[tuple[str, str]] = set()
        self.is_deposed: Callable[[str, str], bool] = lambda host, group: False
        """Whether a host still acts as the coordinator of a group that has another coordinator now."""
        self.leads_no_more: Callable[[str, Partition], bool] = lambda host, place: False
        """Whether a host still acts as the leader of a partition that has another leader now."""
        self.share_state_epoch: Callable[[str, Partition], int | None] = lambda group, place: None
        """The leader epoch of the share coordinator of a group's partition; None unless all nodes have the same."""

    def now(self) -> float:
        return self._universe.time.now

    def add(self, operation: SomeOperation) -> SomeOperation:
        return self.history.add(operation)

    def unexpected(self, who: str, what: str) -> None:
        """Record an unexpected event of a client or node. The same event is recorded once."""
        if (who, what) not in self._told:
            self._told.add((who, what))
            self.add(Unexpected(process=who, began=self.now(), what=what))

    def stuck(self, what: str) -> None:
        self.add(Stuck(process=HARNESS, began=self.now(), what=what))

    def phase(self, name: str) -> None:
        self.add(Phase(process=HARNESS, began=self.now(), name=name))

    def fault(self, kind: str, node: str, role: str) -> FaultInjected:
        return self.add(FaultInjected(process=node, began=self.now(), kind=kind, role=role, bit=False))
