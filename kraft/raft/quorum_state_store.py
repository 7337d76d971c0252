"""The file `quorum-state`: one line of JSON with the epoch, the leader and this node's vote. It is replaced and synced
whenever one of them changes (KIP-595; version 1 adds the voted directory, KIP-853)."""

from __future__ import annotations

import json

from kraft.common.errors import CorruptData
from kraft.common.ids import ZERO_UUID, uuid_from_text, uuid_to_text
from kraft.raft.core.election_state import NO_LEADER, ElectionState
from kraft.raft.core.epoch_allowance import EPOCH_MAX
from kraft.raft.core.voter_set import ReplicaKey, VoterSet
from kraft.storage.checkpoints import put_in_place, read_text, write_file
from kraft.storage.storage_failure import no_descriptor_refused, passing_refused
from kraft.world.ports import FileSystem

FILE_NAME = "quorum-state"
NODE_ID_MAX = (1 << 31) - 1


class QuorumStateStore:
    """Reads and replaces one quorum-state file. Blocks."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{FILE_NAME}"

    def load(self, log_epoch: int = 0) -> ElectionState:
        """Return the saved state; epoch 0 without vote or leader if there is none. `log_epoch` is the epoch of the last
        record in the log, for the error message.

        Raises CorruptData for a file that cannot be parsed, and for an epoch that no election can follow.
        """
        text = read_text(self._files, self._path)
        if text is None:
            return ElectionState()
        try:
            election = decode(json.loads(text.split("\n", 1)[0]))
        except (ValueError, KeyError, TypeError) as problem:
            raise CorruptData(f"{self._path} is not a quorum state: {problem}") from problem
        if not 0 <= election.epoch < EPOCH_MAX:
            raise CorruptData(
                f"{self._path}: no election can follow epoch {election.epoch}, and elections alone do not lead there. "
                f"The metadata log ends in epoch {log_epoch}. The section 'An epoch that cannot be' of "
                "`kraft docs lost-quorum` tells how to repair the quorum"
            )
        return election

    def save(self, election: ElectionState, voters: VoterSet, kraft_version: int) -> None:
        """Save the state durably. `kraft_version` determines the version of the file. Version 0 contains the voters
        too.

        Raises OSError; OutOfResources if there is no space, and the previous state is then unchanged.
        """
        assert 0 <= election.epoch <= EPOCH_MAX, f"epoch {election.epoch} cannot be stored"
        assert NO_LEADER <= election.leader_id <= NODE_ID_MAX, f"leader {election.leader_id} cannot be stored"
        assert election.voted is None or 0 <= election.voted.id <= NODE_ID_MAX, f"{election.voted} cannot be stored"
        content = json.dumps(encode(election, voters, kraft_version), separators=(",", ":"))
        beside = self._path + ".tmp"
        with passing_refused(self._path):
            write_file(self._files, beside, content.encode())
        with no_descriptor_refused(self._path):
            put_in_place(self._files, beside, self._path)


def decode(fields: dict[str, object]) -> ElectionState:
    version = fields["data_version"]
    if version not in (0, 1):
        raise ValueError(f"data_version {version!r} is not known")
    epoch, leader_id, voted_id = (_number(fields[key]) for key in ("leaderEpoch", "leaderId", "votedId"))
    if not (NO_LEADER <= leader_id <= NODE_ID_MAX and NO_LEADER <= voted_id <= NODE_ID_MAX):
        raise ValueError(f"leaderId {leader_id} or votedId {voted_id} is no node id")
    directory = uuid_from_text(str(fields["votedDirectoryId"])) if version == 1 else ZERO_UUID
    return ElectionState(epoch, leader_id, ReplicaKey(voted_id, directory) if voted_id >= 0 else None)


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number")
    return value


def encode(election: ElectionState, voters: VoterSet, kraft_version: int) -> dict[str, object]:
    voted = election.voted
    fields: dict[str, object] = {
        "leaderId": election.leader_id,
        "leaderEpoch": election.epoch,
        "votedId": voted.id if voted else -1,
    }
    if kraft_version == 0:
        named = [{"voterId": node_id} for node_id in voters.ids]
        return {"clusterId": "", **fields, "appliedOffset": 0, "currentVoters": named, "data_version": 0}
    return {**fields, "votedDirectoryId": uuid_to_text(voted.directory_id if voted else ZERO_UUID), "data_version": 1}
