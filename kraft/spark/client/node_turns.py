"""Choose the node to ask for cluster-wide information. Pure."""

from __future__ import annotations

from collections.abc import Iterable

Address = tuple[str, int]


class NodeTurns:
    """The order in which nodes are asked. The same node is asked while its answers are useful. After `another`, the
    least recently used nodes come first.

    A node that could not be reached comes last for a while. So a node that drops packets does not delay every other
    request by its timeout.
    """

    STAND_BACK_SECONDS = 10.0

    def __init__(self) -> None:
        self.turn = 0
        self.last: Address | None = None
        self.asked: dict[Address, int] = {}
        self.failed: dict[Address, float] = {}

    def order(self, addresses: Iterable[Address], now: float) -> list[Address]:
        """Return each address once, in the order to ask. `now` is monotonic, in seconds."""
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
        """Choose another node for the next request, because the last response was not useful."""
        if self.last is not None:
            self.turn += 1
            self.asked[self.last] = self.turn
            self.last = None
