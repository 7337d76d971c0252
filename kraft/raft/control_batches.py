"""The quorum's control records as bytes: LEADER_CHANGE, KRAFT_VERSION, KRAFT_VOTERS, and a snapshot's header and
footer (KIP-595, KIP-630, KIP-853)."""

from __future__ import annotations

from typing import NamedTuple

from kraft.protocol.messages import voters_record
from kraft.protocol.messages.kraft_version_record import KRaftVersionRecord
from kraft.protocol.messages.leader_change_message import LeaderChangeMessage
from kraft.protocol.messages.leader_change_message import Voter as ChangeVoter
from kraft.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from kraft.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from kraft.protocol.records.control_record import ControlRecordType, build_control_batch, control_type_of
from kraft.protocol.records.record_batch import RecordBatch
from kraft.raft.core.payloads import LeaderChange, Voters
from kraft.raft.core.voter_set import Endpoint, ReplicaKey, Voter, VoterSet


class ControlContent(NamedTuple):
    """The content of a control batch that matters to the quorum."""

    voters: VoterSet | None = None
    kraft_version: int | None = None
    last_contained_timestamp_ms: int | None = None
    is_footer: bool = False


def encode_payload(payload: LeaderChange | Voters, *, base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """Return the batch for a payload that the core appends."""
    if isinstance(payload, LeaderChange):
        entries = [(ControlRecordType.LEADER_CHANGE, leader_change(payload))]
        if payload.update is not None:
            entries += voter_entries(payload.update.kraft_version, payload.update.voters)
    else:
        entries = voter_entries(payload.kraft_version, payload.voters)
    return build_control_batch(entries, base_offset=base_offset, timestamp_ms=timestamp_ms, leader_epoch=epoch)


def leader_change(payload: LeaderChange) -> bytes:
    """Encode a LeaderChangeMessage in version 0, which names voters by id only.
    Apache Kafka 4.3.1 writes this version."""
    voters = [ChangeVoter(voter_id=key.id) for key in payload.voters]
    granting = [ChangeVoter(voter_id=key.id) for key in payload.granting]
    return LeaderChangeMessage(leader_id=payload.leader_id, voters=voters, granting_voters=granting).encode(0)


def voter_entries(kraft_version: int | None, voters: VoterSet | None) -> list[tuple[int, bytes]]:
    entries = []
    if kraft_version is not None:
        entries.append((ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=kraft_version).encode(0)))
    if voters is not None:
        entries.append((ControlRecordType.KRAFT_VOTERS, encode_voters(voters)))
    return entries


def snapshot_header(
    last_contained_timestamp_ms: int, kraft_version: int, voters: VoterSet | None, *, epoch: int, timestamp_ms: int
) -> bytes:
    """Return the first batch of a snapshot. With kraft.version 1 it contains the voters too."""
    entries = [
        (
            ControlRecordType.SNAPSHOT_HEADER,
            SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_timestamp_ms).encode(0),
        )
    ]
    if kraft_version > 0:
        entries += voter_entries(kraft_version, voters)
    return build_control_batch(entries, base_offset=0, timestamp_ms=timestamp_ms, leader_epoch=epoch)


def snapshot_footer(base_offset: int, *, epoch: int, timestamp_ms: int) -> bytes:
    entries = [(ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord().encode(0))]
    return build_control_batch(entries, base_offset=base_offset, timestamp_ms=timestamp_ms, leader_epoch=epoch)


def encode_voters(voters: VoterSet) -> bytes:
    return voters_record.VotersRecord(voters=[encode_voter(voter) for voter in voters.voters]).encode(0)


def encode_voter(voter: Voter) -> voters_record.Voter:
    return voters_record.Voter(
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        endpoints=[voters_record.Endpoint(name=name, host=host, port=port) for name, host, port in voter.endpoints],
        kraft_version_feature=voters_record.KRaftVersionFeature(
            min_supported_version=voter.min_version, max_supported_version=voter.max_version
        ),
    )


def decode_voters(value: bytes) -> VoterSet:
    return VoterSet(
        Voter(
            ReplicaKey(voter.voter_id, voter.voter_directory_id),
            tuple(Endpoint(endpoint.name, endpoint.host, endpoint.port) for endpoint in voter.endpoints),
            voter.kraft_version_feature.min_supported_version,
            voter.kraft_version_feature.max_supported_version,
        )
        for voter in voters_record.VotersRecord.decode(value, 0).voters
    )


def decode_control(batch: RecordBatch) -> ControlContent:
    """Decode the control records of a batch. The last record of a kind counts. Raises ProtocolError for malformed
    records."""
    voters, kraft_version, timestamp_ms, is_footer = None, None, None, False
    for record in batch.records():
        kind, value = control_type_of(record.key), record.value or b""
        if kind == ControlRecordType.KRAFT_VOTERS:
            voters = decode_voters(value)
        elif kind == ControlRecordType.KRAFT_VERSION:
            kraft_version = KRaftVersionRecord.decode(value, 0).kraft_version
        elif kind == ControlRecordType.SNAPSHOT_HEADER:
            timestamp_ms = SnapshotHeaderRecord.decode(value, 0).last_contained_log_timestamp
        elif kind == ControlRecordType.SNAPSHOT_FOOTER:
            is_footer = True
    return ControlContent(voters, kraft_version, timestamp_ms, is_footer)
