"""What a node knows of its quorum, for whoever holds its driver. Nothing here changes anything."""

from __future__ import annotations

from kraft.common.ids import OffsetAndEpoch
from kraft.raft.core.effects import Effects
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.raft_node import RaftNode
from kraft.raft.core.voter_set import VoterSet
from kraft.raft.peer_exchange import choose
from kraft.raft.ports import LeaderAndEpoch
from kraft.raft.raft_config import RaftConfig
from kraft.raft.room import Room


class QuorumView:
    """Base of the driver."""

    config: RaftConfig
    _node: RaftNode
    _room: Room
    _queued: list[Effects]
    _high_watermark_known: bool

    @property
    def node_id(self) -> int:
        return self.config.quorum.local.id

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """The leader as this node knows it now; listeners hear of it later, in order with what is committed."""
        hint = self._node.leader
        return LeaderAndEpoch(hint.leader_id, hint.epoch)

    def require_room(self) -> None:
        """Raises ApiError KAFKA_STORAGE_ERROR while the disk is too full for `append`."""
        self._room.require()

    @property
    def is_leader(self) -> bool:
        return self._node.is_leader

    @property
    def election(self) -> ElectionState:
        """Epoch, vote and leader as this node has decided; on its way to disk if it is new."""
        return self._node.election

    @property
    def election_is_saved(self) -> bool:
        """Whether that is on disk. While it is on its way, or waits for room, no message that rests on it has left."""
        return all(effects.election is None for effects in self._queued)

    @property
    def high_watermark(self) -> int:
        """One past the last offset known to be committed."""
        return self._node.log.high_watermark

    def known_high_watermark(self) -> int | None:
        """The same, once a leader has told it since this node started; None before."""
        return self._node.log.high_watermark if self._high_watermark_known else None

    @property
    def log_end_offset(self) -> int:
        return self._node.log.end_offset

    @property
    def log_durable_end(self) -> int:
        """One past the last record that is known to be synced."""
        return self._node.log.flushed_end

    @property
    def log_end_epoch(self) -> int:
        """Of the last record; 0 while there is none."""
        return self._node.log.last_epoch

    @property
    def log_start_offset(self) -> int:
        return self._node.log.start_offset

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self._node.log.latest_snapshot

    @property
    def voters(self) -> VoterSet:
        return self._node.voters

    @property
    def voters_are_committed(self) -> bool:
        """Whether the voters in effect are those of a committed record."""
        return self._node.log.history.latest_offset < self._node.log.high_watermark

    @property
    def kraft_version(self) -> int:
        return self._node.log.history.kraft_version

    def voter_endpoints(self) -> list[tuple[int, str, int]]:
        """(node id, host, port) of every voter that has an endpoint."""
        found = []
        for voter in self._node.voters.voters:
            endpoint = choose(voter.endpoints, self.config.listener_name)
            if endpoint is not None:
                found.append((voter.key.id, endpoint[0], endpoint[1]))
        return found

    def leader_endpoint(self) -> tuple[int, str, int] | None:
        """(node id, host, port) of the leader, also where only a leader's own word told it."""
        hint = self._node.leader
        endpoint = choose(hint.endpoints, self.config.listener_name)
        return None if hint.leader_id < 0 or endpoint is None else (hint.leader_id, *endpoint)
