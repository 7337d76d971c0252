"""The identity of a node's directories, and whether they may be formatted. This runs before anything is written to
them.

A quorum of one formats an empty directory without being asked. A member of a larger quorum never does: a voter that has
lost its memory could vote twice, or elect a log that lacks committed records.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from kraft.common.config.endpoints import Endpoint as ListenerEndpoint
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import ConfigurationError
from kraft.common.ids import OffsetAndEpoch, uuid_to_text
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.protocol.schema import Message
from kraft.raft.core.voter_set import Endpoint
from kraft.raft.formatter import (
    FormatRequest,
    carry_out,
    find_formatted,
    parse_features,
    parse_initial_controllers,
    plan_format,
)
from kraft.raft.quorum_storage import METADATA_DIRECTORY
from kraft.raft.snapshot.snapshot_path import BOOTSTRAP_FILE, BOOTSTRAP_ID, part_of, snapshot_name
from kraft.raft.snapshot.snapshot_reader import SnapshotReader
from kraft.server.security.scram_arguments import parse_scram_credentials
from kraft.storage.directories.log_directory import LogDirectory
from kraft.storage.directories.meta_properties import MetaProperties, check_same_node, read_meta_properties
from kraft.storage.log_files import LOCK, META_PROPERTIES
from kraft.world.ports import FileSystem, World

HARMLESS: Final = frozenset((LOCK, "lost+found"))


def directories_of(config: NodeConfig) -> tuple[str, ...]:
    """Return the directories to format, in order: the metadata directory first, whether or not it is one of log.dirs,
    then the others. If formatting in this order crashes at any point, it can be repeated."""
    return (config.metadata_log_dir, *(path for path in config.log_dirs if path != config.metadata_log_dir))


def refuse_foreign_directories(files: FileSystem, config: NodeConfig) -> None:
    """Raises ConfigurationError for a directory that holds something other than a node's files. Changes nothing.

    An unreadable directory is skipped: it goes offline, or ends the start, when it is opened.
    """
    problems = []
    for path in directories_of(config):
        option = "--data-dir (log.dirs)" if path in config.log_dirs else "metadata.log.dir"
        try:
            if not files.exists(path):
                continue
            if not files.status(path).is_directory:
                problems.append(f"{option}: {path} is a file, not a directory")
                continue
            names = [name for name in files.list_directory(path) if name not in HARMLESS]
        except OSError:
            continue
        if names and META_PROPERTIES not in names and not is_unfinished_format(files, path, names):
            shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            problems.append(
                f"{option}: {path} is not empty ({shown}) and has no meta.properties: not a node's directory; "
                "choose another"
            )
    if problems:
        raise ConfigurationError(problems)


def is_unfinished_format(files: FileSystem, path: str, names: Sequence[str]) -> bool:
    """Whether `names` are only files that formatting writes before meta.properties. Then formatting was interrupted,
    the directory was never in use, and it may be formatted again."""
    metadata = f"{path}/{METADATA_DIRECTORY}"
    within = files.list_directory(metadata) if METADATA_DIRECTORY in names else []
    at_top = (BOOTSTRAP_FILE, part_of(BOOTSTRAP_FILE), f"{META_PROPERTIES}.tmp", METADATA_DIRECTORY)
    voters = snapshot_name(BOOTSTRAP_ID)
    return all(name in at_top for name in names) and all(name in (voters, part_of(voters)) for name in within)


def open_metadata_directory(files: FileSystem, config: NodeConfig, stack: ExitStack) -> MetaProperties | None:
    """The identity of metadata.log.dir, None if it is not formatted. If it is not one of log.dirs it is locked until
    `stack` closes.

    Raises ConfigurationError if it is in use or belongs to another node, StorageError or OSError if it cannot be read.
    """
    path = config.metadata_log_dir
    if path not in config.log_dirs:
        LogDirectory(files, path).lock(stack)
    found = read_meta_properties(files, path)
    if found is not None:
        check_same_node([(path, found)], config.cluster_id, config.node_id)
    return found


def require_metadata_directory(config: NodeConfig, cluster_id: str, found: MetaProperties | None) -> None:
    """Raises ConfigurationError for a controller whose metadata directory is empty while its other directories are
    formatted."""
    if config.is_controller and found is None:
        raise ConfigurationError(
            [
                f"{config.metadata_log_dir}: not formatted, while other directories of this node belong to "
                f"cluster {cluster_id}. Is its disk mounted?"
                " A controller does not begin with an empty metadata log. If that disk was lost, remove the "
                "voter from the quorum first,"
                " format the directory with `kraft storage format --ignore-formatted`, and add the voter "
                "again with its new directory id."
            ]
        )


def format_empty_directories(world: World, config: NodeConfig, controllers: tuple[ListenerEndpoint, ...]) -> str:
    """Format the empty directories of a controller if that is safe or was requested. Returns the cluster id. Raises
    ConfigurationError."""
    if not config.quorum_of_one and not config.format_requested:
        cluster_id = config.cluster_id or "$(kraft storage random-uuid)"
        raise ConfigurationError(
            [
                f"{config.metadata_log_dir}: not formatted, and this node is a member of a quorum of several: "
                "it is never formatted by accident."
                f" If it is new, run `kraft storage format --cluster-id {cluster_id} --config FILE`, the same "
                "id on every node"
                " (--format with --cluster-id does it at the start of a throwaway cluster)."
                " If its disk was lost, remove the voter from the quorum first and add it again with its new "
                "directory id."
            ]
        )
    if not config.quorum_of_one and config.cluster_id is None:
        raise ConfigurationError(["--format needs --cluster-id, the same on every node of the quorum"])
    cluster_id = config.cluster_id or uuid_to_text(world.random.uuid("cluster-id"))
    request = _format_request(config, cluster_id, controllers)
    credentials = parse_scram_credentials(config.format_options.add_scram, world.random)
    found = find_formatted(world.files, request.directories)
    plan = plan_format(request, found, world.random, config.controller_listener_names[0])
    carry_out(
        world.files,
        plan,
        MetadataRecordSerde(),
        lambda name, level: FeatureLevelRecord(name=name, feature_level=level),
        world.clock.wall_ms(),
        credentials,
    )
    return plan.cluster_id


def _format_request(config: NodeConfig, cluster_id: str, controllers: tuple[ListenerEndpoint, ...]) -> FormatRequest:
    """The request for formatting. Without options for the initial quorum, a controller that has no other address is the
    whole quorum, and any other controller joins. Raises ConfigurationError."""
    asked = config.format_options
    initial = None if asked.initial_controllers is None else parse_initial_controllers(asked.initial_controllers)
    is_said = asked.standalone or asked.no_initial_controllers or initial is not None or bool(config.voters)
    return FormatRequest(
        cluster_id=cluster_id,
        node_id=config.node_id,
        directories=directories_of(config),
        metadata_directory=config.metadata_log_dir,
        is_controller=True,
        controller_endpoints=tuple(Endpoint(endpoint.name, endpoint.host, endpoint.port) for endpoint in controllers),
        has_static_voters=bool(config.voters),
        standalone=asked.standalone or (not is_said and config.quorum_of_one),
        no_initial_controllers=asked.no_initial_controllers or (not is_said and not config.quorum_of_one),
        initial_controllers=initial,
        release_version=asked.release_version,
        features=parse_features(asked.features),
        has_scram_credentials=bool(asked.add_scram),
    )


def read_bootstrap_records(files: FileSystem, metadata_directory: str) -> list[Message]:
    """The records that formatting wrote for the first controller of the cluster. Raises CorruptData, OSError."""
    path = f"{metadata_directory}/{BOOTSTRAP_FILE}"
    if not files.exists(path):
        return []
    files.set_private(path)
    reader = SnapshotReader(files, path, OffsetAndEpoch(0, 0), MetadataRecordSerde())
    try:
        return [record for batch in reader.batches() for record in batch.records]
    finally:
        reader.close()
