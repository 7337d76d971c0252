"""The choice of the node to ask what every node knows. Pure."""

from __future__ import annotations

from collections.abc import Iterable

Address = tuple[str, int]


class NodeTurns:
    """The node to ask next: the same one while it answers well; after `another`, those first that have not answered for
    longest.

    A node that could not be reached stands back for a while, so that one that swallows packets does not cost every
    other question its timeout.
    """

    STAND_BACK_SECONDS = 10.0

    def __init__(self) -> None:
        self.turn = 0
        self.last: Address | None = None
        self.asked: dict[Address, int] = {}
        self.failed: dict[Address, float] = {}

    def order(self, addresses: Iterable[Address], now: float) -> list[Address]:
        """Each address once. `now` is monotonic, in seconds."""
        self.failed = {address: when for address, when in self.failed.items() if now - when < self.STAND_BACK_SECONDS}
        return sorted(
            dict.fromkeys(addresses), key=lambda address: (address in self.failed, self.asked.get(address, 0))
        )

    def answered(self, address: Address) -> None:
        self.last = address
        self.failed.pop(address, None)

    def unreachable(self, address: Address, now: float) -> None:
        self.failed[address] = now

    def another(self) -> None:
        """The last answer was of no use: let another node answer."""
        if self.last is not None:
            self.turn += 1
            self.asked[self.last] = self.turn
            self.last = None
