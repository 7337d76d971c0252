"""Detects at start that the quorum can never have a leader, as far as this node can see. The error names the remedy.
Otherwise the node would wait forever."""

from __future__ import annotations

from kraft.common.errors import ConfigurationError
from kraft.common.ids import uuid_to_text
from kraft.raft.core.config import QuorumConfig
from kraft.raft.core.voter_set import ReplicaKey, VoterSet
from kraft.raft.snapshot.snapshot_path import BOOTSTRAP_ID, snapshot_name


def refuse_impossible_election(config: QuorumConfig, voters: VoterSet, directory: str) -> None:
    """Raises ConfigurationError if no controller can ever be elected. `voters` are those in effect in the log in
    `directory`."""
    if not config.can_be_voter:
        return
    if not len(voters) and not knows_other_controllers(config):
        raise ConfigurationError(
            [
                f"{directory}: no controller can be elected, since no voter is known. A node that was formatted with "
                "--voters (controller.quorum.voters) needs that option at every start; a quorum of one that was "
                f"formatted without has its voter in {directory}/{snapshot_name(BOOTSTRAP_ID)}, which is missing: "
                "bring it and the metadata log back from a copy of this disk"
            ]
        )
    if len(voters) == 1 and voters.ids == (config.local.id,) and not voters.contains(config.local):
        (voter,) = voters.voters
        raise ConfigurationError(
            [
                f"{directory.rpartition('/')[0]}/meta.properties: no controller can be elected. The quorum has one "
                f"voter, node {voter.key.id} with directory.id={uuid_to_text(voter.key.directory_id)}, and this "
                f"directory has directory.id={uuid_to_text(config.local.directory_id)}. Put the voter's back into the "
                "file, or start with the disk that has it"
            ]
        )


def replaced_voter(config: QuorumConfig, voters: VoterSet) -> ReplicaKey | None:
    """Return the voter with this node's id on another disk; None if there is none."""
    voter = voters.get(config.local.id)
    return None if voter is None or voter.key.matches(config.local) else voter.key


def knows_other_controllers(config: QuorumConfig) -> bool:
    return any(not any(own in config.endpoints for own in endpoints) for endpoints in config.bootstrap)
