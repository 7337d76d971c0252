"""The share session of a member with one node (KIP-932)."""

from __future__ import annotations

from jepsen.checker.operations import Acquired, Partition
from jepsen.simulation.clients.session import Session


class ShareSession:
    """The member's share session with one node. It lives as long as the connection."""

    def __init__(self, link: Session) -> None:
        self.link = link
        self.places: frozenset[Partition] = frozenset()
        """Partitions in the node's session."""
        self.held: list[Acquired] = []
        """Records that the node has delivered in the session."""
        self._epoch = 0
        self._connection: object = None

    @property
    def is_open(self) -> bool:
        """Whether the session that the node knows goes on with the next request."""
        return self._connection is not None and self.link.present_connection is self._connection

    def next_epoch(self) -> int:
        """The epoch for the next request; 0 begins a session."""
        self._epoch += 1
        return self._epoch - 1

    def answered(self) -> None:
        """A request of the session was answered over the present connection."""
        self._connection = self.link.present_connection

    def reset(self) -> None:
        """The next request begins a session."""
        self.places, self.held = frozenset(), []
        self._epoch, self._connection = 0, None
