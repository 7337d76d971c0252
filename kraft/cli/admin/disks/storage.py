"""`kraft storage`: the functions of Kafka's `kafka-storage`, with its flags. It needs no node, and must not be used on
directories of a running one."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from kraft.cli.admin.disks import recover_quorum, remote_storage
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
from kraft.cli.admin.options import Output, OutputFormat
from kraft.cli.admin.output import Table, say, show, write
from kraft.cli.admin.running import FAILED, NotFound, exit_on_failure
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import KraftError
from kraft.common.ids import TopicPartition, uuid_to_text
from kraft.metadata.record_serde import MetadataRecordSerde
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from kraft.raft.formatter import (
    FormatPlan,
    FormatRequest,
    carry_out,
    find_formatted,
    parse_features,
    parse_initial_controllers,
    plan_format,
    random_uuid,
)
from kraft.server.security.scram_arguments import parse_scram_credentials
from kraft.storage.directories.meta_properties import MetaProperties, read_meta_properties
from kraft.storage.recovery.damaged_log import (
    ACCEPTED,
    DAMAGED_FOLDER,
    END_UNKNOWN,
    DamageReport,
    find_damaged,
    settle_damage,
)
from kraft.world.real import RealWorld

app = typer.Typer(
    help="Format and inspect log directories (no node needed).", no_args_is_help=True, add_completion=False
)

app.add_typer(remote_storage.app, name="remote")
app.command("recover-quorum", epilog=recover_quorum.EXAMPLE)(recover_quorum.recover_quorum)

ClusterId = Annotated[
    str,
    typer.Option(
        "--cluster-id",
        "-t",
        metavar="ID",
        help="Cluster id: the same for every node of the cluster.",
        show_default=False,
    ),
]
AddScram = Annotated[
    list[str],
    typer.Option(
        "--add-scram",
        "-S",
        metavar="MECHANISM=[name=..,password=..]",
        help="SCRAM credential to create with the cluster. Repeatable.",
    ),
]
InitialControllers = Annotated[
    str | None,
    typer.Option(
        "--initial-controllers", "-I", metavar="ID@HOST:PORT:DIRECTORY,..", help="First voters of the quorum."
    ),
]


@app.command(
    "format",
    epilog="Example: kraft storage format -t $(kraft storage random-uuid) -c controller.properties --standalone",
)
def format_directories(
    cluster_id: ClusterId,
    config: Configs,
    node_id: NodeId = None,
    data_dir: DataDir = None,
    voters: Voters = None,
    sets: Sets = [],  # noqa: B006 - Typer reads it and never changes it.
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="Make this controller the only voter. Others can join later.")
    ] = False,
    no_initial: Annotated[
        bool, typer.Option("--no-initial-controllers", "-N", help="Let this node join an existing quorum.")
    ] = False,
    initial: InitialControllers = None,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Skip directories that are formatted already.")
    ] = False,
    release: Annotated[
        str | None,
        typer.Option(
            "--release-version", "-r", metavar="VERSION", help="Use the feature levels of this release of Kafka."
        ),
    ] = None,
    feature: Annotated[
        list[str],
        typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="Use this level of a feature. Repeatable."),
    ] = [],  # noqa: B006 - as above.
    add_scram: AddScram = [],  # noqa: B006 - as above.
    output: Output = None,
) -> None:
    """Format log directories, before the first start of a node.

    `kraft-node` itself formats the empty directory of a quorum of one. Members of a larger quorum are formatted with
    this command only, never by accident.
    """
    given = {"--node-id": node_id, "--data-dir": data_dir, "--voters": voters}
    node = read_config(config, sets, [(option, text) for option, text in given.items() if text is not None], add_scram)
    with exit_on_failure(node.metadata_log_dir):
        request = FormatRequest(
            cluster_id=cluster_id,
            node_id=node.node_id,
            directories=directories_of(node),
            metadata_directory=node.metadata_log_dir,
            is_controller=node.is_controller,
            controller_endpoints=controller_endpoints(node),
            has_static_voters=bool(node.voters),
            standalone=standalone,
            no_initial_controllers=no_initial,
            initial_controllers=None if initial is None else parse_initial_controllers(initial),
            ignore_formatted=ignore_formatted,
            release_version=release,
            features=parse_features(feature),
            has_scram_credentials=bool(node.format_options.add_scram),
        )
        plan = _format(request, node, parse_scram_credentials(node.format_options.add_scram, RealWorld().random))
    say(_formatted(plan), "\n".join(plan.lines()), output)


def _format(request: FormatRequest, node: NodeConfig, credentials: list[UserScramCredentialRecord]) -> FormatPlan:
    """Plan and carry out the format, and return the plan. Raises ConfigurationError, CorruptData, OSError."""
    world = RealWorld()
    listener = node.controller_listener_names[0] if node.controller_listener_names else "CONTROLLER"
    plan = plan_format(request, find_formatted(world.files, request.directories), world.random, listener)
    now_ms = time.time_ns() // 1_000_000
    carry_out(
        world.files,
        plan,
        MetadataRecordSerde(),
        lambda name, level: FeatureLevelRecord(name=name, feature_level=level),
        now_ms,
        credentials,
    )
    return plan


def _formatted(plan: FormatPlan) -> dict[str, Any]:
    return {
        "cluster_id": plan.cluster_id,
        "node_id": plan.node_id,
        "directories": [
            {"path": path, "directory_id": uuid_to_text(directory_id)} for path, directory_id in plan.directory_ids
        ],
        "features": dict(plan.features),
        "kraft_version": plan.kraft_version,
    }


@app.command()
def info(config: Configs, sets: Sets = [], output: Output = None) -> None:  # noqa: B006 - as above.
    """Show the log directories of a node, their identity, and problems. Exits with 1 if there are problems."""
    node = read_config(config, sets)
    files = RealWorld().files
    found: list[str] = []
    problems: list[str] = []
    identities: dict[str, MetaProperties] = {}
    for path in sorted(directories_of(node)):
        if not files.exists(path):
            problems.append(f"{path} does not exist.")
        elif not files.status(path).is_directory:
            problems.append(f"{path} is not a directory.")
        else:
            found.append(path)
            try:
                identity = read_meta_properties(files, path)
            except (KraftError, OSError) as problem:
                problems.append(str(problem))
                continue
            if identity is None:
                problems.append(f"{path} is not formatted.")
            else:
                identities[path] = identity
    problems += _contradictions(node, identities)
    if output is not None and output.is_document:
        show(_info(found, identities, problems), [], output)
    else:
        write("\n".join(_told(found, identities, problems)) + "\n")
    if problems:
        raise typer.Exit(FAILED)


def _contradictions(node: NodeConfig, identities: dict[str, MetaProperties]) -> list[str]:
    """Directories that cannot belong to one node, or not to this one."""
    problems = [
        f"{path}: belongs to node {each.node_id}, not {node.node_id}."
        for path, each in identities.items()
        if each.node_id != node.node_id
    ]
    clusters = sorted({identity.cluster_id for identity in identities.values()})
    return problems + (
        [f"The directories belong to several clusters: {', '.join(clusters)}."] if len(clusters) > 1 else []
    )


def _info(found: list[str], identities: dict[str, MetaProperties], problems: list[str]) -> dict[str, Any]:
    directories = []
    for path in found:
        identity = identities.get(path)
        directory_id = (
            None if identity is None or identity.directory_id is None else uuid_to_text(identity.directory_id)
        )
        directories.append(
            {
                "path": path,
                "cluster_id": None if identity is None else identity.cluster_id,
                "node_id": None if identity is None else identity.node_id,
                "directory_id": directory_id,
            }
        )
    return {"directories": directories, "problems": problems}


def _told(found: list[str], identities: dict[str, MetaProperties], problems: list[str]) -> list[str]:
    """The lines that Kafka's tool prints."""
    lines = (
        [f"Found log director{'y' if len(found) == 1 else 'ies'}:", *(f"  {path}" for path in found), ""]
        if found
        else []
    )
    for path, identity in identities.items():
        values = {"cluster.id": identity.cluster_id, "node.id": str(identity.node_id), "version": "1"}
        if identity.directory_id is not None:
            values["directory.id"] = uuid_to_text(identity.directory_id)
        lines += [
            (
                f"Found metadata{f' in {path}' if len(identities) > 1 else ''}: "
                f"{{{', '.join(f'{key}={values[key]}' for key in sorted(values))}}}"
            ),
            "",
        ]
    if problems:
        lines += [f"Found problem{'s' if len(problems) > 1 else ''}:", *(f"  {problem}" for problem in problems), ""]
    return lines


@app.command("damaged", epilog="Example: kraft storage damaged --data-dir /var/kraft --accept flights:0 --execute")
def damaged(
    data_dir: Annotated[list[str], typer.Option("--data-dir", metavar="DIR", help="Log directory. Repeatable.")],
    accept: Annotated[
        str | None,
        typer.Option(
            "--accept", metavar="TOPIC:N", help="Accept the loss of records in the damaged log of this partition."
        ),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Repair. Without --execute only a preview is printed.")
    ] = False,
    output: Output = None,
) -> None:
    """Show logs that were damaged in the middle, and release one that no other replica can repair.

    Such a replica does not lead, so that clients do not miss acknowledged records unnoticed. With --accept it may lead
    again, with the records before the damage. Its node may be running: it notices within seconds. The damaged bytes
    stay in the folder `damaged` of the partition's directory.
    """
    files = RealWorld().files
    with exit_on_failure():
        found = [entry for path in data_dir for entry in find_damaged(files, path.rstrip("/") or "/")]
        if accept is None:
            _show_damaged(found, output)
            return
        chosen = [entry for entry in found if f"{entry[0].topic}:{entry[0].partition}" == accept]
        if not chosen or not chosen[0][2].is_waiting:
            raise NotFound(f"{accept}: no damaged log waits in {', '.join(data_dir)}")
        ((partition, directory, report),) = chosen
        loss = (
            f"the records in {directory}, offsets {report.start_offset} to {_known_end(report)}, are taken for "
            f"those of the topic that is named {partition.topic} now, though an earlier one may have had the name"
            if report.possible_topic_id
            else f"the records from offset {report.start_offset} on, up to {_known_end(report)} as far as is known, "
            f"are lost to readers of {partition}"
        )
        if execute:
            settle_damage(files, directory, report, ACCEPTED)
            sentence = f"Accepted: {loss}. {report.kept_bytes} bytes stay in {directory}/{DAMAGED_FOLDER}."
        else:
            sentence = f"Would accept that {loss}. Nothing was done: add --execute."
        say({"partition": str(partition), "executed": execute, **asdict(report)}, sentence, output)


def _known_end(report: DamageReport) -> str:
    return "an unknown one" if report.known_end_offset == END_UNKNOWN else str(report.known_end_offset)


def _show_damaged(found: list[tuple[TopicPartition, str, DamageReport]], output: OutputFormat | None) -> None:
    rows = [
        (
            partition,
            datetime.fromtimestamp(report.since_ms / 1000, UTC).isoformat(timespec="seconds"),
            report.state,
            report.start_offset,
            _known_end(report),
            report.kept_bytes,
            report.reason,
        )
        for partition, _, report in found
    ]
    columns = ("PARTITION", "SINCE", "STATE", "MISSING FROM", "KNOWN END", "BYTES KEPT", "REASON")
    document = {
        "damaged": [
            {"partition": str(partition), "directory": directory, **asdict(report)}
            for partition, directory, report in found
        ]
    }
    show(document, [Table(columns, rows)], output)


@app.command("random-uuid")
def print_random_uuid(output: Output = None) -> None:
    """Print a random cluster id or directory id."""
    made = random_uuid(RealWorld().random)
    say({"uuid": made}, made, output)
