"""Recovers a quorum of one node from a surviving voter, when a majority of the disks is lost permanently.

The decision is pure: `plan_recovery` takes the state of the survivor's disk and returns a `QuorumRecovery`, or raises
ConfigurationError. `carry_out` writes it in two steps, each durable before the next one starts:

1. `quorum-state` gets an epoch far above any epoch that the lost voters can have reached. Until step 2 the voter set is
   unchanged, and a quorum of it could still elect a leader above that epoch.
2. A batch of that epoch is appended to the metadata log: a VotersRecord (KIP-853) that names this node alone, preceded
   by a KRaftVersionRecord if the quorum had static voters. A torn batch is cut off at the next start.

A power failure leaves the state before or after, and a second run completes it. No replica has led the epoch, so the
batch is in no other log. A lost voter that returns has a log of an earlier epoch, wins no vote here, and truncates to
the common part of both logs.

Nothing is truncated from the log: records that the survivor does not know to be committed may be committed. The first
record of the new leader commits them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import trio

from kraft.common.errors import ConfigurationError
from kraft.common.ids import OffsetAndEpoch, uuid_to_text
from kraft.raft.control_batches import encode_payload
from kraft.raft.core.config import MAX_KRAFT_VERSION, MIN_KRAFT_VERSION
from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.epoch_allowance import ANSWERED_EPOCH_MAX
from kraft.raft.core.payloads import Voters
from kraft.raft.core.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from kraft.raft.ports import RecordSerde
from kraft.raft.quorum_storage import METADATA_DIRECTORY, QuorumStorage
from kraft.raft.raft_config import RaftConfig
from kraft.world.ports import FileSystem, World

EPOCH_RISE_MIN: Final = 1_000_000
"""Minimum rise of the epoch. Elections among lost voters that return do not reach it: at two elections a second that
takes six days."""
EPOCH_RISE_SPREAD: Final = 1_000_000
"""Limit of the random part of the rise. Two survivors that are both recovered by mistake then get different epochs."""
KNOWN_EPOCH_MAX: Final = ANSWERED_EPOCH_MAX // 2
"""Limit of the survivor's epoch. Joining nodes accept epochs up to ANSWERED_EPOCH_MAX, and a recovery above this limit
would leave too few of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """The state of a stopped node's metadata directory. Offsets and epochs are those of the metadata log."""

    directory: str  # __cluster_metadata-0
    key: ReplicaKey
    is_controller: bool
    end_offset: int
    last_epoch: int
    election_epoch: int
    committed_end: int  # The log is committed at least up to here.
    newest_snapshot: OffsetAndEpoch | None
    voters: VoterSet
    previous_voters: VoterSet  # The set that `voters` replaced, which may still be in effect.
    kraft_version: int

    @property
    def is_only_voter(self) -> bool:
        return self.is_controller and self.voters.is_only(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumRecovery:
    """The batch that makes the survivor the only voter: its epoch, its base offset and its control records."""

    epoch: int
    base_offset: int
    payload: Voters

    @property
    def end_offset(self) -> int:
        return self.base_offset + (1 if self.payload.kraft_version is None else 2)


class VoterAddress(NamedTuple):
    """The address of another controller. `node_id` is None for a bootstrap server, whose id is not known."""

    node_id: int | None
    host: str
    port: int

    def __str__(self) -> str:
        who = "the bootstrap controller" if self.node_id is None else f"voter {self.node_id}"
        return f"{who} at {self.host}:{self.port}"


# Decision


def plan_recovery(survivor: Survivor, rng: random.Random) -> QuorumRecovery:
    """Return the recovery. Raises ConfigurationError if this node cannot become the quorum. It must not be the only
    voter already."""
    assert not survivor.is_only_voter, "there is nothing to recover"
    problems = recovery_problems(survivor)
    if problems:
        raise ConfigurationError(problems)
    own = survivor.voters.get(survivor.key.id)
    assert own is not None, "refused above"
    alone = VoterSet([Voter(survivor.key, own.endpoints, MIN_KRAFT_VERSION, MAX_KRAFT_VERSION)])
    return QuorumRecovery(
        epoch=known_epoch(survivor) + EPOCH_RISE_MIN + rng.randrange(EPOCH_RISE_SPREAD),
        base_offset=survivor.end_offset,
        payload=Voters(MAX_KRAFT_VERSION if survivor.kraft_version == 0 else None, alone),
    )


def known_epoch(survivor: Survivor) -> int:
    """The greatest epoch that the survivor knows."""
    return max(survivor.election_epoch, survivor.last_epoch)


def recovery_problems(survivor: Survivor) -> list[str]:
    """Return why this node cannot become the quorum; empty if it can."""
    directory, own = survivor.directory, survivor.voters.get(survivor.key.id)
    if not survivor.is_controller:
        return [
            f"{directory}: node {survivor.key.id} is no controller (process.roles), and a broker's copy of the "
            "metadata log may end before what controllers have on disk. Run this on a controller that was a voter"
        ]
    if survivor.key.directory_id == bytes(16):
        return [
            f"{directory.rpartition('/')[0]}/meta.properties has no directory.id, by which a voter is known. A node "
            "gives one to each of its directories when it starts: start it once, stop it, and run this again"
        ]
    if own is None:
        known = ", ".join(map(str, survivor.voters.ids)) or "unknown"
        return [
            f"{directory}: node {survivor.key.id} is not a voter (voters: {known}), so its log may lack what they have "
            "committed. Run this on a voter; with static voters, give the configuration (or --voters) that names them"
        ]
    if not survivor.voters.contains(survivor.key):
        return [
            f"{directory}: the voter {survivor.key.id} has the disk with "
            f"directory.id={uuid_to_text(own.key.directory_id)}, and this one has "
            f"{uuid_to_text(survivor.key.directory_id)}: it was formatted after the voter's disk was lost, and never "
            "voted"
        ]
    if survivor.end_offset == 0:
        return [f"{directory}: the metadata log is empty: nothing survived here. Run this on a voter that has a log"]
    if known_epoch(survivor) > KNOWN_EPOCH_MAX:
        return [
            f"{directory}: epoch {known_epoch(survivor)} is too great to be raised, and elections alone do not lead "
            "there. See 'An epoch that cannot be' in `kraft docs lost-quorum`"
        ]
    return []


def addresses_to_ask(survivor: Survivor, config: RaftConfig) -> list[VoterAddress]:
    """Return the addresses at which another controller may run: of the voters in the log, the voters in the
    configuration, and the bootstrap servers. Duplicates and this node's own addresses are left out."""
    own_id, found = survivor.key.id, dict[Endpoint, VoterAddress]()
    seen = {
        endpoint._replace(name="")
        for voters in (survivor.voters, survivor.previous_voters, config.static_voters)
        for voter in voters.voters
        if voter.key.id == own_id
        for endpoint in voter.endpoints
    } | {endpoint._replace(name="") for endpoint in config.quorum.endpoints}
    asked: list[tuple[int | None, Endpoint]] = [
        (voter.key.id, endpoint)
        for voters in (survivor.voters, survivor.previous_voters, config.static_voters)
        for voter in voters.voters
        if voter.key.id != own_id
        for endpoint in voter.endpoints
    ]
    asked += [(None, endpoint) for endpoints in config.quorum.bootstrap for endpoint in endpoints]
    for node_id, endpoint in asked:
        place = endpoint._replace(name="")
        if place not in seen:
            found.setdefault(place, VoterAddress(node_id, endpoint.host, endpoint.port))
    return list(found.values())


# Writing


@contextmanager
def opened_survivor(
    files: FileSystem, config: RaftConfig, serde: RecordSerde
) -> Iterator[tuple[QuorumStorage, Survivor]]:
    """Open, read and check the metadata directory of a stopped node, as a start does. Its directories must be locked. A
    torn tail is cut off; nothing else changes.

    Raises ConfigurationError if there is no log, CorruptData if it is damaged or too short, OSError.
    """
    directory = f"{config.metadata_log_directory}/{METADATA_DIRECTORY}"
    if not files.exists(directory):
        raise ConfigurationError(
            [f"{directory} does not exist: this node has no metadata log to recover a quorum from"]
        )
    storage = QuorumStorage(files, config.metadata_log_directory, serde, segment_bytes=config.segment_bytes)
    try:
        state = storage.recover(config.static_voters)
        yield (
            storage,
            Survivor(
                directory=directory,
                key=config.quorum.local,
                is_controller=config.quorum.can_be_voter,
                end_offset=state.end_offset,
                last_epoch=state.last_epoch,
                election_epoch=storage.state.load(state.last_epoch).epoch,
                committed_end=max(storage.committed_end.read(), state.high_watermark),
                newest_snapshot=state.latest_snapshot,
                voters=state.voters,
                previous_voters=state.history.previous,
                kraft_version=state.history.kraft_version,
            ),
        )
    finally:
        storage.close()


async def who_answers(world: World, addresses: Sequence[VoterAddress], seconds: float) -> list[VoterAddress]:
    """Return the addresses that accept a connection within `seconds`, in order. An accepted connection counts as a live
    controller: with TLS or authentication, a controller may refuse anything more."""
    found = set[VoterAddress]()

    async def knock(address: VoterAddress) -> None:
        with world.clock.move_on_after(seconds):
            try:
                stream = await world.network.connect(address.host, address.port)
            except OSError:
                return  # Refused, unreachable, or the name no longer resolves.
            found.add(address)
            stream.close()

    async with trio.open_nursery() as knocks:
        for address in addresses:
            knocks.start_soon(knock, address)
    return [address for address in addresses if address in found]


def carry_out(storage: QuorumStorage, survivor: Survivor, recovery: QuorumRecovery, now_ms: int) -> None:
    """Write the recovery durably, in the order that the module describes. Raises OSError; OutOfResources if there is no
    space."""
    storage.state.save(ElectionState(recovery.epoch), survivor.voters, survivor.kraft_version)
    batch = encode_payload(
        recovery.payload, base_offset=recovery.base_offset, epoch=recovery.epoch, timestamp_ms=now_ms
    )
    storage.log.append([batch], recovery.end_offset)
    storage.log.sync()
