"""`kraft storage recover-quorum`: the survivor of a lost quorum becomes a quorum of one."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Any

import trio
import typer

from kraft.cli.admin.disks.node_directories import (
    Configs,
    DataDir,
    NodeId,
    Sets,
    Voters,
    controller_endpoints,
    directories_of,
    read_config,
)
from kraft.cli.admin.options import Output, confirm_by_typing
from kraft.cli.admin.output import say, warn
from kraft.cli.admin.running import exit_on_failure
from kraft.common.config.endpoints import Endpoint as ListenerEndpoint
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import ConfigurationError
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.raft.quorum_recovery import (
    QuorumRecovery,
    Survivor,
    addresses_to_ask,
    carry_out,
    known_epoch,
    opened_survivor,
    plan_recovery,
    who_answers,
)
from kraft.raft.raft_config import RaftConfig
from kraft.server.shared_server import raft_config
from kraft.storage.directories.log_directory import LogDirectory
from kraft.storage.directories.meta_properties import MetaProperties, check_same_node, read_meta_properties
from kraft.world.ports import World
from kraft.world.real import RealWorld

EXAMPLE = "Example: kraft storage recover-quorum --config /etc/kraft/kraft.properties --dry-run"
SURE = "--yes-i-know-what-may-be-lost"
ANSWER_SECONDS_MAX = 5.0
LOSS = (
    "What may be lost: every change of the metadata that the other voters had committed and this disk had not copied "
    "(topics, settings, who may do what, which replicas are in sync), and records of partitions whose leader is then "
    "elected from what is left."
)
OLD_DISKS = (
    "The disks of the other voters must be wiped before their nodes are started again: with their old logs, a majority "
    "of the voters before would elect a leader of its own wherever it does not reach this node."
)


def recover_quorum(
    config: Configs = [],  # noqa: B006 - Typer reads it and never changes it.
    node_id: NodeId = None,
    data_dir: DataDir = None,
    voters: Voters = None,
    sets: Sets = [],  # noqa: B006 - as above.
    sure: Annotated[
        bool, typer.Option(SURE, help="Do not ask for the cluster id. Required without a terminal.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")] = False,
    output: Output = None,
) -> None:
    """Make a quorum of one out of a stopped controller, after the disks of a majority of the voters are permanently
    lost.

    The node's metadata log is kept, and gets a voter set of this node only, in a much higher epoch. It is rejected
    while another voter answers, and for a damaged log. Nodes with wiped disks join again afterwards: see `kraft docs
    lost-quorum`.
    """
    given = {"--node-id": node_id, "--data-dir": data_dir, "--voters": voters}
    node = read_config(config, sets, [(option, text) for option, text in given.items() if text is not None])
    world = RealWorld()
    with exit_on_failure(node.metadata_log_dir):
        with ExitStack() as locks:
            identity = _locked(world, node, locks)
            recover(world, node, identity, sure=sure, dry_run=dry_run, output=output)


def _locked(world: World, node: NodeConfig, locks: ExitStack) -> MetaProperties:
    """Lock the node's directories until `locks` closes, and return the identity of the metadata directory. Creates no
    directory. Raises ConfigurationError if the node runs, or if a directory belongs to another node or is not
    formatted; CorruptData, OSError."""
    files, found = world.files, list[tuple[str, MetaProperties]]()
    for path in directories_of(node):
        identity = read_meta_properties(files, path) if files.exists(path) else None
        if identity is not None:
            LogDirectory(files, path).lock(locks)
            found.append((path, identity))
    check_same_node(found, node.cluster_id, node.node_id)
    own = dict(found).get(node.metadata_log_dir)
    if own is None:
        raise ConfigurationError([f"{node.metadata_log_dir} is not formatted: nothing survived here"])
    return own


def recover(
    world: World, node: NodeConfig, identity: MetaProperties, *, sure: bool, dry_run: bool, output: Output
) -> None:
    """Read the disk, decide, ask the other voters and the user, and write. Raises KraftError, OSError."""
    config = _raft_config(node, identity)
    with opened_survivor(world.files, config, MetadataRecordSerde()) as (storage, survivor):
        if survivor.is_only_voter:
            sentence = f"Node {node.node_id} is the only voter of its quorum already. Nothing was done: start it."
            say({**_facts(identity, survivor, None), "executed": False}, sentence, output)
            return
        recovery = plan_recovery(survivor, world.random.stream("recover-quorum"))
        answering = trio.run(who_answers, world, addresses_to_ask(survivor, config), ANSWER_SECONDS_MAX)
        if answering:
            raise ConfigurationError(
                [
                    f"{address} answers: the quorum is not lost as long as voters can be started. Start a majority of "
                    "them, or stop that node for good and wipe its disk"
                    for address in answering
                ]
            )
        told = "\n".join(_lines(identity, survivor, recovery))
        if dry_run:
            sentence = f"{told}\n\nNothing was done: leave --dry-run out."
        else:
            if not sure:
                warn(told)
            question = f"Make node {node.node_id} the only voter of cluster {identity.cluster_id}?"
            confirm_by_typing(question, identity.cluster_id, sure, SURE)
            carry_out(storage, survivor, recovery, world.clock.wall_ms())
            sentence = "\n".join([*([told, ""] if sure else []), *_done(node, survivor, recovery)])
        say({**_facts(identity, survivor, recovery), "executed": not dry_run}, sentence, output)


def _raft_config(node: NodeConfig, identity: MetaProperties) -> RaftConfig:
    own = tuple(ListenerEndpoint(*endpoint) for endpoint in controller_endpoints(node))
    return raft_config(node, identity.cluster_id, identity.directory_id or bytes(16), own)


def _lines(identity: MetaProperties, survivor: Survivor, recovery: QuorumRecovery) -> list[str]:
    snapshot = survivor.newest_snapshot
    return [
        f"Cluster {identity.cluster_id}, node {survivor.key.id}, {survivor.directory}:",
        f"  last record          offset {survivor.end_offset - 1}, epoch {survivor.last_epoch}",
        f"  committed            at least up to offset {survivor.committed_end - 1}"
        if survivor.committed_end
        else "  committed            not known",
        "  newest snapshot      "
        + (f"up to offset {snapshot.offset - 1}, epoch {snapshot.epoch}" if snapshot is not None else "none"),
        f"  known epoch          {known_epoch(survivor)}; this node goes on in one after {recovery.epoch}",
        f"  voters before        {', '.join(map(str, survivor.voters.ids))} (kraft.version {survivor.kraft_version})",
        f"  voters afterwards    {survivor.key.id} (kraft.version 1)",
        "",
        LOSS,
        "Records that are not known to be committed are kept: they may have been.",
        OLD_DISKS,
    ]


def _done(node: NodeConfig, survivor: Survivor, recovery: QuorumRecovery) -> list[str]:
    own = recovery.payload.voters.voters[0]
    address = next((f"{endpoint.host}:{endpoint.port}" for endpoint in own.endpoints), "HOST:PORT")
    lines = [f"Node {survivor.key.id} is the only voter now, above epoch {recovery.epoch}. Start it."]
    if survivor.kraft_version == 0 or node.voters:
        lines.append(
            "The voters are in the metadata log from now on. Take controller.quorum.voters (--voters) out of the "
            f"configuration of every node, and set controller.quorum.bootstrap.servers={address} instead: two wiped "
            "nodes that still had it would elect an empty log."
        )
    return [*lines, "What to do then: `kraft docs lost-quorum`."]


def _facts(identity: MetaProperties, survivor: Survivor, recovery: QuorumRecovery | None) -> dict[str, Any]:
    snapshot = survivor.newest_snapshot
    return {
        "cluster_id": identity.cluster_id,
        "node_id": survivor.key.id,
        "path": survivor.directory,
        "last_offset": survivor.end_offset - 1,
        "last_epoch": survivor.last_epoch,
        "committed_offset_at_least": survivor.committed_end - 1 if survivor.committed_end else None,
        "newest_snapshot": None if snapshot is None else {"last_offset": snapshot.offset - 1, "epoch": snapshot.epoch},
        "known_epoch": known_epoch(survivor),
        "voters_before": list(survivor.voters.ids),
        "kraft_version_before": survivor.kraft_version,
        "epoch": None if recovery is None else recovery.epoch,
    }
