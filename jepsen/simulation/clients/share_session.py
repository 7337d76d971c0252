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
        """Whether the session still exists on the node: the connection over which it was used is still open."""
        return self._connection is not None and self.link.present_connection is self._connection

    def next_epoch(self) -> int:
        """Return the epoch for the next request; 0 opens a session."""
        self._epoch += 1
        return self._epoch - 1

    def answered(self) -> None:
        """Record that a request of the session was answered over the present connection."""
        self._connection = self.link.present_connection

    def reset(self) -> None:
        """Forget the session: the next request opens a new one."""
        self.places, self.held = frozenset(), []
        self._epoch, self._connection = 0, None
