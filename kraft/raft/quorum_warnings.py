"""Warnings about the quorum for operators: there is no leader, or a peer names impossible epochs.

Neither is logged more than once per interval: the first may last, and the sender may repeat the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kraft.common.logging import Logger
from kraft.raft.core.raft_node import RaftNode
from kraft.raft.disk_space import DiskSpaceMonitor
from kraft.world.ports import Clock

LEADER_MISSING_INTERVAL_S = 10.0
REFUSED_EPOCHS_INTERVAL_S = 60.0

VoterAddresses = Callable[[], list[tuple[int, str, int]]]


class QuorumWarnings:
    """The warnings of one node. Owned by the driver. `voter_addresses` are (node id, host, port)."""

    def __init__(
        self, node: RaftNode, disk_space: DiskSpaceMonitor, voter_addresses: VoterAddresses, clock: Clock, log: Logger
    ) -> None:
        self._node = node
        self._disk_space = disk_space
        self._voter_addresses = voter_addresses
        self._clock = clock
        self._log = log
        self._missing_since: float | None = None
        self._refused_told = 0
        self._refused_tell_at = -math.inf

    async def watch_for_leader(self) -> None:
        """Check for a leader periodically. Never returns."""
        while True:
            await self._clock.sleep(LEADER_MISSING_INTERVAL_S)
            self.look_for_leader()

    def look_for_leader(self) -> None:
        """Warn if there is no leader, and was none at the previous call. A full disk has its own warning."""
        if self._node.leader.leader_id >= 0 or self._disk_space.is_missing:
            self._missing_since = None
            return
        now = self._clock.now()
        if self._missing_since is None:
            self._missing_since = now
            return
        voters = ",".join(f"{node_id}@{host}:{port}" for node_id, host, port in self._voter_addresses())
        self._log.warning(
            "the quorum has no leader that this node can reach",
            seconds=int(now - self._missing_since),
            voters=voters or "unknown",
            remedy="`kraft docs lost-quorum` tells what to do",
        )

    def look_for_refused_epochs(self) -> None:
        """Warn if epochs were refused since the last warning (`kraft.raft.core.epoch_allowance`)."""
        refused = self._node.refused_epochs
        if refused == self._refused_told:
            return
        now = self._clock.now()
        if now < self._refused_tell_at:
            return
        self._log.warning(
            "a peer named an epoch that elections cannot have reached, and was refused",
            epoch=self._node.epoch,
            refused=refused - self._refused_told,
        )
        self._refused_told = refused
        self._refused_tell_at = now + REFUSED_EPOCHS_INTERVAL_S
