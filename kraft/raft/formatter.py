"""Formats the log directories of a node, as `kafka-storage format` does (KIP-631, KIP-853).

Planning is pure: `plan_format` takes the request and the state of the disk, and returns a `FormatPlan` or raises
ConfigurationError with every problem. `carry_out` writes the plan:

- `bootstrap.checkpoint` in every directory, as Kafka does, with the records that the first leader appends (the
  finalized features, credentials of the request). Only the one in the metadata directory is read.
- `__cluster_metadata-0/00000000000000000000-0000000000.checkpoint` (mode 0400 in Kafka) with kraft.version and voters,
  if the request names voters.
- `meta.properties` in every directory, last: a directory that has it is completely formatted, even after a crash.

A member of a quorum of several nodes is never formatted by accident: formatting happens only on request, and a
formatted directory is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kraft.common.errors import ConfigurationError
from kraft.common.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    finalized_at_format,
    missing_requirement,
)
from kraft.common.ids import OffsetAndEpoch, Uuid, uuid_from_text, uuid_to_text
from kraft.common.metadata_versions import METADATA_VERSION_NAMES, level_of_release, metadata_version_of
from kraft.raft.core.voter_set import Endpoint, Endpoints, ReplicaKey, Voter, VoterSet
from kraft.raft.ports import RecordSerde
from kraft.raft.quorum_storage import METADATA_DIRECTORY
from kraft.raft.snapshot.snapshot_path import BOOTSTRAP_FILE, BOOTSTRAP_ID, snapshot_name
from kraft.raft.snapshot.snapshot_writer import SnapshotWriter
from kraft.storage.directories.log_directory import make_name_durable
from kraft.storage.directories.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from kraft.world.ports import FileSystem, Randomness

UUID_PURPOSE = "directory-id"
_LEVEL = re.compile("-?[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRequest:
    """The options of the command line and the configuration. At most one of the three flags of a dynamic quorum may be
    given."""

    cluster_id: str
    node_id: int
    directories: tuple[str, ...]  # log.dirs, and metadata.log.dir if it is another.
    metadata_directory: str
    is_controller: bool
    controller_endpoints: Endpoints = ()  # Advertised controller listeners, for --standalone.
    has_static_voters: bool = False  # controller.quorum.voters is set.
    standalone: bool = False
    no_initial_controllers: bool = False
    initial_controllers: VoterSet | None = None
    ignore_formatted: bool = False
    release_version: str | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    has_scram_credentials: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatPlan:
    """The content to write. The first leader finalizes `features`. `voters` are None unless the request names them."""

    cluster_id: str
    node_id: int
    directory_ids: tuple[tuple[str, Uuid], ...]  # Directories to format; formatted ones are left out.
    metadata_directory: str
    features: tuple[tuple[str, int], ...]
    kraft_version: int
    voters: VoterSet | None

    @property
    def metadata_version_name(self) -> str:
        return METADATA_VERSION_NAMES[dict(self.features)[METADATA_VERSION]]

    def lines(self) -> list[str]:
        """Return the messages for the user, as Kafka prints them."""
        if not self.directory_ids:
            return ["All of the log directories are already formatted."]
        output = []
        for directory, _ in self.directory_ids:
            kind = (
                "data directory"
                if directory != self.metadata_directory
                else "dynamic metadata voter directory"
                if self.voters
                else "metadata directory"
            )
            output.append(f"Formatting {kind} {directory} with metadata.version {self.metadata_version_name}.")
        return output


def parse_initial_controllers(text: str) -> VoterSet:
    """Parse `id@host:port:directory-id,...`. Raises ConfigurationError, which names the invalid entry."""
    voters, problems = [], []
    for entry in text.split(","):
        try:
            node_id, _, address = entry.strip().partition("@")
            host, port, directory = address.rsplit(":", 2)
            if not host or int(node_id) < 0 or not 0 < int(port) < 65536:
                raise ValueError("node id, host or port is out of range")
            voters.append(
                Voter(
                    ReplicaKey(int(node_id), uuid_from_text(directory)),
                    (Endpoint("", host.strip("[]"), int(port)),),
                    0,
                    1,
                )
            )
        except ValueError as problem:
            problems.append(f"--initial-controllers: {entry.strip()!r} is not id@host:port:directory-id ({problem})")
    ids = [voter.key.id for voter in voters]
    if not problems and len(set(ids)) != len(ids):
        problems.append("--initial-controllers: a node id is named twice")
    if problems:
        raise ConfigurationError(problems)
    return VoterSet(voters)


def parse_features(entries: Sequence[str]) -> dict[str, int]:
    """Parse entries of the form `name=level`. Raises ConfigurationError."""
    features, problems = dict[str, int](), []
    for entry in entries:
        name, equals, level = entry.partition("=")
        if not equals or _LEVEL.fullmatch(level) is None:
            problems.append(f"--feature: {entry!r} is not name=level")
        elif name in features:
            problems.append(f"--feature: {name} is given twice")
        else:
            features[name] = int(level)
    if problems:
        raise ConfigurationError(problems)
    return features


# Planning


def plan_format(
    request: FormatRequest,
    found: Mapping[str, MetaProperties | None],
    random: Randomness,
    listener_name: str = "CONTROLLER",
) -> FormatPlan:
    """Return the plan for a request. `found` has the meta.properties of each directory, None if there is none. Raises
    ConfigurationError with every problem."""
    problems = [*flag_problems(request), *feature_problems(request), *directory_problems(request, found)]
    if problems:
        raise ConfigurationError(problems)
    named = request.initial_controllers.get(request.node_id) if request.initial_controllers is not None else None
    ids = []
    for directory in request.directories:
        if found.get(directory) is None:
            given = named is not None and directory == request.metadata_directory
            ids.append(
                (
                    directory,
                    Uuid(named.key.directory_id) if given and named is not None else Uuid(random.uuid(UUID_PURPOSE)),
                )
            )
    return FormatPlan(
        cluster_id=request.cluster_id,
        node_id=request.node_id,
        directory_ids=tuple(ids),
        metadata_directory=request.metadata_directory,
        features=finalized_at_format({**request.features, METADATA_VERSION: metadata_level(request)}),
        kraft_version=1 if is_dynamic(request) else 0,
        voters=initial_voters(request, dict(ids), listener_name),
    )


def is_dynamic(request: FormatRequest) -> bool:
    """Whether the quorum uses kraft.version 1."""
    return request.standalone or request.no_initial_controllers or request.initial_controllers is not None


def metadata_level(request: FormatRequest) -> int:
    if METADATA_VERSION in request.features:
        return request.features[METADATA_VERSION]
    release = request.release_version
    level = None if release is None else level_of_release(release)
    return SUPPORTED_FEATURES[METADATA_VERSION][1] if level is None else level


def initial_voters(request: FormatRequest, ids: Mapping[str, Uuid], listener_name: str) -> VoterSet | None:
    """Return the voters to write; None if they come from the configuration or from the quorum."""
    if request.metadata_directory not in ids:
        return None
    if request.standalone:
        return VoterSet(
            [
                Voter(
                    ReplicaKey(request.node_id, ids[request.metadata_directory]),
                    request.controller_endpoints,
                    *SUPPORTED_FEATURES[KRAFT_VERSION],
                )
            ]
        )
    if request.initial_controllers is None:
        return None
    return VoterSet(
        voter._replace(endpoints=tuple(e._replace(name=listener_name) for e in voter.endpoints))
        for voter in request.initial_controllers.voters
    )


def flag_problems(request: FormatRequest) -> list[str]:
    problems = []
    if not request.cluster_id.strip():
        problems.append("--cluster-id: must not be empty; `kraft storage random-uuid` makes one")
    elif request.cluster_id.split() != [request.cluster_id]:  # meta.properties would return another.
        problems.append(f"--cluster-id: {request.cluster_id!r} has white space in it")
    if sum((request.standalone, request.no_initial_controllers, request.initial_controllers is not None)) > 1:
        problems.append("--standalone, --initial-controllers and --no-initial-controllers exclude each other")
    if request.standalone and not request.is_controller:
        problems.append("You can only use --standalone on a controller.")
    if request.standalone and request.is_controller and not request.controller_endpoints:
        problems.append("--standalone: no controller listener is configured")
    if is_dynamic(request) and request.has_static_voters:
        problems.append(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, "
            "please remove controller.quorum.voters and specify controller.quorum.bootstrap.servers instead."
        )
    if request.is_controller and not is_dynamic(request) and not request.has_static_voters:
        problems.append(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the "
            "following: --standalone, --initial-controllers, or "
            "--no-initial-controllers."
        )
    if (
        request.initial_controllers is not None
        and request.is_controller
        and request.initial_controllers.get(request.node_id) is None
    ):
        problems.append(
            f"You specified --initial-controllers, but this node, {request.node_id}, is not one of the "
            "controllers listed."
        )
    return problems


def feature_problems(request: FormatRequest) -> list[str]:
    problems = []
    release = request.release_version
    if release is not None and level_of_release(release) is None:
        problems.append(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: "
            f"{', '.join(METADATA_VERSION_NAMES.values())}"
        )
    if release is not None and METADATA_VERSION in request.features:
        problems.append("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    for name, level in request.features.items():
        if name not in SUPPORTED_FEATURES:
            problems.append(
                f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(SUPPORTED_FEATURES))}"
            )
        elif not SUPPORTED_FEATURES[name][0] <= level <= SUPPORTED_FEATURES[name][1]:
            problems.append(
                f"No feature:{name} with feature level {level}; supported are {SUPPORTED_FEATURES[name][0]} "
                f"to {SUPPORTED_FEATURES[name][1]}"
            )
    if not problems:
        levels = dict(finalized_at_format({**request.features, METADATA_VERSION: metadata_level(request)}))
        missing = (missing_requirement(name, level, levels) for name, level in sorted(levels.items()))
        problems += [problem for problem in missing if problem is not None]
        if request.has_scram_credentials and not metadata_version_of(metadata_level(request)).serves_scram:
            problems.append("SCRAM is only supported in metadata.version 3.5-IV2 or later.")
    wanted = request.features.get(KRAFT_VERSION)
    if wanted == 0 and is_dynamic(request):
        problems.append(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags "
            "--standalone, --initial-controllers, or "
            "--no-initial-controllers is used. For dynamic controllers support, try removing the --feature "
            "flag for kraft.version."
        )
    if wanted == 1 and not is_dynamic(request):
        problems.append(
            "Cannot set kraft.version to 1 unless controller.quorum.voters is empty and one of the flags "
            "--standalone, --initial-controllers, or "
            "--no-initial-controllers is used. For dynamic controllers support, try using one of "
            "--standalone, --initial-controllers, or "
            "--no-initial-controllers and removing controller.quorum.voters."
        )
    return problems


def directory_problems(request: FormatRequest, found: Mapping[str, MetaProperties | None]) -> list[str]:
    problems = []
    for directory in request.directories:
        properties = found.get(directory)
        if properties is None:
            continue
        if properties.cluster_id != request.cluster_id:
            problems.append(
                f"Invalid cluster.id in: {directory}/meta.properties. Expected {request.cluster_id}, but read "
                f"{properties.cluster_id}"
            )
        elif properties.node_id != request.node_id:
            problems.append(
                f"Invalid node.id in: {directory}/meta.properties. Expected {request.node_id}, but read "
                f"{properties.node_id}"
            )
        elif not request.ignore_formatted:
            problems.append(
                f"Log directory {directory} is already formatted. Use --ignore-formatted to ignore this "
                "directory and format the others."
            )
    return problems


# Writing


def find_formatted(files: FileSystem, directories: Sequence[str]) -> dict[str, MetaProperties | None]:
    """Return the meta.properties of each directory, None if there is none. Raises CorruptData, OSError."""
    return {
        directory: read_meta_properties(files, directory) if files.exists(directory) else None
        for directory in directories
    }


def carry_out(
    files: FileSystem,
    plan: FormatPlan,
    serde: RecordSerde,
    feature_record: Callable[[str, int], Any],
    now_ms: int,
    credentials: Sequence[Any] = (),
) -> None:
    """Write the plan durably. Blocks. Raises OSError.

    `feature_record(name, level)` returns the metadata record that finalizes a feature. `credentials` are further
    records for the first leader.
    """
    records = [*(feature_record(name, level) for name, level in plan.features), *credentials]
    for directory, directory_id in plan.directory_ids:
        files.make_directories(directory)
        make_name_durable(files, directory)
        write_checkpoint(files, directory, BOOTSTRAP_FILE, serde, records, None, 0, 0, now_ms)
        if directory == plan.metadata_directory and plan.voters is not None:
            metadata = f"{directory}/{METADATA_DIRECTORY}"
            files.make_directories(metadata)
            write_checkpoint(
                files, metadata, snapshot_name(BOOTSTRAP_ID), serde, (), plan.voters, plan.kraft_version, now_ms, now_ms
            )
            files.sync_directory(directory)
        write_meta_properties(
            files,
            directory,
            MetaProperties(cluster_id=plan.cluster_id, node_id=plan.node_id, directory_id=directory_id),
        )


def write_checkpoint(
    files: FileSystem,
    directory: str,
    name: str,
    serde: RecordSerde,
    records: Sequence[Any],
    voters: VoterSet | None,
    kraft_version: int,
    last_contained_timestamp_ms: int,
    now_ms: int,
) -> None:
    writer = SnapshotWriter(
        files,
        directory,
        name,
        OffsetAndEpoch(0, 0),
        serde,
        voters=voters,
        kraft_version=kraft_version,
        last_contained_timestamp_ms=last_contained_timestamp_ms,
        now_ms=now_ms,
        read_only=name != BOOTSTRAP_FILE,
    )
    writer.append(records)
    writer.freeze_blocking()


def random_uuid(random: Randomness) -> str:
    """Return a new cluster id or directory id, in Kafka's text form."""
    return uuid_to_text(random.uuid(UUID_PURPOSE))
